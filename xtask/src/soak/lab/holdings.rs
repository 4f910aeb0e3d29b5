//! Resources that a host and its service hold when no program runs there: they must not grow from
//! round to round.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use tickwire_lab::{LabHost, Service, tools};

/// A snapshot of these resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holdings {
    /// Descriptors of the service by kind: `socket`, `/memfd:tickwire-lane`, `anon_inode:bpf-map`,
    /// `net`, ...
    pub(super) descriptors: BTreeMap<String, usize>,
    /// Its mappings of lanes' memory.
    pub(super) mappings: usize,
    /// Entries of its BPF maps.
    pub(super) entries: BTreeMap<String, usize>,
    /// Lanes that the service lists.
    pub(super) lanes: usize,
    /// The host's devices. Those of lanes all get the same name, because their numbers do not
    /// matter.
    pub(super) devices: Vec<String>,
    /// Sockets bound on the host: ports that no other program can bind.
    pub(super) ports: Vec<String>,
    /// Filters and XDP programs on the host's card.
    pub(super) programs: usize,
}

/// What the program `holds` prints.
#[derive(Debug, Deserialize)]
pub(super) struct Held {
    /// Lanes whose stacks were audited without a fault.
    pub(super) audited: Vec<u32>,
    entries: BTreeMap<String, usize>,
}

/// Runs `holds`, which audits the lanes and reads the BPF maps of a host's service. `process` is
/// the service's.
pub(super) fn held(host: &LabHost, process: u32) -> Result<Held> {
    let program = tools::built("examples/holds")?;
    let mut command: Command = host.command(&program.to_string_lossy());
    let done = command.arg(host.socket()).arg(process.to_string()).output().context("cannot run `holds`")?;
    if !done.status.success() {
        bail!("the stacks of host {}'s lanes: {}", host.name(), String::from_utf8_lossy(&done.stderr).trim());
    }
    serde_json::from_slice(&done.stdout).context("`holds` printed something else")
}

fn without_number(device: String) -> String {
    if tickwire_host::link::is_lane_device(&device) { "lane".into() } else { device }
}

impl Holdings {
    /// Takes a snapshot of a host and its service. `process` is the service's.
    pub(super) fn look(host: &LabHost, process: u32) -> Result<Self> {
        let mut descriptors = BTreeMap::new();
        for file in fs::read_dir(format!("/proc/{process}/fd")).context("the service is gone")? {
            // The descriptor may have been closed since.
            let Ok(target) = fs::read_link(file?.path()) else { continue };
            *descriptors.entry(kind(&target.to_string_lossy())).or_insert(0) += 1;
        }
        let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
        let lanes = tickwire_lab::stat::Stat::read(host)?.all_lanes().len();
        let links = host.run(&["ip", "-o", "link"])?;
        let ports = host.run(&["ss", "-H", "-lntu"])?;
        let name = |line: &str| Some(line.split(": ").nth(1)?.split('@').next()?.to_owned());
        let filters = host.run(&["tc", "filter", "show", "dev", "eth0", "ingress"])?;
        Ok(Self {
            descriptors,
            mappings: maps.lines().filter(|line| line.contains("/memfd:")).count(),
            entries: held(host, process)?.entries,
            lanes,
            devices: links.lines().filter_map(name).map(without_number).collect(),
            ports: ports.lines().map(str::to_owned).collect(),
            programs: filters.lines().count() + links.matches("xdp").count(),
        })
    }

    /// Whether none of these resources belongs to a program.
    pub(super) fn is_nobodys(&self) -> bool {
        self.lanes == 0 && self.mappings == 0 && self.ports.is_empty() && self.devices.len() == 2 + Service::READY_LANES
    }

    /// The differences from an earlier snapshot; none if there are none.
    pub(super) fn difference(&self, before: &Self) -> Option<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, now: String, then: String| {
            if now != then {
                found.push(format!("{what}: {then} became {now}"));
            }
        };
        let all = self.descriptors.keys().chain(before.descriptors.keys()).collect::<std::collections::BTreeSet<_>>();
        for kind in all {
            let of = |all: &BTreeMap<String, usize>| all.get(kind).copied().unwrap_or(0).to_string();
            compare(&format!("descriptors ({kind})"), of(&self.descriptors), of(&before.descriptors));
        }
        compare("mappings of lanes", self.mappings.to_string(), before.mappings.to_string());
        compare("entries of BPF maps", format!("{:?}", self.entries), format!("{:?}", before.entries));
        compare("lanes", self.lanes.to_string(), before.lanes.to_string());
        compare("devices", self.devices.join(" "), before.devices.join(" "));
        compare("bound ports", self.ports.join("; "), before.ports.join("; "));
        compare("programs on eth0", self.programs.to_string(), before.programs.to_string());
        (!found.is_empty()).then(|| found.join(", "))
    }
}

/// The kind of a descriptor: `socket:[123]` is a `socket`.
fn kind(target: &str) -> String {
    let kind = target.split(":[").next().unwrap_or(target);
    kind.trim_end_matches(" (deleted)").to_owned()
}

/// The resident anonymous memory of a process, in KiB.
pub(super) fn memory(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("no RssAnon")?;
    line.trim().trim_end_matches(" kB").parse().context("RssAnon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_told_apart_by_kind() {
        assert_eq!(kind("socket:[4711]"), "socket");
        assert_eq!(kind("net:[4026532]"), "net");
        assert_eq!(kind("/memfd:tickwire-lane (deleted)"), "/memfd:tickwire-lane");
        assert_eq!(kind("anon_inode:bpf-map"), "anon_inode:bpf-map");
    }

    #[test]
    fn what_has_grown_is_named() {
        let before = Holdings {
            descriptors: [("socket".to_owned(), 3)].into(),
            mappings: 0,
            entries: [("flows".to_owned(), 0)].into(),
            lanes: 0,
            devices: vec!["lo".into()],
            ports: Vec::new(),
            programs: 1,
        };
        assert_eq!(before.difference(&before), None);
        let mut now = before.clone();
        now.descriptors.insert("net".to_owned(), 1);
        now.devices.push("tw3h".into());
        assert_eq!(now.difference(&before).unwrap(), "descriptors (net): 0 became 1, devices: lo became lo tw3h");
    }
}
