//! Times as numbers.

use std::time::Duration;

/// In nanoseconds; what 64 bits do not hold, 584 years, is as long as they do.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// In milliseconds, for people.
pub(crate) fn millis(time: Duration) -> f64 {
    // One division of whole nanoseconds, so that what was a short decimal fraction is one again: 35
    // ms are 35, not 35.00000000000001.
    time.as_nanos() as f64 / 1e6
}

/// So many nanoseconds as people read them; [`u64::MAX`] is what nobody knows.
pub(crate) fn far(ns: u64) -> String {
    if ns == u64::MAX { "an unknown time".to_owned() } else { format!("{} ms", ns as f64 / 1e6) }
}
