//! The rate that the system clock should have: how the published clock's rate differs from that of
//! the kernel's unsteered clock, both measured with the counter.

use crate::hardware::Look;

/// Shortest span of a measurement of the kernel's unsteered clock, in ns: good to some 10^-9.
const LEAST: i64 = 4_000_000_000;
/// Half of the longest span: on some machines that clock is not an exact multiple of the counter.
const MOST: i64 = 1_000_000_000_000;

/// Two earlier looks at the counter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    older: Option<Look>,
    newer: Option<Look>,
}

impl Gauge {
    /// By how much faster the system clock should run than it does by itself, in ppm, if one count
    /// is `period` ns; `None` until that is measured.
    pub(super) fn turn(&mut self, look: &Look, period: f64) -> Option<f64> {
        let older = *self.older.get_or_insert(*look);
        let newer = *self.newer.get_or_insert(*look);
        let (counts, passed) = (look.count.since(older.count), look.raw - older.raw);
        if counts < 0 || passed < 0 {
            *self = Self::default();
            return None;
        }
        if look.raw - newer.raw > MOST {
            (self.older, self.newer) = (self.newer, Some(*look));
        }
        (passed >= LEAST && counts > 0).then(|| (period * counts as f64 / passed as f64 - 1.0) * 1e6)
    }

    /// The counter has broken.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickclock::Count;

    #[test]
    fn the_difference_of_both_rates_is_found() {
        let mut gauge = Gauge::default();
        // The kernel assumes a counter of 2 GHz; the true rate is 10 ppm lower.
        let at =
            |second: i64| Look { count: Count((second * 2_000_000_000) as u64), raw: second * 1_000_000_000, slept: 0 };
        let period = 0.5 * (1.0 + 10e-6);
        assert_eq!(gauge.turn(&at(100), period), None);
        for second in [104, 1_000, 2_500, 10_000] {
            let ppm = gauge.turn(&at(second), period).unwrap();
            assert!((ppm - 10.0).abs() < 1e-6, "{ppm}");
        }
        assert!(gauge.older.unwrap().raw > 100_000_000_000, "older looks are forgotten");
        assert_eq!(gauge.turn(&at(5), period), None, "backwards");
    }
}
