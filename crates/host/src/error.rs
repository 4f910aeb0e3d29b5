//! What can go wrong when the kernel is asked.

use std::io;

/// A failed question or order to the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The netlink socket itself failed.
    #[error("netlink: {what}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel refused the request.
    #[error("the kernel refused to {what}: {source}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error("the kernel's answer could not be read when asked to {what}: {why}")]
    Malformed {
        /// What was asked.
        what: &'static str,
        /// What was wrong with the answer.
        why: String,
    },
}

impl Error {
    /// The kernel's error number if it refused, 0 otherwise.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Refused { source, .. } | Self::Socket { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::Malformed { .. } => 0,
        }
    }

    /// Whether the kernel said that the thing asked about does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        use nix::errno::Errno;
        let errno = Errno::from_raw(self.errno());
        matches!(errno, Errno::ENODEV | Errno::ENOENT | Errno::ENXIO | Errno::EADDRNOTAVAIL)
    }

    /// Whether the kernel said that somebody else has what was asked for.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        use nix::errno::Errno;
        matches!(Errno::from_raw(self.errno()), Errno::EEXIST | Errno::EBUSY)
    }
}

/// The result of a question or order to the kernel.
pub type Result<T> = std::result::Result<T, Error>;
