//! Round-trip times as one histogram, and the figures that a row of the table shows.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Collects round-trip times, in nanoseconds, to three significant digits, up to ten seconds.
#[derive(Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
}

/// The figures of one round, in nanoseconds, which a measuring program prints as one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How many round trips.
    pub count: u64,
    /// The fastest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100 were at most this.
    pub p99_ns: u64,
    /// 999 of 1000 were at most this.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Messages without an answer.
    pub lost: u64,
}

const LONGEST_NS: u64 = 10_000_000_000;

impl Recorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        // The bounds are constants that the histogram accepts.
        Self { histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds are valid") }
    }

    /// Records one round trip; those longer than ten seconds count as ten seconds.
    pub fn record(&mut self, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos()).unwrap_or(LONGEST_NS);
        self.histogram.saturating_record(ns.clamp(1, LONGEST_NS));
    }

    /// The figures so far.
    #[must_use]
    pub fn latency(&self, lost: u64) -> Latency {
        let at = |q| self.histogram.value_at_quantile(q);
        Latency {
            count: self.histogram.len(),
            min_ns: self.histogram.min(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.histogram.max(),
            lost,
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// The row for a comparison: each figure is the median over the rounds, the maximum is the
    /// worst of all.
    ///
    /// Returns `None` for no rounds.
    #[must_use]
    pub fn of_rounds(rounds: &[Self]) -> Option<Self> {
        if rounds.is_empty() {
            return None;
        }
        let median = |figure: fn(&Self) -> u64| {
            let mut values: Vec<u64> = rounds.iter().map(figure).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        Some(Self {
            count: rounds.iter().map(|r| r.count).sum(),
            min_ns: rounds.iter().map(|r| r.min_ns).min()?,
            p50_ns: median(|r| r.p50_ns),
            p99_ns: median(|r| r.p99_ns),
            p999_ns: median(|r| r.p999_ns),
            max_ns: rounds.iter().map(|r| r.max_ns).max()?,
            lost: rounds.iter().map(|r| r.lost).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_recorded_times() {
        let mut recorder = Recorder::new();
        for us in 1..=1000 {
            recorder.record(Duration::from_micros(us));
        }
        let latency = recorder.latency(2);
        let near = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 500;
        assert_eq!((latency.count, latency.lost), (1000, 2));
        assert!(near(latency.p50_ns, 500_000) && near(latency.p99_ns, 990_000) && near(latency.max_ns, 1_000_000));
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds_and_the_worst_of_all() {
        let round = |p50_ns, max_ns| Latency { count: 1, min_ns: 1, p50_ns, p99_ns: 9, p999_ns: 9, max_ns, lost: 0 };
        let row = Latency::of_rounds(&[round(5, 100), round(900, 20), round(6, 30)]).unwrap();
        assert_eq!((row.p50_ns, row.max_ns, row.count), (6, 100, 3));
        assert_eq!(Latency::of_rounds(&[]), None);
    }
}
