//! Why XDP cannot be used, each with what to do.

use super::driver::{DriverCode, RingKind};
use super::ring::BrokenRing;

/// The version that is needed at least.
pub const NEEDED: (u16, u16) = (1, 1);

/// Why XDP cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XdpError {
    /// The driver is not there.
    #[error(
        "XDP for Windows is not installed: install its package Microsoft.XDP-for-Windows.Runtime by \
         `xdp-setup.ps1 -Install xdp`"
    )]
    Missing,
    /// The driver may not be opened.
    #[error("no right to open XDP's driver: run the service as an administrator, or as LocalSystem")]
    NoRight,
    /// The driver is too old.
    #[error("XDP's driver is version {major}.{minor}, and {}.{} is needed: install a newer one", NEEDED.0, NEEDED.1)]
    Version {
        /// The first part of its version.
        major: u16,
        /// The second part.
        minor: u16,
    },
    /// The driver is not bound to the interface.
    #[error(
        "XDP's driver is not bound to the interface with the index {interface}: choose another interface, or enable \
         \"XDP\" in the properties of the network card"
    )]
    Interface {
        /// The interface's index.
        interface: u32,
    },
    /// The driver cannot give packets back.
    #[error(
        "XDP's driver cannot give the packets of the kernel back ({code}): install version {}.{} or later, or use \
         WinDivert",
        NEEDED.0,
        NEEDED.1
    )]
    GiveBack {
        /// Why not.
        code: DriverCode,
    },
    /// The driver refuses a step.
    #[error("XDP's driver refuses to {step} ({code}): install it again, or use WinDivert")]
    Refused {
        /// What it was to do.
        step: &'static str,
        /// Why not.
        code: DriverCode,
    },
    /// A ring of the driver is not as it should be.
    #[error("XDP's driver has made a ring ({0:?}) of another layout than that of version 1: use WinDivert")]
    Layout(RingKind),
    /// There are more queues than can be served.
    #[error(
        "the network card has more than {most} receive queues: set fewer, for example by `Set-NetAdapterRss \
         -NumberOfReceiveQueues`"
    )]
    TooManyQueues {
        /// How many there may be.
        most: u32,
    },
}

/// What ends a card that was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XdpCardEnd {
    /// The interface is gone, or the driver is about to be unloaded.
    #[error("the network card was removed from XDP's driver, or the driver is about to be unloaded")]
    Detached,
    /// The driver has given a ring up.
    #[error("XDP's driver has given up a ring ({ring:?}, its error {error:#x})")]
    RingFailed {
        /// Which one.
        ring: RingKind,
        /// Why (`XSK_ERROR`).
        error: u32,
    },
    /// A ring is broken.
    #[error("XDP's driver has written into a ring ({ring:?}) what cannot be: {error}")]
    RingBroken {
        /// Which one.
        ring: RingKind,
        /// What is wrong.
        error: BrokenRing,
    },
    /// A call has failed.
    #[error("XDP's driver does not look at a ring ({ring:?}): {code}")]
    Call {
        /// Which one.
        ring: RingKind,
        /// Why not.
        code: DriverCode,
    },
}

impl From<XdpCardEnd> for std::io::Error {
    fn from(end: XdpCardEnd) -> Self {
        Self::new(std::io::ErrorKind::NotConnected, end)
    }
}

const FILE_NOT_FOUND: u32 = 2;
const PATH_NOT_FOUND: u32 = 3;
const ACCESS_DENIED: u32 = 5;
const BAD_PARAMETER: u32 = 87;
const NOT_FOUND: u32 = 1168;

impl XdpError {
    /// What an error of making a socket means.
    #[must_use]
    pub fn of_open(code: DriverCode) -> Self {
        match code.0 {
            FILE_NOT_FOUND | PATH_NOT_FOUND => Self::Missing,
            ACCESS_DENIED => Self::NoRight,
            _ => Self::Refused { step: "make a socket", code },
        }
    }

    /// What an error of binding a socket to the first queue means.
    #[must_use]
    pub fn of_bind(code: DriverCode, interface: u32) -> Self {
        match code.0 {
            FILE_NOT_FOUND | NOT_FOUND => Self::Interface { interface },
            _ => Self::Refused { step: "bind a socket to the interface", code },
        }
    }
}

/// Whether an error of binding a socket, or of making a program, means that there is no such queue.
#[must_use]
pub fn is_no_queue(code: DriverCode) -> bool {
    matches!(code.0, FILE_NOT_FOUND | NOT_FOUND | BAD_PARAMETER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_one_sentence_that_says_what_to_do() {
        let errors = [
            XdpError::of_open(DriverCode(FILE_NOT_FOUND)),
            XdpError::of_open(DriverCode(ACCESS_DENIED)),
            XdpError::of_open(DriverCode(31)),
            XdpError::of_bind(DriverCode(NOT_FOUND), 7),
            XdpError::of_bind(DriverCode(31), 7),
            XdpError::Version { major: 1, minor: 0 },
            XdpError::GiveBack { code: DriverCode(50) },
            XdpError::Layout(RingKind::Fill),
            XdpError::TooManyQueues { most: 64 },
        ];
        let mut sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(sentences.iter().all(|sentence| sentence.contains(": ")), "{sentences:?}");
        sentences.sort();
        sentences.dedup();
        assert_eq!(sentences.len(), errors.len());
        assert!(is_no_queue(DriverCode(BAD_PARAMETER)) && !is_no_queue(DriverCode(ACCESS_DENIED)));
    }
}
