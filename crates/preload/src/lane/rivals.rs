//! Whether other programs want the processors on which this one's threads poll.
//!
//! A thread that polls offers its processor every few microseconds. If somebody takes it who has much to do, it is gone for a turn of the scheduler's, 3 ms or so, because who
//! offers it gives up what is left of its own turn. Who sleeps is called at once when something comes. So where offers are taken for long, polling makes each message wait for a turn,
//! and sleeping costs microseconds.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use tickwire_stack::time::{Instant, Span};

/// From when on somebody had much to do. What answers from the same processor is back sooner.
const LONG: Span = Span::from_micros(300);
/// Two such in this time are no chance: once a hypervisor may have taken the processor.
const TOGETHER: Span = Span::from_millis(50);
/// For how long nobody polls then. At the end it is tried anew, at the price of two turns.
const KEPT: Span = Span::from_millis(500);

/// What this process has seen of them.
#[derive(Debug, Default)]
pub(crate) struct Rivals {
    /// When a processor was last away for long, and until when nobody is to poll, in nanoseconds; 0 never.
    seen: AtomicU64,
    until: AtomicU64,
}

impl Rivals {
    /// A processor was offered at `from`, and had again at `to`.
    pub(crate) fn offered(&self, from: Instant, to: Instant) {
        if to.since(from) < LONG {
            return;
        }
        let before = self.seen.swap(to.as_nanos(), Relaxed);
        if before != 0 && from.since(Instant::from_nanos(before)) <= TOGETHER {
            self.until.store((to + KEPT).as_nanos(), Relaxed);
        }
    }

    /// Whether it is better to sleep than to poll.
    pub(crate) fn are_there(&self, now: Instant) -> bool {
        now.as_nanos() < self.until.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    #[test]
    fn two_long_absences_soon_after_each_other_end_polling_for_a_while() {
        let rivals = Rivals::default();
        rivals.offered(at(0), at(3000));
        assert!(!rivals.are_there(at(3000)), "one may be chance");
        rivals.offered(at(3100), at(6100));
        assert!(rivals.are_there(at(6100)));
        assert!(rivals.are_there(at(506_099)));
        assert!(!rivals.are_there(at(506_100)), "and it is tried anew");
    }

    #[test]
    fn short_absences_and_single_ones_are_no_rivals() {
        let rivals = Rivals::default();
        for n in 0..1000 {
            rivals.offered(at(n * 300), at(n * 300 + 299));
        }
        assert!(!rivals.are_there(at(300_000)));
        for n in 0..10 {
            rivals.offered(at(1_000_000 + n * 60_000), at(1_000_000 + n * 60_000 + 3000));
            assert!(!rivals.are_there(at(1_000_000 + n * 60_000 + 3000)));
        }
    }
}
