//! The promise for our clock in a scenario, and whether it is kept. Everywhere it includes that the
//! true time lies within the bound.

use tickwire_bench::error::ClockError;

/// Limits of the absolute error, in us; none: nothing is promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) median: Option<f64>,
    pub(super) iqr: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
    /// Seconds until the error is below 10 us.
    pub(super) converged_s: Option<f64>,
}

impl Promise {
    pub(super) const NONE: Self = Self { median: None, iqr: None, p99: None, max: None, converged_s: None };

    pub(super) const fn p99(us: f64) -> Self {
        Self { p99: Some(us), ..Self::NONE }
    }

    /// The promise as text.
    pub(super) fn text(&self) -> String {
        let errors = [("median", self.median), ("IQR", self.iqr), ("p99", self.p99), ("max", self.max)];
        let errors = errors.into_iter().filter_map(|(name, limit)| limit.map(|us| format!("{name} {us}")));
        let converged = self.converged_s.map(|seconds| format!("below 10 in {seconds} s"));
        errors.chain(converged).collect::<Vec<_>>().join(", ")
    }

    /// Whether these figures keep it.
    pub(super) fn kept(&self, figures: &ClockError) -> bool {
        let within = |limit: Option<f64>, ns: i64| limit.is_none_or(|us| ns.unsigned_abs() as f64 <= us * 1e3);
        within(self.median, figures.median_ns)
            && within(self.iqr, figures.iqr_ns)
            && within(self.p99, figures.p99_ns)
            && within(self.max, figures.max_ns)
            && self.converged_s.is_none_or(|limit| figures.converged_s.is_some_and(|took| took <= limit))
            && figures.outside == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_counts() {
        let promise =
            Promise { median: Some(0.2), iqr: Some(0.1), p99: Some(0.4), max: Some(1.0), converged_s: Some(2.0) };
        assert_eq!(promise.text(), "median 0.2, IQR 0.1, p99 0.4, max 1, below 10 in 2 s");
        let good = ClockError {
            median_ns: -200,
            iqr_ns: 100,
            p99_ns: 400,
            max_ns: 1_000,
            converged_s: Some(2.0),
            ..ClockError::default()
        };
        assert!(promise.kept(&good));
        for bad in [
            ClockError { median_ns: -201, ..good.clone() },
            ClockError { iqr_ns: 101, ..good.clone() },
            ClockError { p99_ns: 401, ..good.clone() },
            ClockError { max_ns: 1_001, ..good.clone() },
            ClockError { converged_s: Some(2.1), ..good.clone() },
            ClockError { converged_s: None, ..good.clone() },
            ClockError { outside: 1, ..good.clone() },
        ] {
            assert!(!promise.kept(&bad), "{bad:?}");
        }
        assert!(Promise::NONE.kept(&ClockError::default()));
    }
}
