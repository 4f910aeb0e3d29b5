//! What to measure, and whether that can be meant.

use crate::disk::{Serial, SerialError};
use crate::load::Load;
use crate::quantity::Carrier;
use crate::readout;
use crate::sender::{self, FRAMES, SendError};
use crate::study::StudyError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What starting a sender, a lane and what is asked of both adds to each run in the lab, about.
pub(crate) const AROUND_RUN: Duration = Duration::from_millis(500);
/// What making the lab takes, about.
const AROUND_LAB: Duration = Duration::from_secs(3);
/// The runs in the lab under each load, each with both waits: on which path, and whether the
/// sender's driver stamps.
pub(crate) const RUNS: [(Carrier, bool); 3] =
    [(Carrier::Kernel, true), (Carrier::Kernel, false), (Carrier::Tickwire, false)];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages (and readings of each clock) of each profile.
    pub samples: u32,
    /// Bytes of each frame, of [`FRAMES`].
    pub size: u32,
    /// Over what.
    pub target: Target,
    /// The serial line for [`Load::DiskSerial`].
    pub serial: Option<PathBuf>,
    /// Under which loads; empty: all, as far as they are there.
    pub loads: Vec<Load>,
    /// On whose disk the file for the loads of the disk is made.
    pub directory: PathBuf,
}

/// Over what messages are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A lab of two hosts on this machine, made for this.
    Lab,
    /// An interface, to an address.
    Card {
        /// Its name.
        interface: String,
        /// Whom to send to; nobody needs to listen there.
        to: SocketAddr,
    },
}

impl Options {
    /// Whether this can be meant on this machine.
    ///
    /// # Errors
    /// It cannot: which option is wrong, and why.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        if !FRAMES.contains(&self.size) {
            let (least, most) = (FRAMES.start(), FRAMES.end());
            return Err(StudyError::usage("--size", format!("a frame has {least} to {most} bytes")));
        }
        if let Target::Card { interface, to } = &self.target {
            if sender::payload(self.size, to.ip()).is_none() {
                return Err(StudyError::usage("--size", SendError::Frame(self.size)));
            }
            let Some(most) = readout::longest_frame(interface) else {
                return Err(StudyError::usage("--interface", format!("there is no interface {interface:?} here")));
            };
            if self.size > most {
                return Err(StudyError::usage("--size", format!("{interface} carries frames of up to {most} bytes")));
            }
        }
        if self.loads.contains(&Load::DiskSerial) && self.serial.is_none() {
            return Err(StudyError::usage("--load", "disk+serial needs a serial line: name it by --serial"));
        }
        let opened = self.serial.as_deref().map(Serial::open).transpose();
        opened.map_err(|error: SerialError| StudyError::usage("--serial", error)).map(drop)
    }

    /// The loads, each once.
    pub(crate) fn loads(&self) -> Vec<Load> {
        let asked = |load: &Load| self.loads.is_empty() || self.loads.contains(load);
        Load::ALL.into_iter().filter(asked).collect()
    }

    /// How many runs there are under each load, on a machine that lacks nothing.
    pub(crate) const fn runs(&self) -> u32 {
        match self.target {
            Target::Lab => RUNS.len() as u32 * 2,
            Target::Card { .. } => 2,
        }
    }

    /// How long the study takes, about; a serial line that was not named costs nothing.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        let loads =
            self.loads().iter().filter(|load| **load != Load::DiskSerial || self.serial.is_some()).count() as u32;
        let (around, lab) = match self.target {
            Target::Lab => (AROUND_RUN, AROUND_LAB),
            Target::Card { .. } => (Duration::ZERO, Duration::ZERO),
        };
        (sender::length(self.samples) + around) * self.runs() * loads + lab
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_takes_less_than_two_minutes_by_default() {
        let (target, serial, directory) = (Target::Lab, None, PathBuf::from("."));
        let options = Options { samples: 8_000, size: 166, target, serial, loads: Vec::new(), directory };
        let estimate = options.estimate().as_secs();
        assert!((90..120).contains(&estimate), "{estimate}");
        assert_eq!(options.loads(), Load::ALL);
    }
}
