//! Throughput of one stream.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The receiver's figures, which a measuring program prints as one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateFigures {
    /// Payload bytes received.
    pub bytes: u64,
    /// From the first byte to the last.
    pub seconds: f64,
    /// Payload bits per second.
    pub bits_per_second: f64,
}

impl RateFigures {
    /// The rate of `bytes` within `time`; zero if no time passed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a benchmark does not reach 2^53 bytes")]
    pub fn new(bytes: u64, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        let bits_per_second = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        Self { bytes, seconds, bits_per_second }
    }
}
