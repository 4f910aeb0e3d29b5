//! The kernel's clock, as the steering sees it: the real one, or that of a test.

use nix::errno::Errno;
use tickwire_osclock::adjtime::{self, KernelClockState, KernelStatus};

/// The operations on the kernel's clock.
pub(super) trait Kernel {
    fn look(&mut self) -> Result<KernelClockState, Errno>;
    /// Ends the adjustments of other programs.
    fn take_over(&mut self) -> Result<(), Errno>;
    /// In 2^-16 ppm.
    fn set_frequency(&mut self, units: i64) -> Result<(), Errno>;
    /// In ns.
    fn step(&mut self, ns: i64) -> Result<(), Errno>;
    fn tell(&mut self, told: KernelStatus) -> Result<(), Errno>;
    fn set_tai(&mut self, offset: i32) -> Result<(), Errno>;
    /// The default length of a tick, in us.
    fn usual_tick(&self) -> i64;
}

/// The clock of this machine.
#[derive(Debug)]
pub(super) struct Real {
    usual_tick: i64,
}

impl Real {
    /// The kernel's clock, if this process may steer it.
    pub(super) fn new() -> Result<Self, Errno> {
        adjtime::may_steer()?;
        Ok(Self { usual_tick: adjtime::usual_tick()? })
    }
}

impl Kernel for Real {
    fn look(&mut self) -> Result<KernelClockState, Errno> {
        adjtime::look()
    }

    fn take_over(&mut self) -> Result<(), Errno> {
        adjtime::take_over(self.usual_tick)
    }

    fn set_frequency(&mut self, units: i64) -> Result<(), Errno> {
        adjtime::set_frequency(units)
    }

    fn step(&mut self, ns: i64) -> Result<(), Errno> {
        adjtime::step(ns)
    }

    fn tell(&mut self, told: KernelStatus) -> Result<(), Errno> {
        adjtime::tell(told)
    }

    fn set_tai(&mut self, offset: i32) -> Result<(), Errno> {
        adjtime::set_tai(offset)
    }

    fn usual_tick(&self) -> i64 {
        self.usual_tick
    }
}
