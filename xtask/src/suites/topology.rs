//! The hosts for the tests: a lab pair whose second host is a mirror.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{LabPair, Process, Service};

pub(super) const PYTHON: &str = "/usr/bin/python3";
const MIRROR: &str = include_str!("mirror.py");
const SUBSTITUTE: &str = include_str!("substitute.c");
/// The addresses that the mirror reflects.
pub(super) const MIRRORED: [&str; 2] = ["10.77.0.9", "fd77::9"];

pub(super) struct Topology {
    pub(super) pair: LabPair,
    service: Service,
    /// Processes of the host that are not part of a test.
    own: BTreeSet<i32>,
    _mirror: Process,
}

impl Topology {
    pub(super) fn new() -> Result<Self> {
        let pair = LabPair::new()?;
        let service = Service::start(&pair.a)?;
        // No rate limit: each packet gets its ICMP error, as over the loopback interface.
        for limit in ["net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"] {
            pair.a.sysctl(limit, "0")?;
        }
        let mirror = mirror(&pair)?;
        let own = processes(&pair)?;
        Ok(Self { pair, service, own, _mirror: mirror })
    }

    /// A program on the host that has the service.
    pub(super) fn command(&self, program: &str, accelerated: bool) -> Result<Command> {
        let mut command = if accelerated { self.pair.a.accelerated(program)? } else { self.pair.a.command(program) };
        command.current_dir(self.pair.a.directory());
        Ok(command)
    }

    /// Packets diverted to lanes so far.
    pub(super) fn packets(&self) -> Result<u64> {
        Ok(self.service.stat()?.diverted())
    }

    /// Kills the processes that tests have left on the host: they may hold resources that the next
    /// test needs.
    pub(super) fn end_others(&self) -> Result<()> {
        for process in processes(&self.pair)?.difference(&self.own) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(*process), Signal::SIGKILL);
        }
        Ok(())
    }

    /// Compiles the library that substitutes the mirror's addresses for loopback addresses.
    pub(super) fn substitute(&self) -> Result<PathBuf> {
        let folder = self.pair.a.directory();
        let (source, library) = (folder.join("substitute.c"), folder.join("substitute.so"));
        std::fs::write(&source, SUBSTITUTE).with_context(|| format!("cannot write {}", source.display()))?;
        let [v4, v6] = MIRRORED;
        let addresses =
            [("OWN4", self.pair.a_v4()), ("MIRROR4", v4.into()), ("OWN6", self.pair.a_v6()), ("MIRROR6", v6.into())];
        let defined: Vec<String> = addresses.iter().map(|(name, address)| format!("-D{name}=\"{address}\"")).collect();
        let (from, to) = (source.to_string_lossy(), library.to_string_lossy());
        let mut compile = vec!["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", to.as_ref(), from.as_ref()];
        compile.extend(defined.iter().map(String::as_str));
        tickwire_lab::run(&compile)?;
        Ok(library)
    }
}

/// All processes on the host.
fn processes(pair: &LabPair) -> Result<BTreeSet<i32>> {
    let list = tickwire_lab::run(&["ip", "netns", "pids", pair.a.namespace()])?;
    list.split_whitespace().map(|number| number.parse().context("no process number")).collect()
}

/// Makes host b a mirror.
fn mirror(pair: &LabPair) -> Result<Process> {
    // With GRO it would receive merged packets that are too long to send.
    pair.b.run(&["ethtool", "-K", "eth0", "gro", "off"])?;
    let hardware = pair.b.run(&["cat", "/sys/class/net/eth0/address"])?;
    for address in MIRRORED {
        pair.a.run(&["ip", "neighbour", "add", address, "lladdr", hardware.trim(), "dev", "eth0"])?;
    }
    let mut mirror = pair.b.spawn(&[&[PYTHON, "-c", MIRROR, "eth0"][..], &MIRRORED].concat())?;
    mirror.wait_for("ready", Duration::from_secs(10))?;
    Ok(mirror)
}
