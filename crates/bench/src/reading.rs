//! What reading a clock costs a program.

use serde::{Deserialize, Serialize};

/// The cost of one clock's readings. They are timed in batches, because one reading takes about as
/// long as the two timestamps around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The clock's name.
    pub clock: String,
    /// How many readings.
    pub reads: u64,
    /// ns per reading in the fastest batch.
    pub min_ns: f64,
    /// ns per reading in the median batch.
    pub p50_ns: f64,
    /// ns per reading in the 99th percentile of the batches.
    pub p99_ns: f64,
}
