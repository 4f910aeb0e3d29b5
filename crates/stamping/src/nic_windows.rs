//! Windows: no network card's clock is read. (Winsock stamps by a card's clock where that is
//! configured; such timestamps are not used: see `winsock_stamps`.)

use crate::hardware::{CardReading, Lack};

/// A card with usable timestamps, as on Linux.
pub type NicClock = NoNicClock;

/// There is none.
#[derive(Clone, Copy, Debug)]
pub enum NoNicClock {}

impl NoNicClock {
    /// The link speed in Mbit/s.
    #[must_use]
    pub const fn mbits(&self) -> Option<u32> {
        match *self {}
    }

    /// Reads its clock together with the system's.
    ///
    /// # Errors
    /// As on Linux.
    pub const fn read(&self) -> Result<CardReading, Lack> {
        match *self {}
    }
}
