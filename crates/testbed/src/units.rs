//! Conversion of times to numbers.

pub(crate) use tickwire_node::units::nanos;

use std::time::Duration;

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
