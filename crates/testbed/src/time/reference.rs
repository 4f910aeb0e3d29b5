//! A reference clock, and one comparison with it.

use tickclock::{Clock, Nanos, Reading, Status, counter};
use tickwire_clock_reference::Truth;

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Reference - clock, in ns. The time that passes between the two readings makes it positive.
    pub(super) difference: i64,
    /// The clock's error bound, in ns.
    pub(super) bound: u64,
    /// Whether the reference time was within that, up to the reference's own uncertainty.
    pub(super) inside: bool,
    /// How often the comparison was repeated before this one.
    pub(super) repeated: u32,
}

/// A clock that is more accurate than the one under test.
pub(super) trait Reference {
    /// Reads the clock, and the reference right after it; none if the clock does not know the time,
    /// or the reference cannot be read now.
    fn compare(&mut self, clock: &Clock) -> Option<Pair>;
}

/// Two readings farther apart than this, in ns, were separated by an interrupt or preemption.
const NEAR: i64 = 1_000;
/// The most tries of a comparison; after them the best one counts.
const TRIES: u32 = 8;

/// The reference time is an exact function of the counter.
impl Reference for Truth {
    fn compare(&mut self, clock: &Clock) -> Option<Pair> {
        let near = self.counts(NEAR);
        let once = || {
            let (then, reading) = clock.now_with_counter();
            (then, counter::read(self.kind()), reading)
        };
        let (mut then, mut after, mut reading) = once();
        let mut repeated = 0;
        while after.since(then) > near && repeated + 1 < TRIES {
            repeated += 1;
            let another = once();
            if another.1.since(another.0) < after.since(then) {
                (then, after, reading) = another;
            }
        }
        compared(&reading, [then, after].map(|count| self.at(count)), repeated)
    }
}

/// A comparison with the reference time at the reading of the clock, and at that of the reference
/// after it.
fn compared(reading: &Reading, [then, after]: [Nanos; 2], repeated: u32) -> Option<Pair> {
    let time = known(reading)?;
    let inside = then.since(time).unsigned_abs() <= reading.bound;
    Some(Pair { difference: after.since(time), bound: reading.bound, inside, repeated })
}

/// The UTC time of a reading, if it is synchronised and known.
pub(super) fn known(reading: &Reading) -> Option<Nanos> {
    (reading.status.contains(Status::SYNCHRONISED) && reading.is_known()).then(|| reading.utc())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A reading with a bound of 500 ns, in ns of UTC; TAI is 37 s ahead.
    pub(in crate::time) fn reading(utc: i64, status: Status) -> Reading {
        let tai = Nanos(utc + 37_000_000_000);
        Reading { status, tai, offset: 37, error: 100, bound: 500, age: 0, disruptions: 0 }
    }

    #[test]
    fn a_clock_that_is_behind_makes_a_positive_difference_as_in_2015() {
        let clock = reading(1_000_000, Status::SYNCHRONISED);
        let by = |then: i64, after: i64| compared(&clock, [Nanos(then), Nanos(after)], 2).unwrap();
        let exact = Pair { difference: 25, bound: 500, inside: true, repeated: 2 };
        assert_eq!(by(1_000_000, 1_000_025), exact, "25 ns between the readings");
        assert_eq!(by(1_000_400, 1_000_425), Pair { difference: 425, ..exact }, "the clock is behind");
        assert_eq!(by(999_600, 999_625), Pair { difference: -375, ..exact }, "the clock is ahead");
        // The time between the readings is no error of the clock.
        assert_eq!(by(1_000_500, 1_000_700), Pair { difference: 700, ..exact });
        assert!(!by(1_000_501, 1_000_501).inside && !by(999_499, 999_700).inside);
    }

    #[test]
    fn a_clock_that_does_not_know_the_time_is_not_compared() {
        let at = [Nanos(0), Nanos(1)];
        assert_eq!(compared(&reading(0, Status::WARMING_UP), at, 0), None);
        let nothing = Reading { bound: u64::MAX, ..reading(0, Status::SYNCHRONISED) };
        assert_eq!(compared(&nothing, at, 0), None);
    }
}
