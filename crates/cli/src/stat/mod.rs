//! `tickwire stat`: what is on the fast path, and why the rest is not.

#[cfg(test)]
mod fake;
mod gather;
mod kernels;
mod on_kernel;
mod processes;
mod search;
mod unserved;

pub(crate) use gather::gather;
#[cfg(test)]
pub(crate) use gather::guard_counters;
pub(crate) use search::Search;

use crate::args::stat::Stat;
use crate::client::Client;
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::time::Duration;
use terminal_size::{Height, Width, terminal_size_of};
use tickwire_show::stat::{StatReading, page};
use tickwire_show::{layout, output};

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
fn print(arguments: &Stat, reading: &StatReading) -> Result<bool> {
    let out = std::io::stdout();
    let size = terminal_size_of(&out).filter(|_| out.is_terminal());
    let text = match size {
        _ if arguments.json => serde_json::to_string(reading).context("cannot print the reading")? + "\n",
        None => page(reading, None),
        Some((Width(width), Height(height))) => {
            let text = page(reading, Some(width.into()));
            // A page that is longer than the terminal would scroll its top away.
            if arguments.watch { CLEAR.to_owned() + &layout::cut(&text, height.into()) } else { text }
        }
    };
    output::print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use tickwire_show::stat::{ClaimReading, Host, Interface, Lane, SocketReading, Tcp};

    /// All field names in a JSON value, except the names of stack counters, which are those of
    /// netstat.
    fn names(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    into.push(name.clone());
                    names(value, into);
                }
            }
            Value::Array(all) => all.iter().for_each(|value| names(value, into)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_in_the_manual() {
        let socket = SocketReading {
            protocol: "tcp",
            accelerated: false,
            reason: Some(String::new()),
            // On Windows only.
            polled: None,
            pid: 0,
            fd: 0,
            local: String::new(),
            remote: None,
            state: "",
            rx_queue: None,
            tx_queue: None,
            rx_packets: None,
            rx_bytes: None,
            tx_packets: None,
            tx_bytes: None,
            drops: None,
            tcp: Some(Tcp { srtt_us: 0, rto_us: 0, cwnd: 0, ssthresh: 0, mss: 0, retransmits: 0 }),
        };
        let lane = Lane {
            lane: 0,
            program: String::new(),
            pid: 0,
            uid: Some(0),
            processes: 0,
            age_ms: 0,
            memory_bytes: 0,
            accelerated: false,
            reason: Some(""),
            guard: gather::guard_counters().map(|name| (name, 0)).collect(),
            counters: BTreeMap::new(),
            sockets: vec![socket],
            claims: vec![ClaimReading { protocol: "tcp", local: String::new(), remote: Some(String::new()) }],
        };
        let interface = Interface {
            name: String::new(),
            driver: String::new(),
            mac: String::new(),
            mtu: 0,
            mode: "",
            reason: Some(""),
        };
        let counters = gather::HOST_COUNTERS.map(|name| (name, 0)).into_iter().collect();
        let host = Host { interfaces: vec![interface], counters };
        let reading = StatReading { host, lanes: vec![lane], incomplete: false, of_all_users: true };
        let mut all = Vec::new();
        names(&serde_json::to_value(reading).unwrap(), &mut all);
        assert!(all.len() > 60, "{all:?}");
        let manual = include_str!("../manual/stat.txt");
        let manual = manual.split_once("JSON:").unwrap().1.split_once("Environment:").unwrap().0;
        let words: Vec<&str> = manual.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for name in all {
            assert!(words.contains(&name.as_str()), "{name} is not explained");
        }
    }
}
