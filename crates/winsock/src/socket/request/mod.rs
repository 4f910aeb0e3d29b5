//! Overlapped requests: a program begins an operation, and is told later that it is complete.
//!
//! | file | purpose |
//! |---|---|
//! | `completion` | telling the program: its `OVERLAPPED`, event, completion port or routine |
//! | `port` | the completion port of a handle |
//! | `status` | how a request has ended, as an NTSTATUS |
//! | `parts` | the program's buffers |
//! | `file` | files that are sent |
//! | `receive`, `send`, `accept`, `connect` | what each kind of request does |
//! | `queue` | the requests of a socket, in their order; cancellation |
//!
//! A request is tried at once. What cannot be done then waits in the socket's queue. It is tried
//! again whenever something has happened at the socket (`Socket::advance`), by whichever thread
//! drives the lane. So completions are posted by the program's own threads as long as they poll.

pub(crate) mod accept;
pub(crate) mod completion;
pub(crate) mod connect;
pub(crate) mod file;
pub(crate) mod file_modes;
pub(crate) mod parts;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod status;

pub(crate) use completion::{Ended, HandleMode, Request};
pub(crate) use parts::Parts;
pub(crate) use queue::{Begun, Requests, Work};

use crate::hook::boundary::WinsockError;
use windows_sys::Win32::Foundation::STATUS_SUCCESS;

/// One attempt at a request: `None` if it cannot be completed yet.
type Attempt = Option<Result<usize, WinsockError>>;

impl Ended {
    /// A request that has moved so many bytes.
    pub(crate) const fn done(bytes: usize) -> Self {
        Self { status: STATUS_SUCCESS, bytes, flags: 0 }
    }

    /// One that has failed.
    pub(crate) fn failed(error: WinsockError) -> Self {
        Self { status: status::of_error(error), bytes: 0, flags: 0 }
    }
}
