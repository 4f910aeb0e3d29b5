//! The connection between program and service: Unix `SOCK_SEQPACKET`, one message of
//! [`tickwire_lane::control`] per packet, descriptors beside it by `SCM_RIGHTS`.

mod channel;
mod unconnected;

pub use channel::{Channel, Descriptors, Incoming};
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
