//! `tickwire watch`.

use super::shared::{PageOption, Socket};
use super::values::{number, small};
use clap::Args;
use std::net::{IpAddr, SocketAddr};

/// Watch streams, latencies, drops and the clock.
///
/// A dashboard for a terminal: how good the clock is; of a testbed that runs, how long each
/// stream's messages take, beside its deadline; of each program on the fast path its sockets,
/// queues and retransmissions; and what was dropped, and why. It needs no root: it shows what this
/// user may see. What is not there is said, with what to do about it.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/watch.txt"))]
pub(crate) struct Watch {
    /// Where the service listens.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// Whose clock.
    #[command(flatten)]
    pub(crate) page: PageOption,

    /// Watch the testbed that this process runs [default: the one that was started last]
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub(crate) run: Option<u32>,

    /// How often to look
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, allow_negative_numbers = true, value_parser = interval)]
    pub(crate) interval: f64,

    /// Serve the figures to Prometheus on this address, instead of a dashboard [default:
    /// 127.0.0.1:9124]
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = "127.0.0.1", conflicts_with = "once", value_parser = metrics)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Print one page as plain text, as it is also done where standard output is no terminal
    #[arg(long)]
    pub(crate) once: bool,
}

/// The port of `tickwire watch --metrics`.
const METRICS_PORT: u16 = 9124;

fn metrics(text: &str) -> Result<SocketAddr, String> {
    let address = text.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| (address, METRICS_PORT).into());
    text.parse()
        .or(address)
        .map_err(|_| "expected an address of this host, as 127.0.0.1, 127.0.0.1:9124 or [::1]:9124".to_owned())
}

fn interval(text: &str) -> Result<f64, String> {
    number(text, 0.1..=3600.0)
}

fn pid(text: &str) -> Result<u32, String> {
    small(text, 1, i32::MAX.unsigned_abs())
}
