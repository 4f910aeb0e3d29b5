//! Errors of calls.

use std::io;

/// A failed query to Windows.
#[derive(Debug, thiserror::Error)]
pub enum IpHelperError {
    /// Windows refused the request.
    #[error("Windows refused to {what}: {source}")]
    Refused {
        /// What was requested.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// This Windows lacks a function (or Wine does).
    #[error("cannot {what}: this system has no {function}")]
    Missing {
        /// What was requested.
        what: &'static str,
        /// The function's name.
        function: &'static str,
    },
    /// The table is larger than what is read.
    #[error("cannot {what}: the system's table is larger than {limit} bytes")]
    TooLarge {
        /// What was requested.
        what: &'static str,
        /// The largest size that is read, in bytes.
        limit: usize,
    },
}

impl IpHelperError {
    /// The number of Windows' error; 0 if Windows was not asked.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Refused { source, .. } => source.raw_os_error().map_or(0, i32::cast_unsigned),
            Self::Missing { .. } | Self::TooLarge { .. } => 0,
        }
    }
}

#[cfg(windows)]
impl IpHelperError {
    /// Whether a packet could not be sent because the route, the interface or the source address
    /// has gone.
    pub(crate) fn is_unreachable(&self) -> bool {
        use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
        let gone = [AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable];
        matches!(self, Self::Refused { source, .. } if gone.contains(&source.kind()))
    }
}

/// The result of a query to Windows.
pub type Result<T> = std::result::Result<T, IpHelperError>;
