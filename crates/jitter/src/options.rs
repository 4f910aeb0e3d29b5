//! What to measure, and its validation.

use crate::disk::{Serial, SerialError};
use crate::error::JitterStudyError;
use crate::load::MachineLoad;
use crate::quantity::MessageCarrier;
use crate::readout;
use crate::sender::{self, FRAMES, SendError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Approximate overhead of each run in the lab: starting the sender and its lane, and querying
/// them.
pub(crate) const AROUND_RUN: Duration = Duration::from_millis(500);
/// Approximate time to create the lab.
const AROUND_LAB: Duration = Duration::from_secs(3);
/// The runs in the lab under each load, each with both waits: the path, and whether the sender's
/// driver timestamps.
pub(crate) const RUNS: [(MessageCarrier, bool); 3] =
    [(MessageCarrier::Kernel, true), (MessageCarrier::Kernel, false), (MessageCarrier::Tickwire, false)];

/// What to measure.
#[derive(Clone, Debug)]
pub struct JitterOptions {
    /// Messages of each profile, and readings of each clock.
    pub samples: u32,
    /// Bytes of each frame, within [`FRAMES`].
    pub size: u32,
    /// The path to measure.
    pub target: Target,
    /// The serial line for [`MachineLoad::DiskSerial`].
    pub serial: Option<PathBuf>,
    /// The loads; empty means all that are available.
    pub loads: Vec<MachineLoad>,
    /// The directory on whose disk the file of the disk loads is created.
    pub directory: PathBuf,
}

/// The path that messages take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A lab of two hosts on this machine, created for the study.
    Lab,
    /// An interface, to an address.
    Card {
        /// Its name.
        interface: String,
        /// The destination, which need not have a listener.
        to: SocketAddr,
    },
}

impl JitterOptions {
    /// Checks the options on this machine.
    ///
    /// # Errors
    /// The option that is wrong, and why.
    pub(crate) fn check(&self) -> Result<(), JitterStudyError> {
        if !FRAMES.contains(&self.size) {
            let (least, most) = (FRAMES.start(), FRAMES.end());
            return Err(JitterStudyError::usage("--size", format!("a frame has {least} to {most} bytes")));
        }
        if let Target::Card { interface, to } = &self.target {
            if sender::payload(self.size, to.ip()).is_none() {
                return Err(JitterStudyError::usage("--size", SendError::Frame(self.size)));
            }
            let Some(most) = readout::longest_frame(interface) else {
                return Err(JitterStudyError::usage(
                    "--interface",
                    format!("there is no interface {interface:?} here"),
                ));
            };
            if self.size > most {
                return Err(JitterStudyError::usage(
                    "--size",
                    format!("{interface} carries frames of up to {most} bytes"),
                ));
            }
        }
        if self.loads.contains(&MachineLoad::DiskSerial) && self.serial.is_none() {
            return Err(JitterStudyError::usage("--load", "disk+serial needs a serial line: name it by --serial"));
        }
        let opened = self.serial.as_deref().map(Serial::open).transpose();
        opened.map_err(|error: SerialError| JitterStudyError::usage("--serial", error)).map(drop)
    }

    /// The requested loads, each once.
    pub(crate) fn loads(&self) -> Vec<MachineLoad> {
        let asked = |load: &MachineLoad| self.loads.is_empty() || self.loads.contains(load);
        MachineLoad::ALL.into_iter().filter(asked).collect()
    }

    /// The number of runs under each load, on a machine where everything is available.
    pub(crate) const fn runs(&self) -> u32 {
        match self.target {
            Target::Lab => RUNS.len() as u32 * 2,
            Target::Card { .. } => 2,
        }
    }

    /// The approximate duration of the study. A serial line that was not named adds nothing.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        let loads =
            self.loads().iter().filter(|load| **load != MachineLoad::DiskSerial || self.serial.is_some()).count()
                as u32;
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
        let options = JitterOptions { samples: 8_000, size: 166, target, serial, loads: Vec::new(), directory };
        let estimate = options.estimate().as_secs();
        assert!((90..120).contains(&estimate), "{estimate}");
        assert_eq!(options.loads(), MachineLoad::ALL);
    }
}
