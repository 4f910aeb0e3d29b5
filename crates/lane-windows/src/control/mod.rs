//! The connection between program and service: a named pipe in message mode, one message of
//! [`tickwire_lane::control`] for each message of the pipe, handles beside it.
//!
//! Handles travel as values. The service does all the work: it pulls a client's handles out of the
//! client's process, and puts its own ones into it. So a program needs no right to the service's
//! process.
//!
//! | module | purpose |
//! |---|---|
//! | `listener` | the pipe's name, and its clients one after the other |
//! | `server`, `server_error` | the service's end of one connection, which never blocks |
//! | `client` | the program's end: requests and their replies |
//! | `connect` | how a program finds the service, and makes sure that it is the service |
//! | `frame` | a message and its handle values as bytes |
//! | `handles` | handles that came with a message, or are to be sent |
//! | `process` | the client's process: its handles |
//! | `security` | the access list of the pipe, and its owner |
//! | `overlapped` | overlapped operations and their memory |
//! | `sys` | handles that come as values, and events that stay set |
//!
//! **Which process a client is.** The pipe tells the number of the process that connected. That
//! process may have passed its end on and ended, and another process may have its number by then.
//! So the service first makes an event, puts it into the process of that number, and sends its
//! value over the pipe (the greeting). The client sets the event. The service takes no request
//! before: only what has the handles of the process can set it.
//!
//! **Which process the service is.** A client trusts a pipe whose owner is LocalSystem, the
//! administrators, or the client's own user, and lets the service identify it, not act as it.
//!
//! **Wine 8** differs in three points (seen). It ignores `FILE_FLAG_FIRST_PIPE_INSTANCE`, so
//! `listener` also counts instances. A pipe has no owner unless its descriptor names one, so
//! `security` does. It has no remote clients to reject. Message mode, cancellation, and duplication
//! between processes behave as Windows documents them.

mod client;
mod connect;
mod frame;
mod handles;
mod listener;
mod overlapped;
mod process;
mod security;
mod server;
mod server_error;
mod sys;

pub use client::{ClientChannel, RequestError, Unawaited};
pub use connect::ConnectError;
pub use handles::{HandleGrant, Handles};
pub use listener::{AcceptError, ListenError, PipeListener};
pub use server::{ClientRequest, MAX_QUEUED, ServerChannel};
pub use server_error::{ReceiveError, ReplyError};

use crate::sys::wide;

/// Where the service listens by default.
pub const DEFAULT_PIPE: &str = r"\\.\pipe\tickwire";

/// Environment variable that names another pipe.
pub const SOCKET_VARIABLE: &str = "TICKWIRE_SOCKET";

/// The service's pipe: what [`SOCKET_VARIABLE`] says, else [`DEFAULT_PIPE`].
#[must_use]
pub fn pipe_name() -> String {
    match std::env::var(SOCKET_VARIABLE) {
        Ok(name) if !name.is_empty() => name,
        _ => DEFAULT_PIPE.into(),
    }
}

/// The name for Windows; `None` unless it is a pipe's, of this host, without folders.
fn wide_pipe_name(name: &str) -> Option<Vec<u16>> {
    const PREFIX: &str = r"\\.\pipe\";
    /// As long as the name of a pipe may be.
    const LONGEST: usize = 256;
    let (prefix, rest) = name.split_at_checked(PREFIX.len())?;
    let is_name = prefix.eq_ignore_ascii_case(PREFIX)
        && !rest.is_empty()
        && !rest.contains(['\\', '/', '\0'])
        && name.len() < LONGEST;
    is_name.then(|| wide(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_local_pipes_are_names() {
        for name in [DEFAULT_PIPE, r"\\.\PIPE\a.b"] {
            assert!(wide_pipe_name(name).is_some_and(|wide| wide.last() == Some(&0)), "{name}");
        }
        let long = format!("{DEFAULT_PIPE}{}", "x".repeat(300));
        for name in ["", r"\\.\pipe\", r"\\.\pipe\..\C:", r"\\.\pipe\a/b", "C:\\file", r"\\host\pipe\tickwire", &long] {
            assert!(wide_pipe_name(name).is_none(), "{name}");
        }
        assert!(wide_pipe_name("\\\\.\\pipe\\a\0b").is_none());
    }
}
