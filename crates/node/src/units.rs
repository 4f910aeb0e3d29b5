//! Conversion of times to numbers.

use std::time::Duration;

/// In nanoseconds; saturates at 64 bits (584 years).
#[must_use]
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
