//! Acknowledgements that are held back until the program has the data it waited for.
//!
//! Sending one takes several microseconds. A program that gets its message first, and returns for
//! the next one microseconds later, has it sooner, and the acknowledgement is hardly later. A
//! program that computes for long in between does not return: then acknowledgements are sent at
//! once.

use std::cell::Cell;
use tickwire_stack::Stack;
use tickwire_stack::time::{Instant, Span};

/// A program that returns within this time is not late. While the program gets one message after
/// the other, no acknowledgement is held back for longer.
const BACK: Span = Span::from_micros(300);

/// At first, and after the program was late, it has to return in time this often before an
/// acknowledgement is held back again. So at most one in as many waits for the
/// delayed-acknowledgement timer: the program may not return for long.
const AT_ONCE: u32 = 64;

/// What a thread knows of its program's behaviour.
#[derive(Clone, Copy, Debug)]
struct Holding {
    /// When the last call with a result left the lane; never if the program waits.
    left: Instant,
    /// When the call left the lane after which acknowledgements have been held back for the
    /// longest; never if none are.
    since: Instant,
    /// For this many calls from now on acknowledgements are sent at once.
    at_once: u32,
}

impl Holding {
    /// The program has to show first that it returns in time.
    const UNKNOWN: Self = Self { left: Instant::NEVER, since: Instant::NEVER, at_once: AT_ONCE };

    /// A call with a result for the program leaves the lane at `now`; `held`: there is something to
    /// acknowledge. Returns whether that is held back.
    fn answers(&mut self, now: Instant, held: bool) -> bool {
        self.is_back(now);
        if !held {
            // Messages are counted, not what the program does with them.
            (self.left, self.since) = (Instant::NEVER, Instant::NEVER);
            return false;
        }
        self.left = now;
        if self.since.is_never() {
            self.since = now;
        }
        let holds = self.at_once == 0 && now.since(self.since) <= BACK;
        if !holds {
            self.since = Instant::NEVER;
        }
        holds
    }

    /// A call without a result, which will wait, leaves the lane at `now`.
    fn waits(&mut self, now: Instant) {
        self.is_back(now);
        (self.left, self.since) = (Instant::NEVER, Instant::NEVER);
    }

    /// The program has returned from the last call with a result.
    fn is_back(&mut self, now: Instant) {
        if !self.left.is_never() {
            let in_time = now.since(self.left) <= BACK;
            self.at_once = if in_time { self.at_once.saturating_sub(1) } else { AT_ONCE };
        }
    }
}

thread_local! {
    static OWN: Cell<Holding> = const { Cell::new(Holding::UNKNOWN) };
}

/// A call of the program, or the helper, leaves the lane: sends what is held back, unless the call
/// `answers` the program and the program returns in time.
#[inline]
pub(super) fn settle(stack: &mut Stack<'_>, answers: bool, now: Instant) {
    let mut own = OWN.get();
    let held = stack.has_held_acks();
    let holds = answers && own.answers(now, held);
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
            let held = own.answers(at(begin), true);
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
    fn a_program_that_is_late_now_and_then_shows_anew_that_it_is_not() {
        let mut own = Holding::UNKNOWN;
        held(&mut own, 0, 100, 40);
        for late in 1..20 {
            let from = late * 101;
            assert_eq!(held(&mut own, from - 1, 1, 5000), 1, "that could not be known");
            assert_eq!(held(&mut own, from, 100, 40), 100 - AT_ONCE as usize);
        }
    }

    #[test]
    fn a_program_that_always_finds_something_has_them_sent_now_and_then_and_is_not_late() {
        let mut own = Holding::UNKNOWN;
        held(&mut own, 0, 100, 40);
        let sent: Vec<u64> = (0..100).filter(|&n| !own.answers(at(2_000_000 + n * 90), true)).collect();
        assert_eq!(sent[..3], [4, 9, 14]);
        own.waits(at(2_000_000 + 100 * 90));
        assert_eq!(held(&mut own, 1000, 1, 40), 1, "it was not late");
    }
}
