//! The figures of a row.

use super::as_latency;
use tickwire_bench::latency::Latency;

/// The figures of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measured {
    /// Round trips.
    Latency(Latency),
    /// Gigabits per second.
    Rate(f64),
}

/// A row with all its rounds.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The row's name.
    pub(crate) name: &'static str,
    /// One entry for each round that succeeded.
    pub(crate) rounds: Vec<Measured>,
    /// The errors of the rounds that failed.
    pub(crate) failures: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rounds: Vec::new(), failures: Vec::new() }
    }

    /// The medians of the rounds, for a latency row.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let rounds: Vec<Latency> = self.rounds.iter().filter_map(as_latency).copied().collect();
        Latency::of_rounds(&rounds)
    }

    /// The median of the rounds in Gbit/s, for a throughput row.
    pub(crate) fn rate(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self
            .rounds
            .iter()
            .filter_map(|m| match m {
                Measured::Rate(rate) => Some(*rate),
                Measured::Latency(_) => None,
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }
}
