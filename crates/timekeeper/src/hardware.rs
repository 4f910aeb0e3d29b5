//! The counter to use, its nominal period, and whether it has broken.

use crate::cores::{self, Agreement};
use crate::os;
use std::borrow::Cow;
use std::time::Duration;
use tickclock::{Count, CounterKind, Scale, counter};

/// Duration of the measurement of the nominal period.
const MEASURE: Duration = Duration::from_millis(50);
/// A counter that deviates from the system's unsteered clock by more than the sum of both, relative
/// and in ns, has broken. The kernel's clock may be off by 100 ppm.
const BREAK_RATE: f64 = 1e-3;
const BREAK_LEAST: f64 = 100_000.0;

/// The best counter of this machine, and the reason. A TSC must run at one rate in all sleep
/// states, the system, which checks that, must trust it, and no two processors' TSCs may be apart.
#[must_use]
pub fn choose() -> (CounterKind, Cow<'static, str>) {
    if counter::exists(CounterKind::Cntvct) {
        return (CounterKind::Cntvct, "the architecture guarantees it".into());
    }
    if !counter::exists(CounterKind::Tsc) {
        return (CounterKind::MonotonicRaw, "no other counter is known on this processor".into());
    }
    if let Some(why) = os::why_no_tsc() {
        return (CounterKind::MonotonicRaw, why.into());
    }
    match cores::compare(CounterKind::Tsc) {
        Agreement::Apart { first, other, counts } => {
            let why = format!("the TSCs of processors {first} and {other} are {counts} counts apart");
            (CounterKind::MonotonicRaw, why.into())
        }
        Agreement::Within { processors: ..=1, .. } => (CounterKind::Tsc, "invariant, and the kernel trusts it".into()),
        Agreement::Within { processors, counts } => {
            let why = format!(
                "invariant, the kernel trusts it, and those of {processors} processors are within {counts} counts of the first"
            );
            (CounterKind::Tsc, why.into())
        }
    }
}

/// The counter's period in ns, measured with the system's unsteered clock: CLOCK_MONOTONIC_RAW, and
/// on Windows the performance counter.
#[must_use]
pub fn nominal(kind: CounterKind) -> Option<Scale> {
    if kind == CounterKind::MonotonicRaw {
        return Scale::from_period(1.0);
    }
    let first = Look::take(kind);
    std::thread::sleep(MEASURE);
    let last = Look::take(kind);
    Scale::from_period((last.raw - first.raw) as f64 / last.count.since(first.count) as f64)
}

/// Counter and system clocks at one moment, to detect breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The counter.
    pub count: Count,
    /// The system's unsteered clock in ns.
    pub raw: i64,
    /// Time spent in suspend, in ns.
    pub slept: i64,
}

impl Look {
    /// Reads counter and clocks; the quickest of five tries counts.
    #[must_use]
    pub fn take(kind: CounterKind) -> Self {
        let once = || {
            let before = counter::read(kind);
            let raw = os::unsteered();
            let after = counter::read(kind);
            (after.since(before), before.plus(after.since(before) / 2), raw)
        };
        let (_, count, raw) = (0..5).map(|_| once()).min_by_key(|&(width, ..)| width).expect("tries");
        Self { count, raw, slept: os::slept() }
    }

    /// Describes the break of the counter since an earlier look, if there is one.
    #[must_use]
    pub fn broken_since(&self, before: &Self, nominal: Scale) -> Option<String> {
        let slept = self.slept - before.slept;
        if slept > 1_000_000 {
            return Some(format!("the machine slept for {:.3} s", slept as f64 * 1e-9));
        }
        let counted = nominal.nanos(self.count.since(before.count));
        let passed = self.raw - before.raw;
        let off = (counted - passed) as f64;
        (off.abs() > BREAK_LEAST + BREAK_RATE * passed as f64)
            .then(|| format!("the counter went {:.3} s in {:.3} s", counted as f64 * 1e-9, passed as f64 * 1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_counter_has_a_period_and_is_whole() {
        let (kind, why) = choose();
        let nominal = nominal(kind).unwrap();
        assert!((0.01..1000.0).contains(&nominal.period()), "{kind:?} ({why}): {nominal:?}");
        let before = Look::take(kind);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(Look::take(kind).broken_since(&before, nominal), None);
    }

    #[test]
    fn breaks_are_seen() {
        let nominal = Scale::from_period(1.0).unwrap();
        let before = Look { count: Count(5_000_000_000), raw: 0, slept: 0 };
        let second = Look { count: Count(6_000_050_000), raw: 1_000_000_000, slept: 0 };
        assert_eq!(second.broken_since(&before, nominal), None);
        let jumped = Look { count: Count(7_000_000_000), ..second };
        assert_eq!(jumped.broken_since(&before, nominal).unwrap(), "the counter went 2.000 s in 1.000 s");
        assert!(Look { count: Count(7), ..second }.broken_since(&before, nominal).is_some());
        let slept = Look { slept: 60_000_000_000, ..second };
        assert_eq!(slept.broken_since(&before, nominal).unwrap(), "the machine slept for 60.000 s");
    }
}
