//! Conversion of the kernel's timestamps to counts of the counter.
//!
//! Linux stamps packets by CLOCK_REALTIME. Just before a request and just after its reply, that
//! clock is read between two readings of the counter; a timestamp between the two is interpolated.
//! Slewing of the clock does not matter in so short a time. A step does: it changes
//! CLOCK_REALTIME - CLOCK_MONOTONIC, and such an exchange is dropped.
//!
//! Windows stamps packets by the performance counter, which is also its monotonic clock, and which
//! nothing sets.

#[cfg(unix)]
pub use crate::clocks::now;
use crate::clocks::{monotonic, realtime};
use tickclock::{Count, CounterKind, counter};

/// Number of tries; the quickest one is used.
const TRIES: usize = 7;
/// A step smaller than this many ns cannot be told from the readings' own error.
const STEP: i64 = 500;

/// Simultaneous readings of the counter and the kernel's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossTimestamp {
    /// The counter then.
    pub count: Count,
    /// How long the reading took, in counts: the error is at most half of it.
    pub width: i64,
    /// CLOCK_REALTIME in ns; on Windows the system time.
    pub realtime: i64,
    /// CLOCK_MONOTONIC in ns, at the same moment; on Windows the performance counter.
    pub monotonic: i64,
}

impl CrossTimestamp {
    /// Reads counter and clocks. `period` is the counter's nominal one in ns.
    #[must_use]
    pub fn take(kind: CounterKind, period: f64) -> Self {
        (0..TRIES).map(|_| Self::once(kind, period)).min_by_key(|cross_timestamp| cross_timestamp.width).expect("tries")
    }

    fn once(kind: CounterKind, period: f64) -> Self {
        let first = counter::read(kind);
        let realtime = realtime();
        let middle = counter::read(kind);
        let monotonic = monotonic();
        let last = counter::read(kind);
        let count = first.plus(middle.since(first) / 2);
        let apart = last.since(first) as f64 / 2.0 * period;
        Self { count, width: last.since(first), realtime, monotonic: monotonic - apart as i64 }
    }

    /// The clock by which the kernel stamps packets.
    const fn stamping(&self) -> i64 {
        if cfg!(windows) { self.monotonic } else { self.realtime }
    }

    /// Whether that clock was set between two cross timestamps.
    const fn is_set(before: &Self, after: &Self) -> bool {
        let step = (after.realtime - before.realtime) - (after.monotonic - before.monotonic);
        cfg!(unix) && step.abs() > STEP
    }

    /// The counter at a timestamp of the kernel's between two cross timestamps. `None` if the
    /// kernel's clock was set meanwhile.
    #[must_use]
    pub fn count_at(before: &Self, after: &Self, stamp: i64) -> Option<Count> {
        let span = after.stamping() - before.stamping();
        if Self::is_set(before, after) || span <= 0 {
            return None;
        }
        let counts = after.count.since(before.count);
        let into = i128::from(stamp - before.stamping()) * i128::from(counts);
        // No extrapolation beyond the two readings, except for their own error.
        let within = (-span / 8..=span + span / 8).contains(&(stamp - before.stamping()));
        within.then(|| before.count.plus((into / i128::from(span)) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both clocks, of which one stamps packets and shows this time.
    fn cross_timestamp(count: u64, stamping: i64) -> CrossTimestamp {
        let other = if cfg!(windows) { 1_000_000 } else { 0 };
        let realtime = stamping + other;
        CrossTimestamp { count: Count(count), width: 10, realtime, monotonic: realtime - 1_000_000 }
    }

    #[test]
    fn stamps_between_two_readings_are_interpolated() {
        let (before, after) = (cross_timestamp(1_000, 5_000), cross_timestamp(201_000, 105_000));
        assert_eq!(CrossTimestamp::count_at(&before, &after, 5_000), Some(Count(1_000)));
        assert_eq!(CrossTimestamp::count_at(&before, &after, 55_000), Some(Count(101_000)));
        assert_eq!(CrossTimestamp::count_at(&before, &after, 500_000), None, "from another time");
    }

    #[test]
    fn a_step_of_the_clock_between_them_is_seen() {
        let (before, after) = (cross_timestamp(1_000, 5_000), cross_timestamp(201_000, 105_000));
        let stepped = CrossTimestamp { realtime: after.realtime + 2_000, ..after };
        // On Windows it is not the clock that stamps.
        let count = cfg!(windows).then_some(Count(101_000));
        assert_eq!(CrossTimestamp::count_at(&before, &stepped, 55_000), count);
        let back = CrossTimestamp {
            realtime: before.realtime - 1,
            monotonic: before.monotonic - 1,
            count: after.count,
            width: 10,
        };
        assert_eq!(CrossTimestamp::count_at(&before, &back, 5_000), None);
    }

    #[test]
    fn the_real_clock_is_read_at_a_known_count() {
        let a = CrossTimestamp::take(CounterKind::MonotonicRaw, 1.0);
        let b = CrossTimestamp::take(CounterKind::MonotonicRaw, 1.0);
        assert!(b.count > a.count && b.realtime > a.realtime);
        assert!(a.width > 0);
    }
}
