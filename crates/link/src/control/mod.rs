//! The control protocol between program and service, used once per socket and once per destination.
//!
//! Unix `SOCK_SEQPACKET`, one message per packet, descriptors beside it by `SCM_RIGHTS`. A
//! [`Request`] goes from the program to the service and is answered by exactly one [`Reply`] of the
//! same number; a [`Push`] comes from the service without a request, with number 0. Both sides run
//! on one machine, so numbers are in its byte order. But the two may be of different builds and one
//! may be hostile: every message carries magic and version, and decoding is strict (exact length,
//! known codes, values in range).

mod channel;
mod codec;
mod list;
mod message;
mod name;
mod reason;
mod unconnected;

pub use channel::{Channel, Descriptors, Incoming, MAX_DESCRIPTORS};
pub use codec::{MAX_MESSAGE, MAX_REQUEST, Malformed, VERSION};
pub use list::List;
pub use message::{
    Accelerated, AttachMode, Claim, ClaimKind, CountersOf, EphemeralPort, EphemeralPorts, Figures, Held, Interfaces,
    LaneInfo, MessageTo, Part, Parts, Push, Remotes, Reply, Request, Token,
};
pub use name::Name;
pub use reason::Reason;
pub use unconnected::why_unconnected;

use std::path::PathBuf;

/// Where the service listens by default.
pub const DEFAULT_SOCKET: &str = "/run/tickwire/service.sock";

/// Environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "TICKWIRE_SOCKET";

/// The service's socket: what [`SOCKET_VARIABLE`] says, else [`DEFAULT_SOCKET`].
#[must_use]
pub fn socket_path() -> PathBuf {
    match std::env::var_os(SOCKET_VARIABLE) {
        Some(path) if !path.is_empty() => path.into(),
        _ => DEFAULT_SOCKET.into(),
    }
}
