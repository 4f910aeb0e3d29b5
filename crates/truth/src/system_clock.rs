//! The kernel's clock belongs to everybody on the machine: it is remembered before a rival steers
//! it, and set back afterwards as if nobody had.

use anyhow::{Context, Result};
use clock_steering::unix::UnixClock;
use clock_steering::{Clock, LeapIndicator, TimeOffset};
use nix::time::{ClockId, clock_gettime};

/// The kernel's clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered {
    /// CLOCK_REALTIME, in ns.
    realtime: i64,
    /// CLOCK_MONOTONIC_RAW then, which nobody steers, in ns.
    raw: i64,
    /// By how much the kernel was told to run faster.
    ppm: f64,
}

impl Remembered {
    /// The clock as it is.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn now() -> Result<Self> {
        let ppm = UnixClock::CLOCK_REALTIME.get_frequency().context("cannot read the system clock's frequency")?;
        let (realtime, raw) = both()?;
        Ok(Self { realtime, raw, ppm })
    }

    /// Sets frequency and time to what they would be by now; gives by how much the time was set, in
    /// ns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn restore(self) -> Result<i64> {
        let clock = UnixClock::CLOCK_REALTIME;
        // Whatever slew is left goes with it.
        clock.disable_kernel_ntp_algorithm().context("cannot end the kernel's own steering")?;
        clock.set_frequency(self.ppm).context("cannot set the system clock's frequency")?;
        let (realtime, raw) = both()?;
        let passed = raw - self.raw;
        let should = self.realtime + passed + (passed as f64 * self.ppm * 1e-6) as i64;
        let step = should - realtime;
        let offset =
            TimeOffset { seconds: step.div_euclid(1_000_000_000), nanos: step.rem_euclid(1_000_000_000) as u32 };
        clock.step_clock(offset).context("cannot set the system clock")?;
        // Nobody steers it now.
        clock.set_leap_seconds(LeapIndicator::Unknown).context("cannot say that the system clock is not steered")?;
        Ok(step)
    }
}

fn both() -> Result<(i64, i64)> {
    let ns = |clock| clock_gettime(clock).map(|time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
    Ok((ns(ClockId::CLOCK_REALTIME)?, ns(ClockId::CLOCK_MONOTONIC_RAW)?))
}
