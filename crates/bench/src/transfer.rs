//! Messages from one host to another, one at a time.

use crate::latency::Latency;
use crate::rate::RateFigures;
use serde::{Deserialize, Serialize};

/// The receiver's figures, which a measuring program prints as one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// From before the sender's first write until the receiver had the last byte.
    pub completion: Latency,
    /// Goodput: all messages, over a time that includes their answers.
    pub goodput: RateFigures,
}

impl Transfer {
    /// The row for a comparison: each figure is the median over the rounds, the maximum is the
    /// worst of all.
    ///
    /// Returns `None` for no rounds.
    #[must_use]
    pub fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let completion = Latency::of_rounds(&rounds.iter().map(|round| round.completion).collect::<Vec<_>>())?;
        let bits_per_second = median(rounds.iter().map(|round| round.goodput.bits_per_second))?;
        let bytes = rounds.iter().map(|round| round.goodput.bytes).sum();
        let seconds = rounds.iter().map(|round| round.goodput.seconds).sum();
        Some(Self { completion, goodput: RateFigures { bytes, seconds, bits_per_second } })
    }
}

fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn goodput_is_the_median_of_the_rounds_however_much_each_moved() {
        let round = |bytes, p50_ns| Transfer {
            completion: Latency { count: 2, min_ns: 1, p50_ns, p99_ns: 8, p999_ns: 9, max_ns: 10, lost: 0 },
            goodput: RateFigures::new(bytes, Duration::from_secs(1)),
        };
        let row = Transfer::of_rounds(&[round(1000, 3), round(1, 4), round(10, 500)]).unwrap();
        assert_eq!((row.goodput.bits_per_second, row.goodput.bytes), (80.0, 1011));
        assert_eq!((row.completion.p50_ns, row.completion.count), (4, 6));
        assert_eq!(Transfer::of_rounds(&[]), None);
    }
}
