//! Samples for ntpd and chronyd: our clock and the system clock at one instant, once a second.

use tickclock::{Leap, Reading, Status};
use tickwire_osclock::refclock::{self, Sample, Segment, ShmError};

/// A leap second is announced so long before, in ns: on its day.
const DAY: i64 = 86_400_000_000_000;
/// Around a leap second the two clocks may mean different seconds: no sample is fed for so many ns
/// before and after.
const GREY: i64 = 2_000_000_000;

/// A unit that is fed.
#[derive(Debug)]
pub(super) struct Refclock {
    segment: Segment,
}

impl Refclock {
    pub(super) fn new(unit: u8) -> Result<Self, ShmError> {
        let segment = Segment::attach(unit)?;
        tracing::info!(unit, "feeding the NTP shared memory");
        Ok(Self { segment })
    }

    /// Feeds a sample, unless the time is unreliable.
    pub(super) fn turn(&mut self, reading: &Reading, system: i64, leap: Leap) {
        if let Some(sample) = sample(reading, system, leap) {
            self.segment.feed(&sample);
        }
    }
}

/// `None`: a program that reads the samples is better off with its other sources.
fn sample(reading: &Reading, system: i64, leap: Leap) -> Option<Sample> {
    let bad = Status::STALE | Status::HOLDOVER | Status::DISRUPTED;
    let bad = reading.status.0 & bad.0 != 0;
    let until = leap.at.since(reading.tai);
    if bad || reading.bound >= super::USELESS || leap.step != 0 && until.abs() < GREY {
        return None;
    }
    let announced = match leap.step {
        1 if (0..DAY).contains(&until) => refclock::ShmLeap::Insert,
        -1 if (0..DAY).contains(&until) => refclock::ShmLeap::Delete,
        _ => refclock::ShmLeap::None,
    };
    Some(Sample { clock: reading.utc().0, system, leap: announced, precision: precision(reading.error) })
}

/// log2 of an error in seconds, rounded up.
fn precision(ns: u64) -> i8 {
    (ns.max(1) as f64 * 1e-9).log2().ceil() as i8
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickclock::Nanos;

    const SECOND: i64 = 1_000_000_000;

    fn reading() -> Reading {
        let status = Status::SYNCHRONISED;
        Reading { status, tai: Nanos(1037 * SECOND + 7), offset: 37, error: 1000, bound: 5000, age: 0, disruptions: 0 }
    }

    #[test]
    fn a_sample_is_both_clocks_with_what_is_announced() {
        let no = Leap { offset: 37, step: 0, at: Nanos(0) };
        let plain = sample(&reading(), 1000 * SECOND, no).unwrap();
        let expected =
            Sample { clock: 1000 * SECOND + 7, system: 1000 * SECOND, leap: refclock::ShmLeap::None, precision: -19 };
        assert_eq!(plain, expected);
        let leap = |step, seconds: i64| Leap { step, at: Nanos((1037 + seconds) * SECOND), ..no };
        let said = |leap| sample(&reading(), 0, leap).map(|sample| sample.leap);
        assert_eq!(said(leap(1, 3600)), Some(refclock::ShmLeap::Insert));
        assert_eq!(said(leap(-1, 3600)), Some(refclock::ShmLeap::Delete));
        assert_eq!(said(leap(1, 100_000)), Some(refclock::ShmLeap::None), "not on its day yet");
        assert_eq!(said(leap(1, -3600)), Some(refclock::ShmLeap::None), "over");
        assert_eq!(said(leap(1, 1)), None);
    }

    #[test]
    fn what_is_not_known_is_not_fed() {
        let no = Leap::default();
        for status in [Status::STALE, Status::HOLDOVER, Status::DISRUPTED] {
            assert_eq!(sample(&Reading { status: Status::SYNCHRONISED | status, ..reading() }, 0, no), None);
        }
        assert_eq!(sample(&Reading { status: Status::default(), bound: u64::MAX, ..reading() }, 0, no), None);
        assert_eq!(sample(&Reading { bound: 3600 * SECOND as u64, ..reading() }, 0, no), None, "servers disagree");
    }

    #[test]
    fn precisions() {
        assert_eq!([0, 1, 1_000, 1_000_000_000].map(precision), [-29, -29, -19, 0]);
    }
}
