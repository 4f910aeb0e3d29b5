//! `tickwire stat`: what is on the fast path, and why the rest is not.

mod gather;
mod reading;
mod show;

use crate::args::Stat;
use crate::client::Client;
use anyhow::{Context, Result};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How often `--watch` reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Clears a terminal and goes to its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints one reading, or one a second.
pub(crate) fn run(arguments: &Stat) -> Result<()> {
    let socket = arguments.socket.path();
    loop {
        // A connection for each reading: with --watch the service may be restarted in between.
        let reading = Client::connect(&socket).and_then(|mut client| gather::gather(&mut client));
        let text = match reading {
            Ok(reading) if arguments.json => {
                serde_json::to_string(&reading).context("cannot print the reading")? + "\n"
            }
            Ok(reading) => show::page(&reading),
            Err(error) if arguments.watch && !arguments.json => format!("tickwire: {error:#}\n"),
            Err(error) => return Err(error),
        };
        let mut out = std::io::stdout().lock();
        let clear = if arguments.watch && !arguments.json && out.is_terminal() { CLEAR } else { "" };
        match write!(out, "{clear}{text}").and_then(|()| out.flush()) {
            // Whoever read us (`head`) has enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            done => done.context("cannot write")?,
        }
        if !arguments.watch {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}
