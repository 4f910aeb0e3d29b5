//! `tickwire capture`.

use super::shared::Socket;
use super::values::small;
use clap::{Args, ValueHint};
use std::path::PathBuf;

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

    /// Write to this file; `-` is standard output
    #[arg(short = 'w', long = "write", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) write: PathBuf,

    /// Stop after so many packets
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub(crate) count: Option<u64>,

    /// Keep at most so many bytes of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = snaplen)]
    pub(crate) snaplen: u32,

    /// Only this lane (its number, see `tickwire stat`)
    #[arg(long, value_name = "N", conflicts_with = "program", value_parser = lane)]
    pub(crate) lane: Option<u32>,

    /// Only lanes of this program (its name or process number)
    #[arg(long, value_name = "NAME|PID")]
    pub(crate) program: Option<String>,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number, at least 1".to_owned()),
    }
}

fn snaplen(text: &str) -> Result<u32, String> {
    small(text, 64, 262_144)
}

fn lane(text: &str) -> Result<u32, String> {
    small(text, 1, u32::MAX)
}
