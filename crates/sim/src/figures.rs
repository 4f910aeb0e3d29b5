//! Errors of clock readings.

/// Readings of a clock that reported itself synchronised; errors are clock - truth, in ns.
#[derive(Clone, Debug, Default)]
pub struct ClockErrors {
    errors: Vec<i32>,
    bounds: Vec<i32>,
    /// Readings whose true time was not between earliest and latest.
    pub outside: u64,
    /// Readings that reported the time as unknown.
    pub unknown: u64,
}

/// A summary of [`ClockErrors`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockErrorSummary {
    /// Number of readings.
    pub reads: u64,
    /// Number of readings whose true time was outside of the bound.
    pub outside: u64,
    /// Least and greatest error.
    pub range: (i64, i64),
    /// Median of the error, and its interquartile range (`iqr`).
    pub median: i64,
    /// See `median`.
    pub iqr: i64,
    /// 99th percentile of the absolute error.
    pub p99: i64,
    /// Largest absolute error.
    pub max: i64,
    /// Median of the bound.
    pub bound: i64,
}

impl ClockErrors {
    pub(crate) fn take(&mut self, error: i64, bound: u64) {
        self.outside += u64::from(error.unsigned_abs() > bound);
        let most = i64::from(i32::MAX);
        self.errors.push(error.clamp(-most, most) as i32);
        self.bounds.push(bound.min(most as u64) as i32);
    }

    /// Number of readings.
    #[must_use]
    pub const fn reads(&self) -> u64 {
        self.errors.len() as u64
    }

    /// Each reading's error, in reading order; errors beyond 2.1 s are clamped to that.
    #[must_use]
    pub fn errors(&self) -> &[i32] {
        &self.errors
    }

    /// Each reading's bound, in the same order and clamped likewise.
    #[must_use]
    pub fn bounds(&self) -> &[i32] {
        &self.bounds
    }

    /// Summarises the readings; `None` if there are none.
    #[must_use]
    pub fn summary(mut self) -> Option<ClockErrorSummary> {
        let (low, high) = (*self.errors.iter().min()?, *self.errors.iter().max()?);
        let rank = |values: &mut [i32], percent: usize| {
            let place = (values.len() - 1) * percent / 100;
            i64::from(*values.select_nth_unstable(place).1)
        };
        let [quarter, median, three] = [25, 50, 75].map(|percent| rank(&mut self.errors, percent));
        self.errors.iter_mut().for_each(|error| *error = error.abs());
        let [p99, max] = [99, 100].map(|percent| rank(&mut self.errors, percent));
        Some(ClockErrorSummary {
            reads: self.errors.len() as u64,
            outside: self.outside,
            range: (low.into(), high.into()),
            median,
            iqr: three - quarter,
            p99,
            max,
            bound: rank(&mut self.bounds, 50),
        })
    }
}
