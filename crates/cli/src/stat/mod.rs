//! `tickwire stat`: what is on the fast path, and why the rest is not.

#[cfg(test)]
mod fake;
mod gather;
mod kernels;
mod on_kernel;
mod processes;
mod reading;
mod search;
mod show;
mod unserved;

pub(crate) use gather::gather;
#[cfg(test)]
pub(crate) use gather::guard_counters;
#[cfg(test)]
pub(crate) use reading::{Host, Tcp};
pub(crate) use reading::{Interface, Lane, Reading, Socket};
pub(crate) use search::Search;

use crate::args::stat::Stat;
use crate::client::Client;
use crate::layout;
use crate::output;
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::time::Duration;
use terminal_size::{Height, Width, terminal_size_of};

/// How often `--watch` reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Clears a terminal and moves the cursor to its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints one reading, or one a second.
pub(crate) fn run(arguments: &Stat) -> Result<()> {
    let socket = arguments.socket.path();
    // With --watch, the last error that was printed; it is not repeated.
    let mut said = None;
    let mut search = Search::default();
    loop {
        // A connection for each reading: with --watch the service may be restarted in between.
        match Client::connect(&socket).and_then(|mut client| gather(&mut client, &mut search)) {
            Ok(reading) => {
                said = None;
                if !print(arguments, &reading)? {
                    return Ok(());
                }
            }
            Err(error) if arguments.watch => {
                let why = format!("{error:#}");
                if said.as_ref() != Some(&why) {
                    eprintln!("tickwire: {why}; waiting for it");
                    said = Some(why);
                }
            }
            Err(error) => return Err(error),
        }
        if !arguments.watch {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}

/// The names of the interfaces that the service accelerates, or means to.
pub(crate) fn interfaces(client: &mut Client) -> Result<Vec<String>> {
    Ok(gather::interfaces(client)?.into_iter().map(|interface| interface.name).collect())
}

/// Returns whether the reader of standard output wants more.
fn print(arguments: &Stat, reading: &Reading) -> Result<bool> {
    let out = std::io::stdout();
    let size = terminal_size_of(&out).filter(|_| out.is_terminal());
    let text = match size {
        _ if arguments.json => serde_json::to_string(reading).context("cannot print the reading")? + "\n",
        None => show::page(reading, None),
        Some((Width(width), Height(height))) => {
            let page = show::page(reading, Some(width.into()));
            // A page that is longer than the terminal would scroll its top away.
            if arguments.watch { CLEAR.to_owned() + &layout::cut(&page, height.into()) } else { page }
        }
    };
    output::print(&text)
}
