//! What reading a clock costs a program.

use serde::{Deserialize, Serialize};

/// What one clock's readings cost. Readings are timed in batches, because one takes about as long
/// as looking at the time twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Whose clock.
    pub clock: String,
    /// How many readings.
    pub reads: u64,
    /// ns a reading in the quickest batch.
    pub min_ns: f64,
    /// In the middle one.
    pub p50_ns: f64,
    /// One batch in a hundred took longer.
    pub p99_ns: f64,
}
