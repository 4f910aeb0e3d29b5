//! What can go wrong at the service's end of a connection.

use crate::sys::code;
use std::io;
use tickwire_lane::control::MalformedMessage;
use windows_sys::Win32::Foundation::{ERROR_BROKEN_PIPE, ERROR_MORE_DATA, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED};

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The client closed its end, or its process ended.
    #[error("the client has gone")]
    Gone,
    /// It has sent a longer message than any request.
    #[error("the client sent a message that is longer than any request: closing its connection")]
    TooLong,
    /// It has sent something else than a request.
    #[error("the client sent no valid request ({0}): closing its connection")]
    Malformed(#[from] MalformedMessage),
    /// The client's end is not in the process that connected, or that process does not set the
    /// event of the greeting before it asks for something.
    #[error("the client did not prove that it is the process {process_id}: closing its connection")]
    Unproven {
        /// The process that connected.
        process_id: u32,
    },
    /// A value is no handle of the client's, or one that cannot be duplicated. The connection goes
    /// on; the request is to be refused.
    #[error("handle {place} of request {number} cannot be copied from the client: {source}")]
    Handle {
        /// The number of the request, for the reply.
        number: u32,
        /// The place of the handle, counted from 0.
        place: usize,
        /// The error of Windows.
        source: io::Error,
    },
    /// Nothing came in time. The connection goes on.
    #[error("no request came in time")]
    TimedOut,
    /// Windows cannot read from the pipe.
    #[error("cannot read from the client: {0}")]
    Failed(io::Error),
}

impl ReceiveError {
    /// The meaning of an error of reading.
    pub(super) fn of_read(error: io::Error) -> Self {
        match code(&error) {
            ERROR_MORE_DATA => Self::TooLong,
            ERROR_BROKEN_PIPE | ERROR_NO_DATA | ERROR_PIPE_NOT_CONNECTED => Self::Gone,
            _ => Self::Failed(error),
        }
    }

    /// Whether the connection has ended.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        !matches!(self, Self::Handle { .. } | Self::TimedOut)
    }
}

/// Why a reply or a push was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// The client closed its end, or its process ended.
    #[error("the client has gone")]
    Gone,
    /// It leaves too much unread ([`super::MAX_QUEUED`]).
    #[error("the client does not read replies: closing its connection")]
    NotReading,
    /// A handle cannot be copied into the client's process. The connection goes on.
    #[error("handle {place} of a reply cannot be copied to the client: {source}")]
    Handle {
        /// The place of the handle, counted from 0.
        place: usize,
        /// The error of Windows.
        source: io::Error,
    },
    /// There are more handles than a message may have. The connection goes on.
    #[error("a reply has too many handles")]
    TooManyHandles,
}

impl ReplyError {
    /// Whether the connection has ended.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Gone | Self::NotReading)
    }
}
