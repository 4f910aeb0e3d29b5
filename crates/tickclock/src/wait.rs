//! Waiting until an instant with little jitter: sleep until shortly before it, then watch the
//! counter.

use crate::Clock;
use nix::errno::Errno;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::time::Duration;
use tickwire_clock::Nanos;
use tickwire_clock::page::Reading;

/// How long before the instant sleep ends: a timer's lateness on a busy machine.
const EARLY: i64 = 200_000;
/// The longest sleep: the clock is asked again after each, because it may have been corrected
/// meanwhile.
const NAP: i64 = 100_000_000;

impl Clock {
    /// Waits until the clock shows this Unix time, and returns the first reading that does. If that
    /// is past already, it returns at once.
    ///
    /// It sleeps (one system call each 100 ms) until 200 us before the instant, and then watches
    /// the counter, so a processor is busy for that long. A signal does not end it.
    ///
    /// # Errors
    /// The first reading that did not know the time: `status` says why.
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
                let nap = Duration::from_nanos((left - EARLY).min(NAP).unsigned_abs());
                match clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::empty(), &nap.into()) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(_) => std::thread::yield_now(),
                }
            } else {
                std::hint::spin_loop();
            }
        }
    }
}
