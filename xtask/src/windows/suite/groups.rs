//! Running the cases of a group: a process for each way, with a lane of its own.

use super::build;
use crate::windows::programs::{ProgramHosts, ProgramRun, Sockets};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::Duration;
use tickwire_lab::{Process, tools};

/// The peer's port.
const PORT: u16 = 7;

/// Within this a group has ended, even if some of its cases hang.
const TIMEOUT: Duration = Duration::from_secs(200);

/// The groups, and the names of their cases in order.
pub(super) type CaseNames = BTreeMap<String, Vec<String>>;

/// The results of a group by the names of its cases.
pub(super) type CaseLines = BTreeMap<String, String>;

/// What the service has counted for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRun {
    pub(super) group: String,
    /// Packets of both directions.
    pub(super) packets: u64,
    /// Why sockets of the group stayed on the kernel.
    pub(super) kernel: Vec<String>,
}

/// The hosts, with the peer.
pub(super) struct SuiteHosts {
    // In the order in which they are to end.
    peer: Process,
    hosts: ProgramHosts,
}

impl SuiteHosts {
    pub(super) fn new() -> Result<Self> {
        let hosts = ProgramHosts::new()?;
        let pair = hosts.pair();
        // Linux limits how often it says that there is no such port; cases rely on being told.
        for limit in ["net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"] {
            pair.b.sysctl(limit, "0")?;
        }
        // Networks behind the peer: one is unreachable, the other is silent.
        pair.b.sysctl("net.ipv4.ip_forward", "1")?;
        for (kind, network) in [("unreachable", "10.99.0.0/24"), ("blackhole", "10.97.0.0/24")] {
            pair.b.run(&["ip", "route", "add", kind, network])?;
            pair.a.run(&["ip", "route", "add", network, "via", &pair.b_v4()])?;
        }
        let mut peer = pair.b.spawn(&["python3", "-c", include_str!("peer.py"), &PORT.to_string()])?;
        peer.wait_for("ready", Duration::from_secs(10))?;
        Ok(Self { peer, hosts })
    }

    /// The groups and cases of the program.
    pub(super) fn list(&self) -> Result<CaseNames> {
        let run = ProgramRun::new(&self.hosts, Sockets::Kernel);
        let text = run.client(&build::program()?, &["list"])?;
        let mut names = CaseNames::new();
        for line in text.lines() {
            let (group, name) = line.split_once(' ').with_context(|| format!("no case: {line}"))?;
            names.entry(group.to_owned()).or_default().push(name.trim().to_owned());
        }
        ensure!(!names.is_empty(), "the program has no cases");
        Ok(names)
    }

    /// Runs cases of a group. On the lane the service's counters come, too.
    pub(super) fn run(&self, group: &str, names: &[String], sockets: Sockets) -> Result<(CaseLines, Option<GroupRun>)> {
        ensure!(self.peer.stderr().is_empty(), "the peer: {}", self.peer.stderr());
        let run = ProgramRun::new(&self.hosts, sockets);
        let pair = self.hosts.pair();
        let (port, list) = (PORT.to_string(), names.join(","));
        let words = [&*pair.a_v4(), &pair.b_v4(), &pair.a_v6(), &pair.b_v6(), &port, group, &list].map(str::to_owned);
        let words = words.each_ref().map(String::as_str);
        let mut process = Process::spawn(run.windows(&build::program()?, &words)?)?;
        // A program that has ended early lacks cases, which is a result.
        let ended = tools::until("the group ends", TIMEOUT, || {
            process.stdout().contains("end of ") || !process.is_running().unwrap_or(false)
        });
        let lines = lines(group, &process.stdout());
        let is_complete = ended.is_ok();
        let lanes = run.end()?;
        ensure!(is_complete, "{group}: not ended within {} s", TIMEOUT.as_secs());
        if sockets == Sockets::Kernel {
            ensure!(lanes.is_empty(), "{group}: a program without the library has got a lane");
            return Ok((lines, None));
        }
        let packets = lanes.iter().map(|lane| lane.packets).sum();
        let mut kernel: Vec<String> = lanes.into_iter().flat_map(|lane| lane.kernel).collect();
        kernel.sort_unstable();
        kernel.dedup();
        if packets == 0 {
            bail!("{group}: its lane had no packets");
        }
        Ok((lines, Some(GroupRun { group: group.to_owned(), packets, kernel })))
    }
}

/// The cases whose `GROUP/NAME` contains one of these texts; all, if there are none.
pub(super) fn chosen(all: &CaseNames, only: &[String]) -> Result<CaseNames> {
    let mut chosen = all.clone();
    for (group, names) in &mut chosen {
        let is_wanted = |name: &String| only.iter().any(|only| format!("{group}/{name}").contains(only));
        names.retain(|name| only.is_empty() || is_wanted(name));
    }
    chosen.retain(|_, names| !names.is_empty());
    if chosen.is_empty() {
        let groups: Vec<&str> = all.keys().map(String::as_str).collect();
        bail!("no case's name contains {}; the groups are: {}", only.join(" or "), groups.join(", "));
    }
    Ok(chosen)
}

/// The results that the program has printed: `case GROUP NAME RESULT`.
fn lines(group: &str, text: &str) -> CaseLines {
    let prefix = format!("case {group} ");
    let one = |line: &str| {
        let (name, result) = line.strip_prefix(&prefix)?.split_once(' ').unwrap_or((line, ""));
        Some((name.to_owned(), result.trim().to_owned()))
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> CaseNames {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        CaseNames::from([("a".to_owned(), names(&["echo", "close"])), ("b".to_owned(), names(&["echo"]))])
    }

    #[test]
    fn cases_are_chosen_by_their_group_and_name() {
        let chosen = |only: &[&str]| chosen(&all(), &only.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(chosen(&[]).unwrap(), all());
        let echoes = chosen(&["/echo"]).unwrap();
        assert_eq!((echoes["a"].as_slice(), echoes.len()), (&["echo".to_owned()][..], 2));
        assert_eq!((chosen(&["b/"]).unwrap().len(), chosen(&["b/", "close"]).unwrap().len()), (1, 2));
        let error = chosen(&["x", "y"]).unwrap_err().to_string();
        assert_eq!(error, "no case's name contains x or y; the groups are: a, b");
    }

    #[test]
    fn results_are_read_line_by_line() {
        let text = "launched\ncase a echo send=1 recv=1\r\ncase a close\ncase ab echo x\nend of a\n";
        let read = lines("a", text);
        assert_eq!(read.get("echo").map(String::as_str), Some("send=1 recv=1"));
        assert_eq!(read.len(), 2);
    }
}
