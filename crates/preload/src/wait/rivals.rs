//! Whether others want the processor on which a thread polls.
//!
//! A thread that polls offers its processor every few microseconds. If somebody takes it who has much to do, it is gone for a turn of the scheduler's, 3 ms or so, because who
//! offers it gives up what is left of its own turn. Who sleeps is called at once when something comes. So where nearly every offer is taken for long, polling makes each message wait for
//! a turn, and sleeping costs microseconds. Where few are (a hypervisor's pauses, a neighbour that has something to do now and then), polling is what costs less.
//!
//! Each thread sees for itself: another of the same program may have a quieter processor.

use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// From when on somebody had much to do. What answers from the same processor is back sooner.
const LONG: Span = Span::from_micros(300);
/// So many offers from which a thread was back soon are peace: of the time that these take, less than a third is then another's.
const PEACE: u32 = 64;
/// For how long it does not poll, if there was none between two long absences. At the end it tries anew, at the price of a turn.
const KEPT: Span = Span::from_millis(500);

/// What a thread has seen of them.
#[derive(Clone, Copy, Debug)]
struct Rivals {
    /// Offers since the last long absence from which it was back soon, [`PEACE`] at most.
    soon: u32,
    /// Until when it is not to poll.
    until: Instant,
}

impl Rivals {
    const NONE: Self = Self { soon: PEACE, until: Instant::NEVER };

    /// The processor was offered at `from`, and had again at `to`. Whether it is better to sleep from here on.
    fn offered(&mut self, from: Instant, to: Instant) -> bool {
        if to.since(from) < LONG {
            self.soon = (self.soon + 1).min(PEACE);
            return false;
        }
        let again = core::mem::take(&mut self.soon) < PEACE;
        if again {
            self.until = to + KEPT;
        }
        again
    }
}

thread_local! {
    static OWN: Cell<Rivals> = const { Cell::new(Rivals::NONE) };
}

/// The calling thread offered its processor at `from`, and had it again at `to`. Whether it is better to sleep from here on.
pub(super) fn offered(from: Instant, to: Instant) -> bool {
    let mut own = OWN.get();
    let sleep = own.offered(from, to);
    OWN.set(own);
    sleep
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

    #[test]
    fn two_long_absences_without_peace_between_end_polling_for_a_while() {
        assert!(!offered(at(0), at(3000)), "one may be chance");
        assert!(!are_there(at(3000)));
        // However long after, if the thread did not poll meanwhile.
        assert!(offered(at(60_000), at(63_000)));
        assert!(are_there(at(63_000)) && are_there(at(562_999)));
        assert!(!are_there(at(563_000)), "and it is tried anew");
        assert!(offered(at(563_010), at(566_010)), "by one turn");
        std::thread::spawn(|| assert!(!are_there(at(566_010)), "another thread's processor is another"))
            .join()
            .unwrap();
    }

    #[test]
    fn a_neighbour_that_runs_now_and_then_ends_no_polling() {
        let (mut rivals, mut time) = (Rivals::NONE, 0);
        for _ in 0..1000 {
            assert!(!rivals.offered(at(time), at(time + 400)));
            time += 400;
            for _ in 0..PEACE {
                assert!(!rivals.offered(at(time + 10), at(time + 11)));
                time += 11;
            }
        }
    }

    #[test]
    fn peace_ends_it() {
        let mut rivals = Rivals::NONE;
        rivals.offered(at(0), at(3000));
        for _ in 0..PEACE {
            rivals.offered(at(3010), at(3309));
        }
        assert!(!rivals.offered(at(3310), at(7000)));
        assert!(rivals.offered(at(7010), at(10_000)));
    }
}
