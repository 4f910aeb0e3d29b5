//! Acknowledgements that are held back until the program has what it waited for.
//!
//! To send one takes several microseconds. A program that has a message first and comes back to
//! wait for the next one, microseconds later, has it sooner, and the acknowledgement is hardly
//! later. One that computes for long between does not come back: then they are sent at once.

use std::cell::Cell;
use tickwire_stack::Stack;
use tickwire_stack::time::{Instant, Span};

/// A program that comes back within this time is not late.
const BACK: Span = Span::from_micros(300);

/// After it was late, so many are sent at once before one is held back again: twice as many each
/// time, because nothing may look after the lane's timers while the program is away.
const AT_ONCE: u32 = 64;
const MOST_AT_ONCE: u32 = 1 << 16;

/// So many times in a row it has to have been in time until it counts as one that was never late.
const IN_TIME: u32 = 1000;

/// What a thread knows of its own program.
#[derive(Clone, Copy, Debug)]
struct Holding {
    /// When the program got what it has not come back from; never if it has.
    since: Instant,
    /// So many times acknowledgements are sent at once from now on.
    at_once: u32,
    /// So many the next time that it is late.
    next: u32,
    /// How many times in a row it was in time.
    in_time: u32,
}

impl Holding {
    /// It has to show first that it comes back in time.
    const UNKNOWN: Self = Self { since: Instant::NEVER, at_once: AT_ONCE, next: AT_ONCE, in_time: 0 };

    /// A call that has an answer for the program leaves the lane at `now`, and there is something
    /// to acknowledge. Whether that is held back.
    fn holds(&mut self, now: Instant) -> bool {
        if self.since.is_never() {
            self.since = now;
        } else if now.since(self.since) > BACK {
            self.was_late();
            self.since = now;
        }
        self.at_once == 0
    }

    /// A call that has no answer, and will wait, leaves the lane at `now`.
    fn waits(&mut self, now: Instant) {
        if self.since.is_never() {
            return;
        }
        if now.since(self.since) > BACK {
            self.was_late();
        } else {
            self.at_once = self.at_once.saturating_sub(1);
            self.in_time += 1;
            if self.in_time == IN_TIME {
                (self.in_time, self.next) = (0, AT_ONCE);
            }
        }
        self.since = Instant::NEVER;
    }

    fn was_late(&mut self) {
        self.at_once = self.next;
        self.next = self.next.saturating_mul(2).min(MOST_AT_ONCE);
        self.in_time = 0;
    }
}

thread_local! {
    static OWN: Cell<Holding> = const { Cell::new(Holding::UNKNOWN) };
}

/// A call of the program, or the helper, leaves the lane: sends what is held back, unless the call
/// `answers` and the program comes back in time.
#[inline]
pub(super) fn settle(stack: &mut Stack<'_>, answers: bool, now: Instant) {
    let mut own = OWN.get();
    let held = stack.has_held_acks();
    let holds = answers && held && own.holds(now);
    if !answers {
        own.waits(now);
    }
    OWN.set(own);
    if held && !holds {
        stack.acknowledge_held(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    /// So many messages, 10 ms apart, from each of which the program comes back after `away`
    /// microseconds. How many acknowledgements were held back.
    fn held(own: &mut Holding, from: u64, messages: u64, away: u64) -> usize {
        let message = |message| {
            let begin = (from + message) * 10_000;
            let held = own.holds(at(begin));
            own.waits(at(begin + away));
            held
        };
        (0..messages).map(message).filter(|&held| held).count()
    }

    #[test]
    fn a_program_that_comes_back_in_time_has_them_held_back_after_a_trial() {
        let mut own = Holding::UNKNOWN;
        assert_eq!(held(&mut own, 0, 1000, 40), 1000 - AT_ONCE as usize);
    }

    #[test]
    fn of_a_program_that_computes_they_go_at_once() {
        let mut own = Holding::UNKNOWN;
        assert_eq!(held(&mut own, 0, 1000, 5000), 0);
    }

    #[test]
    fn a_program_that_is_late_now_and_then_shows_anew_that_it_is_not_and_longer_each_time() {
        let mut own = Holding::UNKNOWN;
        held(&mut own, 0, 100, 40);
        assert_eq!(held(&mut own, 100, 1, 5000), 1, "that could not be known");
        assert_eq!(held(&mut own, 101, 100, 40), 36);
        held(&mut own, 201, 1, 5000);
        assert_eq!(held(&mut own, 202, 200, 40), 72);
        assert_eq!(held(&mut own, 500, 2000, 40), 2000);
        held(&mut own, 2500, 1, 5000);
        assert_eq!(held(&mut own, 2501, 100, 40), 36, "forgiven");
    }

    #[test]
    fn a_program_that_always_finds_something_is_late_if_that_lasts() {
        let mut own = Holding::UNKNOWN;
        held(&mut own, 0, 100, 40);
        let sent = (0..100).find(|&n| !own.holds(at(2_000_000 + n * 100)));
        assert_eq!(sent, Some(4));
    }
}
