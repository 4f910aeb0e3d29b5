//! A network card that stamps the packets of NTP: its clock, and how fast its link is.

use crate::hardware::{Lack, Reading};
use std::io;
use tickwire_osclock::phc::Phc;

/// A card whose stamps can be used.
#[derive(Debug)]
pub struct Nic {
    clock: Phc,
    number: u32,
    mbits: Option<u32>,
}

impl Nic {
    /// A card by the number of its clock (`/dev/ptpN`), and the Mbit/s that its link carries, if
    /// that is known.
    ///
    /// # Errors
    /// The clock is not there, or not ours to read.
    pub fn open(number: u32, mbits: Option<u32>) -> io::Result<Self> {
        Ok(Self { clock: Phc::open(number)?, number, mbits })
    }

    /// Whether it is the card that these describe.
    #[must_use]
    pub fn is(&self, number: u32, mbits: Option<u32>) -> bool {
        (self.number, self.mbits) == (number, mbits)
    }

    /// See [`Self::open`].
    #[must_use]
    pub const fn mbits(&self) -> Option<u32> {
        self.mbits
    }

    /// Reads its clock beside the system's.
    ///
    /// # Errors
    /// It cannot be read now.
    pub fn read(&self) -> Result<Reading, Lack> {
        self.clock.read().ok().and_then(|triples| Reading::quickest(&triples)).ok_or(Lack::Unread)
    }
}
