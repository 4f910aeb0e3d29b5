//! `tickwire jitter`.

use super::values::small;
use clap::{Args, ValueEnum, ValueHint};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Measure how evenly this machine transmits, at rest and under load.
///
/// Latency profiles of reading network cards' clocks; of sending a message, from the call to the
/// driver, to the wire and to the peer; and of sending it at an instant. By default it makes a lab
/// of two hosts (as root), and compares the kernel's path with Tickwire's; with `--interface` and
/// `--to` it measures a network card, with the card's own stamps. What this machine lacks is named.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/jitter.txt"))]
pub(crate) struct Jitter {
    /// Messages of each profile, and readings of each clock; 8000 take about two minutes in all
    #[arg(long, value_name = "N", default_value_t = 8000, allow_negative_numbers = true, value_parser = samples)]
    pub(crate) samples: u32,

    /// Bytes of each frame, without its checksum
    #[arg(long, value_name = "BYTES", default_value_t = 166, allow_negative_numbers = true, value_parser = frame)]
    pub(crate) size: u32,

    /// Send by this network card instead of in a lab
    #[arg(long, value_name = "IF", requires = "to")]
    pub(crate) interface: Option<String>,

    /// Send to this address, as ADDRESS or ADDRESS:PORT (by default the discard port); no program
    /// needs to listen there
    #[arg(long, value_name = "ADDRESS", requires = "interface", value_parser = target)]
    pub(crate) to: Option<SocketAddr>,

    /// The serial line for the load `disk+serial`: about 100 characters are written to it for each
    /// block
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::FilePath)]
    pub(crate) serial: Option<PathBuf>,

    /// Under these loads, with commas between them [default: all that are there]
    #[arg(long = "load", value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) loads: Vec<JitterLoad>,

    /// Write a report for a browser, with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,

    /// The sender of a lab, which the command starts itself.
    #[arg(long, hide = true, conflicts_with_all = ["interface", "serial", "loads", "html", "json"])]
    pub(crate) send: Option<SocketAddr>,

    /// The sender sleeps until each instant.
    #[arg(long, hide = true, requires = "send")]
    pub(crate) sleep: bool,

    /// The sender asks for its driver's stamps.
    #[arg(long, hide = true, requires = "send")]
    pub(crate) stamps: bool,
}

/// What keeps the machine busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JitterLoad {
    /// No load of ours
    None,
    /// A thread for each processor that computes
    Cpu,
    /// Blocks of 8 MB read past the kernel's cache from a file on the disk of the working directory
    Disk,
    /// Both
    #[value(name = "cpu+disk")]
    CpuDisk,
    /// The disk, and a line for each block to a serial console
    #[value(name = "disk+serial")]
    DiskSerial,
}

fn samples(text: &str) -> Result<u32, String> {
    small(text, 50, 100_000)
}

/// All sizes of Ethernet frames.
fn frame(text: &str) -> Result<u32, String> {
    small(text, 60, 1514)
}

/// The port of the discard service (RFC 863).
const DISCARD: u16 = 9;

fn target(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().or_else(|| text.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, DISCARD)));
    address
        .ok_or_else(|| "expected an address as 192.0.2.1, 192.0.2.1:5000, 2001:db8::1 or [2001:db8::1]:5000".to_owned())
}
