//! Conversion of times to numbers.

use std::time::Duration;

/// In nanoseconds; saturates at 64 bits (584 years).
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// In milliseconds, for display.
pub(crate) fn millis(time: Duration) -> f64 {
    // One division of whole nanoseconds keeps short decimal fractions exact: 35 ms are 35, not
    // 35.00000000000001.
    time.as_nanos() as f64 / 1e6
}

/// A number of nanoseconds for display; [`u64::MAX`] means unknown.
pub(crate) fn far(ns: u64) -> String {
    if ns == u64::MAX { "an unknown time".to_owned() } else { format!("{} ms", ns as f64 / 1e6) }
}
