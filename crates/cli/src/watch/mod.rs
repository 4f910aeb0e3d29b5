//! `tickwire watch`: streams, latencies, drops and the clock, on a terminal or as metrics.
//!
//! | module | purpose |
//! |---|---|
//! | `snapshot` | what clock, service and testbed say at one moment |
//! | `dropped` | the counters that mean loss, by kind |
//! | `draw` | a snapshot on a page of any size; no I/O |
//! | `view` | the state of the view, and the keys that change it |
//! | `screen` | the terminal |
//! | `metrics` | a snapshot for Prometheus |
//! | `serve` | serves that over HTTP |

mod draw;
mod dropped;
mod metrics;
mod screen;
mod serve;
mod snapshot;
mod view;

use crate::args::watch::Watch;
use anyhow::Result;
use snapshot::Sources;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use terminal_size::{Width, terminal_size_of};

/// The width of a page that is not for a terminal.
const USUAL_WIDTH: u16 = 100;

pub(crate) fn run(arguments: &Watch) -> Result<ExitCode> {
    let sources = Sources::new(arguments);
    let interval = Duration::from_secs_f64(arguments.interval);
    if let Some(address) = arguments.metrics {
        serve::run(address, sources, interval)?;
    } else if arguments.once || !std::io::stdout().is_terminal() {
        let out = std::io::stdout();
        let width = terminal_size_of(&out).filter(|_| out.is_terminal()).map_or(USUAL_WIDTH, |(Width(width), _)| width);
        tickwire_show::output::print(&draw::text(&sources.look(), width))?;
    } else {
        screen::run(sources, interval)?;
    }
    Ok(ExitCode::SUCCESS)
}
