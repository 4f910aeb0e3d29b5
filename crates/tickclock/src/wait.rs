//! Waits until an instant with little jitter: sleeps until shortly before it, then spins on the
//! counter.

use crate::{Clock, os};
use std::time::Duration;
use tickwire_clockpage::{Nanos, Reading};

/// How long before the instant the sleep ends, in ns: the timer latency on a busy machine.
const EARLY: i64 = 200_000;
/// The longest sleep in ns: the clock is read again after each, because it may have been corrected
/// meanwhile.
const NAP: i64 = 100_000_000;

impl Clock {
    /// Waits until the clock shows this Unix time, and returns the first reading that does. Returns
    /// at once if that is already past.
    ///
    /// It sleeps (one system call each 100 ms) until 200 us before the instant and then spins on
    /// the counter, so a processor is busy for that long. A signal does not end the wait.
    ///
    /// # Errors
    /// The first reading without a known time; its `status` says why.
    pub fn wait_until(&self, utc: Nanos) -> Result<Reading, Reading> {
        loop {
            let now = self.now();
            if now.bound == u64::MAX {
                return Err(now);
            }
            let left = utc.0.saturating_sub(now.utc().0);
            if left <= 0 {
                return Ok(now);
            }
            if left > EARLY {
                os::nap(Duration::from_nanos((left - EARLY).min(NAP).unsigned_abs()));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}
