//! Histograms of times, and their summaries. All times are in nanoseconds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is resolved; longer ones count as this.
const LONGEST_NS: u64 = 100_000_000_000;

/// A histogram of times, to three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The constant bounds are valid for the histogram.
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid"))
    }
}

impl Times {
    /// Records one; below 1 ns and above 100 s count as these.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, LONGEST_NS));
    }

    /// Adds all values of another.
    pub fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The summary for a table; zeros if there are no values.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let at = |quantile| self.0.value_at_quantile(quantile);
        LatencySummary {
            count: self.0.len(),
            min_ns: self.0.min(),
            mean_ns: self.0.mean().round() as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.0.max(),
        }
    }

    /// The histogram as pairs of a time and the number of values at about that time.
    #[must_use]
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
    }

    /// From such pairs; values outside the histogram's range are clamped.
    #[must_use]
    pub fn from_pairs(pairs: &[(u64, u64)]) -> Self {
        let mut times = Self::default();
        for &(ns, count) in pairs {
            times.0.saturating_record_n(ns.clamp(1, LONGEST_NS), count);
        }
        times
    }
}

/// Summary of many times. All zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 90 of 100 were at most this.
    pub p90_ns: u64,
    /// 99 of 100 were at most this.
    pub p99_ns: u64,
    /// 999 of 1000 were at most this.
    pub p999_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl LatencySummary {
    /// The same with an upper bound that no time exceeded.
    #[must_use]
    pub fn at_most(self, ns: u64) -> Self {
        let Self { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = self;
        let [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns] =
            [min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(|time| time.min(ns));
        Self { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns }
    }
}
