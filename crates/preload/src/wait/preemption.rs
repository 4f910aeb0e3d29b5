//! Whether other threads compete for the processor on which a thread polls.
//!
//! A polling thread yields its processor every few microseconds. If a thread with much work takes
//! it, the poller loses it for a time slice of the scheduler, 3 ms or so: a yield gives up the rest
//! of its own slice. A sleeping thread is woken at once when a packet arrives. So where others use
//! a third of the time or more, polling delays many messages by a time slice, and sleeping costs
//! microseconds. Where they use less (a hypervisor's pauses, a neighbour with occasional work),
//! polling costs less. A program that starts on the same processor has much work, too, but is done
//! soon. So the thread sleeps for milliseconds first, and for longer only where the contention
//! persists.
//!
//! Each thread measures this by itself: another of the same program may have a quieter processor.

use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// An absence of this length means that another thread had much work. A peer that answers from the
/// same processor returns it sooner.
const LONG: Span = Span::from_micros(300);
/// How long the thread does not poll at first: a program that starts, or opens a lane, has much
/// work for some milliseconds and is done then.
const BRIEF: Span = Span::from_millis(10);
/// The longest time without polling; it doubles up to this. After each such time the thread polls
/// again, at the price of one time slice.
const KEPT: Span = Span::from_millis(500);

/// What a thread has measured.
#[derive(Clone, Copy, Debug)]
struct Preemption {
    /// How much longer it has to poll undisturbed until the contention counts as over: twice the
    /// last long absence, so that others had less than a third of this time.
    owed: Span,
    /// How long it did not poll the last time; zero if the contention has been over since.
    kept: Span,
    /// Until when it does not poll.
    until: Instant,
}

impl Preemption {
    const NONE: Self = Self { owed: Span::ZERO, kept: Span::ZERO, until: Instant::NEVER };

    /// The thread yielded its processor at `from`, after it had polled for `polled`, and had it
    /// again at `to`. Returns whether it is better to sleep from here on.
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
    static OWN: Cell<Preemption> = const { Cell::new(Preemption::NONE) };
}

/// The calling thread yielded its processor at `from`, after it had polled for `polled`, and had it
/// again at `to`. Returns whether it is better to sleep from here on.
pub(super) fn offered(polled: Span, from: Instant, to: Instant) -> bool {
    let mut own = OWN.get();
    let sleep = own.offered(polled, from, to);
    OWN.set(own);
    sleep
}

/// Whether the processor was lost for so long that another thread had much work. A polling thread
/// that reads its clock twice without doing anything in between detects preemption by this: a
/// thread that is busy with packets seldom yields.
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

    /// Polls for 10 microseconds, then yields for `gone` microseconds. Returns whether it is better
    /// to sleep then.
    fn poll(preemption: &mut Preemption, time: &mut u64, gone: u64) -> bool {
        *time += 10 + gone;
        preemption.offered(Span::from_micros(10), at(*time - gone), at(*time))
    }

    #[test]
    fn two_long_absences_without_peace_between_end_polling_for_a_while() {
        let polled = Span::from_micros(10);
        assert!(!offered(polled, at(0), at(3000)), "one may be chance");
        assert!(!are_there(at(3000)));
        // However long after that, if the thread did not poll meanwhile.
        assert!(offered(polled, at(60_000), at(63_000)));
        assert!(are_there(at(63_000)) && are_there(at(72_999)));
        assert!(!are_there(at(73_000)), "and it is tried anew");
        assert!(offered(polled, at(73_010), at(76_010)), "by one turn");
        std::thread::spawn(|| assert!(!are_there(at(76_010)), "another thread's processor is another")).join().unwrap();
    }

    #[test]
    fn a_persistent_competitor_is_tried_ever_more_rarely() {
        let (mut preemption, mut time, mut trials) = (Preemption::NONE, 0, 0);
        assert!(!poll(&mut preemption, &mut time, 3000));
        while time < 10_000_000 {
            assert!(poll(&mut preemption, &mut time, 3000));
            trials += 1;
            time = time.max((preemption.until.as_nanos() - 1_000_000_000) / 1000);
        }
        assert!((20..30).contains(&trials), "6 in the first second, and two in each after it, and not {trials}");
    }

    #[test]
    fn a_program_that_starts_costs_some_milliseconds() {
        let (mut preemption, mut time) = (Preemption::NONE, 0);
        for gone in [2500, 400] {
            poll(&mut preemption, &mut time, gone);
        }
        assert_eq!(preemption.until, at(time) + BRIEF);
        // After the contention is over the next program costs no more.
        for gone in [0; 100].into_iter().chain([2500, 400]) {
            poll(&mut preemption, &mut time, gone);
        }
        assert_eq!(preemption.until, at(time) + BRIEF);
    }

    #[test]
    fn a_neighbour_that_runs_now_and_then_ends_no_polling() {
        let (mut preemption, mut time) = (Preemption::NONE, 0);
        for _ in 0..1000 {
            for gone in [0; 80].into_iter().chain([400]) {
                assert!(!poll(&mut preemption, &mut time, gone));
            }
        }
    }

    /// A scheduler may let a yielding thread continue until both have had the same time: it then
    /// returns soon from many yields.
    #[test]
    fn a_neighbour_that_has_every_other_turn_ends_polling() {
        let (mut preemption, mut time) = (Preemption::NONE, 0);
        assert!(!poll(&mut preemption, &mut time, 3000));
        for _ in 0..300 {
            assert!(!poll(&mut preemption, &mut time, 0));
        }
        assert!(poll(&mut preemption, &mut time, 3000));
    }

    #[test]
    fn peace_ends_it() {
        let (mut preemption, mut time) = (Preemption::NONE, 0);
        poll(&mut preemption, &mut time, 3000);
        for _ in 0..600 {
            poll(&mut preemption, &mut time, 299);
        }
        assert!(!poll(&mut preemption, &mut time, 3000));
        assert!(poll(&mut preemption, &mut time, 3000));
    }
}
