//! Errors of requests to the kernel.

use std::io;

/// A failed query or command to the kernel.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The netlink socket itself failed.
    #[error("netlink: {what}: {source}")]
    Socket {
        /// What was attempted.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel refused the request.
    #[error("the kernel refused to {what}: {source}")]
    Refused {
        /// What was requested.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error("the kernel's answer could not be read when asked to {what}: {why}")]
    Malformed {
        /// What was requested.
        what: &'static str,
        /// What was wrong with the answer.
        why: String,
    },
}

impl HostError {
    /// The kernel's error number if it refused, 0 otherwise.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Refused { source, .. } | Self::Socket { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::Malformed { .. } => 0,
        }
    }

    /// Whether the kernel reported that the requested object does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        use nix::errno::Errno;
        let errno = Errno::from_raw(self.errno());
        matches!(errno, Errno::ENODEV | Errno::ENOENT | Errno::ENXIO | Errno::EADDRNOTAVAIL)
    }
}

/// The result of a query or command to the kernel.
pub type Result<T> = std::result::Result<T, HostError>;
