//! The figures of all rounds as one.

use tickwire_bench::latency::Latency;

/// The figures of one round.
pub(crate) trait Figures: Sized {
    /// The figures of all rounds.
    type Median;

    /// Each figure is the median over the rounds; a maximum is the worst of all. `None` for no
    /// rounds.
    fn of_rounds(rounds: &[Self]) -> Option<Self::Median>;
}

/// The median; of an even number the larger of the middle two.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// Nanoseconds in microseconds, with so many digits.
pub(crate) fn us(ns: u64, digits: usize) -> String {
    format!("{:.digits$}", ns as f64 / 1000.0)
}

/// The ratio of a figure of two rows.
pub(crate) fn ratio(a: Option<Latency>, b: Option<Latency>, figure: fn(&Latency) -> u64) -> Option<f64> {
    Some(figure(&a?) as f64 / figure(&b?) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_number_the_larger_middle_counts() {
        let of = |figures: &[f64]| median(figures.iter().copied());
        assert_eq!([of(&[3.0, 1.0, 2.0]), of(&[4.0, 1.0, 3.0, 2.0]), of(&[])], [Some(2.0), Some(3.0), None]);
        assert_eq!((us(1_234, 2), us(1_250_000, 1)), ("1.23".into(), "1250.0".into()));
    }
}
