//! What processes hold on host a. After load it must be what it was before.

use super::TIMEOUT;
use crate::windows::lab::Hosts;
use crate::windows::lab_programs;
use crate::windows::wine_process::WineProcess;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use tickwire_lab::Process;

/// For so long closed connections may hold something. (One that was closed by the program first is
/// in TIME_WAIT for a minute: peers here close first.)
const SETTLES: Duration = Duration::from_secs(30);

/// Figures by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held(BTreeMap<&'static str, u64>);

impl Held {
    /// What is held now, on a host with this service.
    pub(super) fn now(hosts: &Hosts, service: &Process) -> Result<Self> {
        let stat = hosts.stat_until("the service answers", |stat| stat["lanes"].is_array())?;
        let lanes = stat["lanes"].as_array().context("no lanes")?;
        let claims = lanes.iter().filter_map(|lane| lane["claims"].as_array()).map(Vec::len).sum::<usize>();
        let linux = WineProcess::of(service.id());
        let server = hosts.wine.server()?;
        let figures = [
            ("handles of the service and of `tickwire run`", handles(hosts, "tickwire.exe")?),
            ("handles of the programs", handles(hosts, "stress.exe")?),
            ("sections mapped by the service", linux.mappings()? as u64),
            ("descriptors of the service", linux.descriptors()? as u64),
            ("descriptors of wineserver, without pipes", server.descriptors_without_pipes()? as u64),
            ("lanes", lanes.len() as u64),
            ("claims", claims as u64),
            ("sockets of the host", sockets(hosts)?),
        ];
        Ok(Self(figures.into()))
    }

    /// Waits until no more is held than before. Returns what is held then.
    ///
    /// # Errors
    /// What is left.
    pub(super) fn settles(&self, hosts: &Hosts, service: &Process) -> Result<Self> {
        let begin = Instant::now();
        loop {
            let now = Self::now(hosts, service)?;
            let more = now.more_than(self);
            if more.is_empty() {
                return Ok(now);
            }
            ensure!(begin.elapsed() < SETTLES, "something is left: {}", more.join("; "));
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn more_than(&self, before: &Self) -> Vec<String> {
        let of = |name| before.0.get(name).copied().unwrap_or(0);
        let more = self.0.iter().filter(|(name, count)| **count > of(**name));
        more.map(|(name, count)| format!("{name}: {count} after {}", of(*name))).collect()
    }

    pub(super) fn json(&self) -> Value {
        json!(self.0)
    }
}

/// The handles of all processes of a program.
fn handles(hosts: &Hosts, name: &str) -> Result<u64> {
    let told = hosts.wine.spawn(&lab_programs::program("handles")?, &[name])?.success(TIMEOUT)?;
    let counts = told.split_whitespace().filter_map(|word| word.strip_prefix("handles=")?.parse::<u64>().ok());
    Ok(counts.sum())
}

/// The kernel's sockets of TCP and UDP, those that wait for their end included.
fn sockets(hosts: &Hosts) -> Result<u64> {
    let told = hosts.pair.a.run(&["cat", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"])?;
    Ok(told.lines().filter(|line| !line.contains("local_address")).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_grown_is_told() {
        let before = Held([("handles", 5), ("lanes", 1)].into());
        assert!(before.more_than(&before).is_empty());
        let after = Held([("handles", 7), ("lanes", 0)].into());
        assert_eq!(after.more_than(&before), ["handles: 7 after 5"]);
    }
}
