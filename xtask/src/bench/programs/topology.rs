//! Four pairs of hosts, one for each way. Only an accelerated end has a service, so that a kernel's
//! end is an ordinary host.

use super::launch::Site;
use super::ways::{End, Way};
use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tickwire_lab::{CableOptions, LabHost, LabPair, Service, ServiceOptions};

/// The hosts of one way.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) way: Way,
    // Fields drop in order: the services end before their hosts.
    services: Vec<(End, Service, u32)>,
    pair: LabPair,
}

/// All hosts.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) hosts: Vec<Hosts>,
    installed: PathBuf,
    seconds: u32,
}

/// Programs of unprivileged users get lanes, too.
const CONFIG: &str = "[socket]\nmode = 0o666\n";
/// A killed process is gone well within this.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Topology {
    pub(super) fn new(attach: &str, seconds: u32, installed: PathBuf) -> Result<Self> {
        let hosts = Way::ALL.into_iter().map(|way| Hosts::new(way, attach)).collect::<Result<_>>()?;
        Ok(Self { hosts, installed, seconds })
    }

    /// The hosts on which both ends are the kernel's.
    pub(super) fn kernel(&self) -> &LabPair {
        &self.hosts[Way::Kernel.index()].pair
    }

    /// The parameters for a program at this end of this way.
    pub(super) fn site(&self, hosts: &Hosts, end: End) -> Site {
        Site {
            host: hosts.host(end).clone(),
            address: hosts.pair.b_v4(),
            seconds: self.seconds,
            shared: self.kernel().lab.directory(),
            installed: self.installed.clone(),
        }
    }
}

impl Hosts {
    fn new(way: Way, attach: &str) -> Result<Self> {
        // The kernel has its offloads where it is alone.
        let pair = LabPair::with(&CableOptions { offload: way == Way::Kernel, ..CableOptions::default() })?;
        let options = ServiceOptions {
            config: CONFIG.into(),
            arguments: vec!["--attach".into(), attach.into()],
            ..ServiceOptions::default()
        };
        let mut services = Vec::new();
        for (end, host) in [(End::Client, &pair.a), (End::Server, &pair.b)] {
            // Discovery by multicast needs a route; on ordinary hosts the default route serves.
            host.run(&["ip", "route", "add", "224.0.0.0/4", "dev", "eth0"])?;
            if way.accelerates(end) {
                let mut service = Service::start_with(host, &options)?;
                let process = service.process().id();
                services.push((end, service, process));
            }
        }
        Ok(Self { way, services, pair })
    }

    pub(super) fn host(&self, end: End) -> &LabHost {
        match end {
            End::Client => &self.pair.a,
            End::Server => &self.pair.b,
        }
    }

    /// The ends that have a service.
    pub(super) fn accelerated(&self) -> impl Iterator<Item = End> + '_ {
        self.services.iter().map(|(end, ..)| *end)
    }

    /// Kills the leftovers of a measurement: every process of both hosts but the services.
    pub(super) fn clear(&self) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        loop {
            let left: Vec<Pid> = [End::Client, End::Server].into_iter().flat_map(|end| self.left(end)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("processes {left:?} cannot be killed");
            }
            for process in left {
                let _ = kill(process, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn left(&self, end: End) -> Vec<Pid> {
        let listed = tickwire_lab::run(&["ip", "netns", "pids", self.host(end).namespace()]).unwrap_or_default();
        let processes = listed.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw);
        processes.filter(|process| !self.is_service(*process) && !is_zombie(*process)).collect()
    }

    /// Each program of the lab leads a process group.
    fn is_service(&self, process: Pid) -> bool {
        let Ok(group) = getpgid(Some(process)) else { return false };
        self.services.iter().any(|(.., service)| i64::from(group.as_raw()) == i64::from(*service))
    }
}

fn is_zombie(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may itself contain some.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}
