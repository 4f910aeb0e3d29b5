//! Slew: when another server is followed, the difference between the old clock and the new one is
//! removed gradually. Until then the rest of it is part of the bound.
//!
//! If the two clocks contradict each other, one of them was wrong, and there is no slew: an hour at
//! 10 ppm would take years. Then the time is stepped, and the step is published.

use crate::sync::ClockEstimate;
use tickwire_clockpage::{Count, Scale};

/// The fastest slew in ns per second: 10 ppm, no more than the rate error of a quartz.
const RATE: f64 = 10_000.0;
/// The shortest slew in seconds.
const LEAST: f64 = 16.0;

/// Whether two clocks can both be right: their bounds overlap.
pub(super) fn compatible(a: &ClockEstimate, b: &ClockEstimate) -> bool {
    a.time.since(b.time).unsigned_abs() as f64 <= a.bound + b.bound
}

/// The offset to the old clock that is being removed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slew {
    begun: Count,
    /// Old clock - new clock, in ns.
    step: f64,
}

impl Slew {
    /// Starts a slew from one clock to another at the same count.
    pub(super) fn new(begun: Count, old: &ClockEstimate, new: &ClockEstimate) -> Self {
        Self { begun, step: old.time.since(new.time) as f64 }
    }

    /// The new clock plus the remaining offset.
    pub(super) fn over(&self, nominal: Scale, clock: ClockEstimate) -> ClockEstimate {
        let whole = (self.step.abs() / RATE).max(LEAST);
        let left = 1.0 - nominal.nanos(clock.at.since(self.begun)) as f64 * 1e-9 / whole;
        if self.step == 0.0 || left <= 0.0 {
            return clock;
        }
        let lead = self.step * left.min(1.0);
        ClockEstimate {
            time: clock.time.plus(libm::round(lead) as i64),
            period: clock.period * (1.0 - self.step / whole * 1e-9),
            bound: clock.bound + lead.abs(),
            ..clock
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_clockpage::Nanos;

    #[test]
    fn the_step_is_given_up_without_a_jump_and_is_in_the_bound() {
        let nominal = Scale::from_period(1.0).unwrap();
        let clock = |ns: i64| ClockEstimate {
            at: Count(ns as u64),
            time: Nanos(ns),
            period: 1.0,
            error: 1.0,
            error_rate: 1.0,
            bound: 10.0,
        };
        let old = ClockEstimate { time: Nanos(1000), ..clock(0) };
        let bridge = Slew::new(Count(0), &old, &clock(0));
        let on = |ns| bridge.over(nominal, clock(ns));
        assert_eq!((on(0).time, on(0).bound), (Nanos(1000), 1010.0));
        let mut last = on(0);
        for second in 1..20 {
            let now = on(second * 1_000_000_000);
            let foretold = last.time.0 as f64 + 1e9 * last.period;
            assert!((now.time.0 as f64 - foretold).abs() < 64.0, "no jump");
            assert!((now.time.since(clock(second * 1_000_000_000).time) as f64).abs() <= now.bound);
            last = now;
        }
        assert_eq!(on(17_000_000_000), clock(17_000_000_000), "the other side");
    }
}
