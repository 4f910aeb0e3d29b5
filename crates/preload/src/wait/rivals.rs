//! Whether others want the processor on which a thread polls.
//!
//! A thread that polls offers its processor every few microseconds. If somebody takes it who has
//! much to do, it is gone for a turn of the scheduler's, 3 ms or so, because who offers it gives up
//! what is left of its own turn. Who sleeps is called at once when something comes. So where others
//! have a third of the time and more, polling makes many a message wait for a turn, and sleeping
//! costs microseconds. Where they have less (a hypervisor's pauses, a neighbour that has something
//! to do now and then), polling is what costs less. Who begins a program beside it has much to do,
//! too, but is done soon: so the thread sleeps for milliseconds first, and for longer only where
//! that does not end.
//!
//! Each thread sees for itself: another of the same program may have a quieter processor.

use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// From when on somebody had much to do. What answers from the same processor is back sooner.
const LONG: Span = Span::from_micros(300);
/// For how long it does not poll at first: somebody who begins a program, or opens a lane, has much
/// to do for some milliseconds and is gone then.
const BRIEF: Span = Span::from_millis(10);
/// For how long it does not poll in the end, twice as long each time. After each time it tries
/// anew, at the price of a turn.
const KEPT: Span = Span::from_millis(500);

/// What a thread has seen of them.
#[derive(Clone, Copy, Debug)]
struct Rivals {
    /// For how long it has yet to poll undisturbed until there is peace: twice the last long
    /// absence, so that of this time less than a third was another's.
    owed: Span,
    /// For how long it did not poll the last time; zero if there has been peace since.
    kept: Span,
    /// Until when it is not to poll.
    until: Instant,
}

impl Rivals {
    const NONE: Self = Self { owed: Span::ZERO, kept: Span::ZERO, until: Instant::NEVER };

    /// The processor was offered at `from`, after the thread had polled for `polled`, and had again
    /// at `to`. Whether it is better to sleep from here on.
    fn offered(&mut self, polled: Span, from: Instant, to: Instant) -> bool {
        self.owed = self.owed - polled;
        let peace = self.owed.is_zero();
        if peace {
            self.kept = Span::ZERO;
        }
        let gone = to.since(from);
        if gone < LONG {
            return false;
        }
        self.owed = gone + gone;
        if !peace {
            self.kept = (self.kept + self.kept).clamp(BRIEF, KEPT);
            self.until = to + self.kept;
        }
        !peace
    }
}

thread_local! {
    static OWN: Cell<Rivals> = const { Cell::new(Rivals::NONE) };
}

/// The calling thread offered its processor at `from`, after it had polled for `polled`, and had it
/// again at `to`. Whether it is better to sleep from here on.
pub(super) fn offered(polled: Span, from: Instant, to: Instant) -> bool {
    let mut own = OWN.get();
    let sleep = own.offered(polled, from, to);
    OWN.set(own);
    sleep
}

/// Whether the processor was another's for so long that it had much to do. A polling thread that
/// reads its clock twice without doing anything between sees by this that its processor was taken:
/// one that is busy with packets seldom offers it.
pub(super) fn is_long(gone: Span) -> bool {
    gone >= LONG
}

/// Whether it is better for the calling thread to sleep than to poll.
pub(super) fn are_there(now: Instant) -> bool {
    now < OWN.get().until
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    /// The tenth microsecond of polling ends with an offer that takes `gone` microseconds. Whether
    /// it is better to sleep then.
    fn poll(rivals: &mut Rivals, time: &mut u64, gone: u64) -> bool {
        *time += 10 + gone;
        rivals.offered(Span::from_micros(10), at(*time - gone), at(*time))
    }

    #[test]
    fn two_long_absences_without_peace_between_end_polling_for_a_while() {
        let polled = Span::from_micros(10);
        assert!(!offered(polled, at(0), at(3000)), "one may be chance");
        assert!(!are_there(at(3000)));
        // However long after, if the thread did not poll meanwhile.
        assert!(offered(polled, at(60_000), at(63_000)));
        assert!(are_there(at(63_000)) && are_there(at(72_999)));
        assert!(!are_there(at(73_000)), "and it is tried anew");
        assert!(offered(polled, at(73_010), at(76_010)), "by one turn");
        std::thread::spawn(|| assert!(!are_there(at(76_010)), "another thread's processor is another")).join().unwrap();
    }

    #[test]
    fn who_stays_is_tried_ever_more_rarely() {
        let (mut rivals, mut time, mut trials) = (Rivals::NONE, 0, 0);
        assert!(!poll(&mut rivals, &mut time, 3000));
        while time < 10_000_000 {
            assert!(poll(&mut rivals, &mut time, 3000));
            trials += 1;
            time = time.max((rivals.until.as_nanos() - 1_000_000_000) / 1000);
        }
        assert!((20..30).contains(&trials), "6 in the first second, and two in each after it, and not {trials}");
    }

    #[test]
    fn who_begins_a_program_costs_some_milliseconds() {
        let (mut rivals, mut time) = (Rivals::NONE, 0);
        for gone in [2500, 400] {
            poll(&mut rivals, &mut time, gone);
        }
        assert_eq!(rivals.until, at(time) + BRIEF);
        // After peace the next one costs no more.
        for gone in [0; 100].into_iter().chain([2500, 400]) {
            poll(&mut rivals, &mut time, gone);
        }
        assert_eq!(rivals.until, at(time) + BRIEF);
    }

    #[test]
    fn a_neighbour_that_runs_now_and_then_ends_no_polling() {
        let (mut rivals, mut time) = (Rivals::NONE, 0);
        for _ in 0..1000 {
            for gone in [0; 80].into_iter().chain([400]) {
                assert!(!poll(&mut rivals, &mut time, gone));
            }
        }
    }

    /// A scheduler may let who offers go on until both had as much: there are many offers then from
    /// which it is back soon.
    #[test]
    fn a_neighbour_that_has_every_other_turn_ends_polling() {
        let (mut rivals, mut time) = (Rivals::NONE, 0);
        assert!(!poll(&mut rivals, &mut time, 3000));
        for _ in 0..300 {
            assert!(!poll(&mut rivals, &mut time, 0));
        }
        assert!(poll(&mut rivals, &mut time, 3000));
    }

    #[test]
    fn peace_ends_it() {
        let (mut rivals, mut time) = (Rivals::NONE, 0);
        poll(&mut rivals, &mut time, 3000);
        for _ in 0..600 {
            poll(&mut rivals, &mut time, 299);
        }
        assert!(!poll(&mut rivals, &mut time, 3000));
        assert!(poll(&mut rivals, &mut time, 3000));
    }
}
