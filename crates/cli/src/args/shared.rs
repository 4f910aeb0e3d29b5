//! Options of several commands: the paths of the service's socket, the clock and the configuration.

use clap::{Args, ValueHint};
use std::path::PathBuf;
pub(crate) use tickwire_commands::args::clock::{Config, PageOption};

/// Where the service listens.
#[derive(Debug, Args)]
pub(crate) struct Socket {
    /// The service's socket [default: /run/tickwire/service.sock]
    #[arg(long, env = "TICKWIRE_SOCKET", hide_env_values = true, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

impl Socket {
    /// The socket that was named, else the usual one.
    pub(crate) fn path(&self) -> PathBuf {
        self.named().unwrap_or_else(|| DEFAULT_SOCKET.into())
    }

    /// The socket that was named, as an absolute path: the program that uses it may have changed
    /// its directory by then.
    pub(crate) fn named(&self) -> Option<PathBuf> {
        let socket = self.socket.as_ref()?;
        Some(std::path::absolute(socket).unwrap_or_else(|_| socket.clone()))
    }
}

/// The default path of the service's socket.
const DEFAULT_SOCKET: &str = "/run/tickwire/service.sock";
