//! The figures of a row.

use crate::bench::harness::{Figures, Outcome, median};
use tickwire_bench::latency::Latency;

/// The figures of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measured {
    /// Round trips.
    Latency(Latency),
    /// Gigabits per second.
    Rate(f64),
}

impl Measured {
    fn latency(self) -> Option<Latency> {
        match self {
            Self::Latency(latency) => Some(latency),
            Self::Rate(_) => None,
        }
    }

    fn rate(self) -> Option<f64> {
        match self {
            Self::Rate(rate) => Some(rate),
            Self::Latency(_) => None,
        }
    }
}

impl Figures for Measured {
    type Median = Self;

    fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let latencies: Vec<Latency> = rounds.iter().filter_map(|round| round.latency()).collect();
        let rate = || median(rounds.iter().filter_map(|round| round.rate()));
        Latency::of_rounds(&latencies).map(Self::Latency).or_else(|| rate().map(Self::Rate))
    }
}

impl<C> Outcome<C, Measured> {
    /// The medians of the rounds, for a latency row.
    pub(crate) fn latency(&self) -> Option<Latency> {
        self.median()?.latency()
    }

    /// The median of the rounds in Gbit/s, for a throughput row.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.median()?.rate()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A cell with one round in which every round trip took so long.
    pub(crate) fn outcome<C>(cell: C, ns: u64) -> Outcome<C, Measured> {
        let latency = Latency { count: 1, min_ns: 1, p50_ns: ns, p99_ns: ns, p999_ns: ns, max_ns: ns, lost: 0 };
        Outcome { rounds: vec![Measured::Latency(latency)], ..Outcome::new(cell) }
    }

    #[test]
    fn a_row_is_one_of_round_trips_or_of_a_rate() {
        let trips = outcome("a", 5);
        assert_eq!((trips.latency().map(|latency| latency.p99_ns), trips.rate()), (Some(5), None));
        let rates = [1.0, 3.0, 2.0].map(Measured::Rate).to_vec();
        let stream = Outcome { rounds: rates, ..Outcome::new("b") };
        assert_eq!((stream.latency(), stream.rate()), (None, Some(2.0)));
        assert_eq!(Outcome::<_, Measured>::new("c").median(), None);
    }
}
