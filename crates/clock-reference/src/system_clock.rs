//! The kernel's clock is shared by all programs of the machine. So it is saved before another
//! daemon steers it, and restored afterwards as if it had not been steered.

use anyhow::{Context, Result};
use clock_steering::unix::UnixClock;
use clock_steering::{Clock, LeapIndicator, TimeOffset};
use nix::time::{ClockId, clock_gettime};

/// The kernel's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered {
    /// CLOCK_REALTIME, in ns.
    realtime: i64,
    /// CLOCK_MONOTONIC_RAW at that moment, which is not steered, in ns.
    raw: i64,
    /// Its frequency adjustment in ppm.
    ppm: f64,
}

impl Remembered {
    /// Saves the current state of the clock.
    ///
    /// # Errors
    /// The kernel does not report it.
    pub fn now() -> Result<Self> {
        let ppm = UnixClock::CLOCK_REALTIME.get_frequency().context("cannot read the system clock's frequency")?;
        let (realtime, raw) = both()?;
        Ok(Self { realtime, raw, ppm })
    }

    /// Sets frequency and time to what they would be now without steering. Returns the step of the
    /// time in ns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn restore(self) -> Result<i64> {
        let clock = UnixClock::CLOCK_REALTIME;
        // This also ends a slew in progress.
        clock.disable_kernel_ntp_algorithm().context("cannot end the kernel's own steering")?;
        clock.set_frequency(self.ppm).context("cannot set the system clock's frequency")?;
        let (realtime, raw) = both()?;
        let passed = raw - self.raw;
        let should = self.realtime + passed + (passed as f64 * self.ppm * 1e-6) as i64;
        let step = should - realtime;
        let offset =
            TimeOffset { seconds: step.div_euclid(1_000_000_000), nanos: step.rem_euclid(1_000_000_000) as u32 };
        clock.step_clock(offset).context("cannot set the system clock")?;
        // No daemon steers the clock now.
        clock.set_leap_seconds(LeapIndicator::Unknown).context("cannot say that the system clock is not steered")?;
        Ok(step)
    }
}

fn both() -> Result<(i64, i64)> {
    let ns = |clock| clock_gettime(clock).map(|time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
    Ok((ns(ClockId::CLOCK_REALTIME)?, ns(ClockId::CLOCK_MONOTONIC_RAW)?))
}
