//! Integer conversion from counts to nanoseconds, so that a reader and the algorithm agree to the
//! last bit on every machine.

/// Nanoseconds per count as `mult / 2^shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Numerator, below 2^54.
    pub mult: u64,
    /// The denominator's power of two, below 63.
    pub shift: u32,
}

/// Significant bits of `mult`: a resolution of 2^-52 is finer than the accuracy of any known
/// period.
const BITS: i32 = 53;

impl Scale {
    /// The scale of a counter with this period in nanoseconds.
    ///
    /// `None` if the period is below a picosecond, above a second, or NaN.
    #[must_use]
    pub fn from_period(ns: f64) -> Option<Self> {
        if !(1e-3..=1e9).contains(&ns) {
            return None;
        }
        let (_, exponent) = libm::frexp(ns);
        let shift = BITS - exponent;
        let mult = libm::round(libm::ldexp(ns, shift)) as u64;
        Some(Self { mult, shift: u32::try_from(shift).ok()? })
    }

    /// The period in nanoseconds.
    #[must_use]
    pub fn period(self) -> f64 {
        libm::ldexp(self.mult as f64, -(self.shift as i32))
    }

    /// Converts counts to nanoseconds, rounded to the nearest, half up. Saturates.
    #[must_use]
    #[inline]
    pub const fn nanos(self, counts: i64) -> i64 {
        // `mult` is below 2^63, so the signed product is one instruction.
        let product = counts as i128 * (self.mult as i64) as i128;
        let half = ((1u64 << self.shift) >> 1) as i128;
        let ns = (product + half) >> self.shift;
        saturated(ns)
    }

    /// Converts nanoseconds to counts, rounded to the nearest. Saturates.
    #[must_use]
    pub const fn counts(self, ns: i64) -> i64 {
        if self.mult == 0 {
            return i64::MAX;
        }
        let counts = (((ns as i128) << self.shift) + self.mult as i128 / 2).div_euclid(self.mult as i128);
        saturated(counts)
    }
}

/// The nearest value that 64 bits hold. Nearly always that is the value itself, so the branch is
/// predicted and adds no latency.
#[inline]
const fn saturated(value: i128) -> i64 {
    if value as i64 as i128 == value { value as i64 } else { beyond(value) }
}

#[cold]
const fn beyond(value: i128) -> i64 {
    if value > 0 { i64::MAX } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn periods_of_real_counters_survive() {
        for (hz, counts, ns) in
            [(2_500_000_000.0, 5, 2), (1e9, 7, 7), (24e6, 24_000_000, 1_000_000_000), (1e3, 1, 1_000_000)]
        {
            let scale = Scale::from_period(1e9 / hz).unwrap();
            assert_eq!(scale.nanos(counts), ns, "{hz}");
            assert_eq!(scale.nanos(-counts), -ns, "{hz}");
            assert_eq!(scale.counts(ns), counts, "{hz}");
        }
        for none in [0.0, -1.0, 1e-9, 1e10, f64::NAN, f64::INFINITY] {
            assert_eq!(Scale::from_period(none), None);
        }
    }

    proptest! {
        #[test]
        fn a_period_is_kept_to_its_last_digits(period in 1e-3..1e6) {
            let back = Scale::from_period(period).unwrap().period();
            prop_assert!((back / period - 1.0).abs() < 1e-15);
        }

        #[test]
        fn more_counts_are_never_less_time(period in 1e-2..1e4, a in any::<i64>(), b in any::<i64>()) {
            let scale = Scale::from_period(period).unwrap();
            prop_assert!((a <= b) == (scale.nanos(a) <= scale.nanos(b)) || scale.nanos(a) == scale.nanos(b));
        }
    }
}
