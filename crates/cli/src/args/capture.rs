//! `tickwire capture`.

use super::shared::Socket;
use clap::Args;
use tickwire_commands::args::capture::CaptureOptions;

/// Record the packets of accelerated programs.
///
/// Diverted packets never reach the kernel's stack, so tcpdump cannot see them. The file is in
/// pcapng format with nanosecond stamps and one interface for each lane and each network card;
/// Wireshark and tcpdump read it. Ctrl-C ends it and says how many packets were recorded and how
/// many were lost. Root records all lanes, another user only its own lanes that exist when it
/// begins.
#[derive(Debug, Args)]
#[command(override_usage = "tickwire capture [OPTIONS] --write <FILE>", after_long_help = include_str!("../manual/capture.txt"))]
pub(crate) struct Capture {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// What, and where to.
    #[command(flatten)]
    pub(crate) options: CaptureOptions,
}
