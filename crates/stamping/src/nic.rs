//! A network card that timestamps packets: its clock and its link speed.

use crate::hardware::{CardReading, Lack};
use crate::phc::Phc;
use std::io;

/// A card with usable timestamps.
#[derive(Debug)]
pub struct NicClock {
    clock: Phc,
    number: u32,
    mbits: Option<u32>,
}

impl NicClock {
    /// Opens the clock `/dev/ptpN` of a card. `mbits` is the link speed in Mbit/s, if known.
    ///
    /// # Errors
    /// The clock does not exist, or the process may not read it.
    pub fn open(number: u32, mbits: Option<u32>) -> io::Result<Self> {
        Ok(Self { clock: Phc::open(number)?, number, mbits })
    }

    /// Whether the card has this clock number and link speed.
    #[must_use]
    pub fn is(&self, number: u32, mbits: Option<u32>) -> bool {
        (self.number, self.mbits) == (number, mbits)
    }

    /// The link speed: see [`Self::open`].
    #[must_use]
    pub const fn mbits(&self) -> Option<u32> {
        self.mbits
    }

    /// Reads its clock together with the system's.
    ///
    /// # Errors
    /// It cannot be read now.
    pub fn read(&self) -> Result<CardReading, Lack> {
        self.clock.read().ok().and_then(|triples| CardReading::quickest(&triples)).ok_or(Lack::Unread)
    }
}
