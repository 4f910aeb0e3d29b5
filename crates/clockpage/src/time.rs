//! Points and spans of time, in the units of the clock algorithm.
//!
//! Everything is counted in nanoseconds without leap seconds. The caller removes leap seconds from
//! server timestamps before it passes them in, and a reader adds them back when it returns the
//! time.

/// Nanoseconds since 1970-01-01 00:00:00 UTC, leap seconds left out: good until the year 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// Nanoseconds from `earlier` to here, negative if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Adds `ns` nanoseconds.
    #[must_use]
    pub const fn plus(self, ns: i64) -> Self {
        Self(self.0.wrapping_add(ns))
    }
}

/// A value of the machine's counter. It never wraps: 64 bits at 5 GHz last for 117 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

impl Count {
    /// Counts from `earlier` to here, negative if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0) as i64
    }

    /// Adds `counts` counts.
    #[must_use]
    pub const fn plus(self, counts: i64) -> Self {
        Self(self.0.wrapping_add_signed(counts))
    }
}
