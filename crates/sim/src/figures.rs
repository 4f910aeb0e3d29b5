//! How wrong readings were.

/// Readings of a clock that said it knew the time; errors are clock - truth, in ns.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    errors: Vec<i32>,
    bounds: Vec<i32>,
    /// Readings whose truth was not between earliest and latest.
    pub outside: u64,
    /// Readings that said that the time is not known.
    pub unknown: u64,
}

/// What they come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many there were.
    pub reads: u64,
    /// How many of them had truth outside of the bound.
    pub outside: u64,
    /// Least and greatest error.
    pub range: (i64, i64),
    /// Median of the error, and between its quartiles.
    pub median: i64,
    /// See `median`.
    pub iqr: i64,
    /// Of the error's size: 99 of 100 are below.
    pub p99: i64,
    /// Of the error's size.
    pub max: i64,
    /// Median of the bound.
    pub bound: i64,
}

impl Figures {
    pub(crate) fn take(&mut self, error: i64, bound: u64) {
        self.outside += u64::from(error.unsigned_abs() > bound);
        let most = i64::from(i32::MAX);
        self.errors.push(error.clamp(-most, most) as i32);
        self.bounds.push(bound.min(most as u64) as i32);
    }

    /// How many readings there were.
    #[must_use]
    pub const fn reads(&self) -> u64 {
        self.errors.len() as u64
    }

    /// Each reading's error, in the order in which they were made; those beyond 2.1 s count as
    /// that.
    #[must_use]
    pub fn errors(&self) -> &[i32] {
        &self.errors
    }

    /// Each reading's bound, likewise.
    #[must_use]
    pub fn bounds(&self) -> &[i32] {
        &self.bounds
    }

    /// What they come to; `None` of none.
    #[must_use]
    pub fn summary(mut self) -> Option<Summary> {
        let (low, high) = (*self.errors.iter().min()?, *self.errors.iter().max()?);
        let rank = |values: &mut [i32], percent: usize| {
            let place = (values.len() - 1) * percent / 100;
            i64::from(*values.select_nth_unstable(place).1)
        };
        let [quarter, median, three] = [25, 50, 75].map(|percent| rank(&mut self.errors, percent));
        self.errors.iter_mut().for_each(|error| *error = error.abs());
        let [p99, max] = [99, 100].map(|percent| rank(&mut self.errors, percent));
        Some(Summary {
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
