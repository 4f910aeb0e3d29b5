//! The figures of a measurement.

/// Round trips, or throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figures {
    /// Percentiles of the round trip in microseconds.
    RoundTrip {
        /// The median.
        p50: f64,
        /// 99 of 100 were at most this.
        p99: f64,
        /// 999 of 1000 were at most this.
        p999: f64,
        /// The slowest.
        max: f64,
    },
    /// Gbit/s of payload.
    Rate(f64),
}

impl Figures {
    /// Percentiles of a list of round trips in microseconds; none if it is empty.
    pub(crate) fn of(mut round_trips: Vec<f64>) -> Option<Self> {
        round_trips.sort_by(f64::total_cmp);
        let max = *round_trips.last()?;
        // The nearest-rank percentile, in thousandths.
        let at = |thousandths: usize| {
            let rank = (round_trips.len() * thousandths).div_ceil(1000);
            round_trips.get(rank.saturating_sub(1)).copied().unwrap_or(max)
        };
        Some(Self::RoundTrip { p50: at(500), p99: at(990), p999: at(999), max })
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn percentiles_are_ranks_of_the_sorted_list() {
        let figures = Figures::of((1..=1000).rev().map(f64::from).collect());
        assert_eq!(figures, Some(Figures::RoundTrip { p50: 500.0, p99: 990.0, p999: 999.0, max: 1000.0 }));
        assert_eq!(Figures::of(vec![]), None);
    }
}
