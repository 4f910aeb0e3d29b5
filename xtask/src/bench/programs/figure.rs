//! The figures of one measurement of a program, and their medians and ratios.

use serde::Serialize;

/// Whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// A rate.
    HigherIsBetter,
    /// A latency.
    LowerIsBetter,
}

/// The figures of one run of a program, as the program reports them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    /// The program's own figure, in the unit of its row.
    pub(super) value: f64,
    /// Median latency in microseconds, if reported.
    pub(super) p50_us: Option<f64>,
    /// 99th percentile of latency in microseconds, if reported.
    pub(super) p99_us: Option<f64>,
    /// The fewest packets that must cross the stack of each accelerated end: one for two
    /// operations, because a packet may carry several.
    pub(super) packets: u64,
}

/// A part of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Value,
    P50,
    P99,
}

impl Part {
    pub(super) fn of(self, figure: &Figure) -> Option<f64> {
        match self {
            Self::Value => Some(figure.value),
            Self::P50 => figure.p50_us,
            Self::P99 => figure.p99_us,
        }
    }
}

/// The median of some values; the mean of the middle two if their number is even.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// How many times better `ours` is than `kernel`: larger is better.
pub(super) fn times(kernel: f64, ours: f64, direction: Direction) -> Option<f64> {
    let sound = kernel > 0.0 && ours > 0.0;
    sound.then(|| match direction {
        Direction::HigherIsBetter => ours / kernel,
        Direction::LowerIsBetter => kernel / ours,
    })
}

/// The geometric mean of ratios.
pub(super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn more_is_better_for_rates_and_less_for_latencies() {
        assert_eq!(times(10.0, 20.0, Direction::HigherIsBetter), Some(2.0));
        assert_eq!(times(10.0, 20.0, Direction::LowerIsBetter), Some(0.5));
        assert_eq!(times(0.0, 20.0, Direction::HigherIsBetter), None);
    }

    #[test]
    fn a_geometric_mean_takes_twice_and_half_as_nothing() {
        let mean = geometric_mean(&[2.0, 0.5, 8.0]).unwrap();
        assert!((mean - 2.0).abs() < 1e-9, "{mean}");
        assert_eq!(geometric_mean(&[]), None);
    }
}
