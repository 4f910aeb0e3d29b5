//! Acknowledgements that are held back until the program has what it waited for.
//!
//! To send one takes several microseconds. A program that has a message first and comes back to
//! wait for the next one, microseconds later, has it sooner, and the acknowledgement is hardly
//! later. One that computes for long between does not come back: then they are sent at once.

use std::cell::Cell;
use tickwire_stack::Stack;
use tickwire_stack::time::{Instant, Span};

/// A program that comes back within this time is not late.
const BACK: Span = Span::from_millis(1);

/// After it was late, so many are sent at once before one is held back again.
const AT_ONCE: u32 = 64;

/// What a thread knows of its own program.
#[derive(Clone, Copy, Debug)]
struct Holding {
    /// Since when one is held back, if one is.
    since: Instant,
    /// So many are sent at once from now on.
    at_once: u32,
}

impl Holding {
    const NONE: Self = Self { since: Instant::NEVER, at_once: 0 };

    /// A call leaves the lane at `now` while acknowledgements are held back. Whether they go: the
    /// call has an answer for the program, or it has none and will wait.
    fn leaves(&mut self, answers: bool, now: Instant) -> bool {
        let late = !self.since.is_never() && now.since(self.since) > BACK;
        if late {
            self.at_once = AT_ONCE;
        }
        let send = if !answers || late {
            true
        } else if self.since.is_never() && self.at_once > 0 {
            self.at_once -= 1;
            true
        } else {
            false
        };
        if send {
            self.since = Instant::NEVER;
        } else if self.since.is_never() {
            self.since = now;
        }
        send
    }
}

thread_local! {
    static OWN: Cell<Holding> = const { Cell::new(Holding::NONE) };
}

/// A call of the program, or the helper, leaves the lane: sends what is held back, unless the call
/// `answers`.
#[inline]
pub(super) fn settle(stack: &mut Stack<'_>, answers: bool, now: Instant) {
    if !stack.has_held_acks() {
        return;
    }
    let mut own = OWN.get();
    if own.leaves(answers, now) {
        stack.acknowledge_held(now);
    }
    OWN.set(own);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    #[test]
    fn they_go_when_the_program_waits() {
        let mut own = Holding::NONE;
        for message in 0..100 {
            let begin = message * 10_000;
            assert!(!own.leaves(true, at(begin)) && !own.leaves(true, at(begin + 20)));
            assert!(own.leaves(false, at(begin + 40)));
        }
    }

    #[test]
    fn of_a_program_that_comes_back_late_they_go_at_once() {
        let mut own = Holding::NONE;
        assert!(!own.leaves(true, at(0)));
        assert!(own.leaves(false, at(5000)), "it computed");
        let held = (1..1000).filter(|&message| {
            let held = !own.leaves(true, at(message * 10_000));
            own.leaves(false, at(message * 10_000 + 5000));
            held
        });
        assert!((10..20).contains(&held.count()));
    }

    #[test]
    fn a_program_that_always_finds_something_does_not_hold_them_back_for_long() {
        let mut own = Holding::NONE;
        let sent = (0..100).find(|&n| own.leaves(true, at(n * 100)));
        assert_eq!(sent, Some(11));
    }
}
