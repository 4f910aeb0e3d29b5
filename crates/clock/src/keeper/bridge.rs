//! One time without a step: when another server is followed, the difference between the old clock
//! and the new one is given up little by little, and is in the bound until then.
//!
//! Where the two contradict each other there is no bridge: one of them was wrong, and whoever gave
//! up an hour at 10 ppm would be wrong for years. Then the time is set, and that is published.

use crate::scale::Scale;
use crate::sync::Clock;
use crate::time::Count;

/// At most so many ns of difference are given up in a second: 10 ppm, no more than a quartz is off.
const RATE: f64 = 10_000.0;
/// And in no less than so many seconds.
const LEAST: f64 = 16.0;

/// Whether two clocks can both be right: there is a time within both bounds.
pub(super) fn compatible(a: &Clock, b: &Clock) -> bool {
    a.time.since(b.time).unsigned_abs() as f64 <= a.bound + b.bound
}

/// What is left of the old clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bridge {
    begun: Count,
    /// Old clock - new clock, in ns.
    step: f64,
}

impl Bridge {
    /// From one clock to another at the same count.
    pub(super) fn new(begun: Count, old: &Clock, new: &Clock) -> Self {
        Self { begun, step: old.time.since(new.time) as f64 }
    }

    /// The new clock on the bridge.
    pub(super) fn over(&self, nominal: Scale, clock: Clock) -> Clock {
        let whole = (self.step.abs() / RATE).max(LEAST);
        let left = 1.0 - nominal.nanos(clock.at.since(self.begun)) as f64 * 1e-9 / whole;
        if self.step == 0.0 || left <= 0.0 {
            return clock;
        }
        let lead = self.step * left.min(1.0);
        Clock {
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
    use crate::time::Nanos;

    #[test]
    fn the_step_is_given_up_without_a_jump_and_is_in_the_bound() {
        let nominal = Scale::from_period(1.0).unwrap();
        let clock = |ns: i64| Clock {
            at: Count(ns as u64),
            time: Nanos(ns),
            period: 1.0,
            error: 1.0,
            error_rate: 1.0,
            bound: 10.0,
        };
        let old = Clock { time: Nanos(1000), ..clock(0) };
        let bridge = Bridge::new(Count(0), &old, &clock(0));
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
