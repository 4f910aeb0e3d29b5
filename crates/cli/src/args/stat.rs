//! `tickwire stat`.

use super::shared::Socket;
use clap::Args;

/// Show programs on the fast path, their sockets and the counters.
///
/// The figures come from the lanes' memory, without asking the programs. For every socket it says
/// whether it is accelerated and, if not, why. A user sees the lanes of that user; root sees all.
/// On a terminal too narrow for the table each socket has a few lines.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/stat.txt"))]
pub(crate) struct Stat {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Print JSON, one document a reading
    #[arg(long)]
    pub(crate) json: bool,

    /// Read again every second, until Ctrl-C; waits for a service that is away
    #[arg(long)]
    pub(crate) watch: bool,
}
