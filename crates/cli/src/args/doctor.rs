//! `tickwire doctor`.

use super::shared::Socket;
use clap::Args;

/// Check whether this machine is ready for low latency.
///
/// One line for each check: good, or what to change and how much it matters. Changes nothing. What
/// only root can find out is not known to other users.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/doctor.txt"))]
pub(crate) struct Doctor {
    /// Check these interfaces [default: every physical interface, and those that the service
    /// accelerates]
    #[arg(long = "interface", value_name = "IF")]
    pub(crate) interfaces: Vec<String>,

    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}
