//! Windows: the time is not distributed to programs that do not read the page. Settings that ask
//! for it are refused.

use crate::config::{TimekeeperConfig, Wrong};
use crate::hardware::Look;
use crate::report::SystemClockReport;
use thiserror::Error;
use tickclock::{CounterKind, Parameters, Scale};

/// Why the time cannot be distributed, as on Linux.
pub type SystemError = UnsupportedSetting;

/// The configuration asks for what this system does not have.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct UnsupportedSetting(#[from] Wrong);

/// The receivers of the time: none.
#[derive(Debug)]
pub(crate) struct System;

impl System {
    /// Refuses what the configuration may ask for.
    pub(crate) fn new(config: &TimekeeperConfig) -> Result<Self, SystemError> {
        config.check_supported()?;
        Ok(Self)
    }

    pub(crate) const fn turn(&mut self, _: i64, _: CounterKind, _: Scale, _: &Look, _: &Parameters) {}

    pub(crate) const fn disrupt(&mut self) {}

    pub(crate) const fn report(&self) -> Option<SystemClockReport> {
        None
    }

    pub(crate) const fn end(&mut self) {}
}
