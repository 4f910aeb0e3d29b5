//! The hosts and programs, and how a row is measured.

use super::rows::{Row, Stack, Transport, Wait};
use crate::windows::build::Profile;
use crate::windows::lab_programs;
use crate::windows::service_log::{self, EndedLane};
use crate::windows::wine::windows_path;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, ensure};
use std::thread::available_parallelism;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_lab::{LabPair, Process, tools, wait_until_listening};

/// Within this a program has done its work.
const TIMEOUT: Duration = Duration::from_secs(120);

const PORT: u16 = 7;

/// Round trips before those that are measured.
const WARMUP: u32 = 500;

/// How the peer waits for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PeerWait {
    /// In the call
    Block,
    /// Without a pause
    Spin,
}

impl PeerWait {
    /// A peer that polls needs a processor, as program and service do.
    pub(super) fn for_this_machine() -> Self {
        if processors() >= 3 { Self::Spin } else { Self::Block }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Spin => "spin",
        }
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// The processors of the program, and of Wine's server, service and peer.
struct Placement {
    program: String,
    wine: String,
    peer: String,
}

impl Placement {
    fn for_this_machine() -> Self {
        let last = processors().saturating_sub(1);
        let of = |number: usize| number.min(last).to_string();
        // The peer's packets are handled by the processor of what has sent them: the service.
        Self { program: of(0), wine: of(1), peer: of(if last >= 2 { 2 } else { 1 }) }
    }
}

/// A pair of hosts: Windows programs on the first, the peer on the second.
struct Hosts {
    // In the order in which they are to end.
    service: Option<Process>,
    wine: WineHost,
    pair: LabPair,
}

impl Hosts {
    fn new(profile: Profile, has_service: bool, placement: &Placement) -> Result<Self> {
        let pair = LabPair::new()?;
        let wine = WineHost::new(&pair.a)?;
        let mut service = None;
        if has_service {
            let program = profile.windows("examples/lab_service.exe")?;
            let mut command = wine.command_on(&placement.wine, &program);
            command.args(["lab", "eth0"]);
            let started = service.insert(Process::spawn(command)?);
            started.wait_for("ready", TIMEOUT)?;
        }
        Ok(Self { service, wine, pair })
    }

    /// The lanes that have ended.
    fn ended_lanes(&self) -> Result<Vec<EndedLane>> {
        service_log::ended_lanes(&self.service.as_ref().map(Process::stdout).unwrap_or_default())
    }
}

/// The hosts with a service, and those without.
pub(super) struct Topology {
    with: Hosts,
    without: Hosts,
    placement: Placement,
    profile: Profile,
    trips: u32,
    peer: PeerWait,
}

impl Topology {
    pub(super) fn new(profile: Profile, trips: u32, peer: PeerWait) -> Result<Self> {
        let placement = Placement::for_this_machine();
        let hosts = |has_service| Hosts::new(profile, has_service, &placement);
        let (with, without) = (hosts(true)?, hosts(false)?);
        Ok(Self { with, without, placement, profile, trips, peer })
    }

    /// What is the same for all rows, in words.
    pub(super) fn description(&self) -> String {
        let Placement { program, wine, peer } = &self.placement;
        let word = self.peer.word();
        let built = if self.profile == Profile::Debug { "; programs as tests have them" } else { "" };
        format!("processors: program {program}, service {wine}, peer {peer}; the peer waits by `{word}`{built}")
    }

    /// Measures a row once. On the lane, at least two packets for each round trip crossed it.
    pub(super) fn measure(&self, row: &Row) -> Result<Latency> {
        let hosts = match row.stack {
            Stack::Kernel => &self.without,
            Stack::Lane => &self.with,
        };
        let _peer = self.start_peer(hosts, row.transport)?;
        let before = hosts.ended_lanes()?.len();
        let printed = self.client(hosts, row)?.success(TIMEOUT)?;
        let latency: Latency = serde_json::from_str(printed.trim()).with_context(|| format!("figures: {printed}"))?;
        if row.stack == Stack::Lane {
            let has_ended = || hosts.ended_lanes().is_ok_and(|lanes| lanes.len() > before);
            tools::until("the lane ends", TIMEOUT, has_ended)?;
            let lanes = hosts.ended_lanes()?;
            let EndedLane { received, sent, .. } = *lanes.last().context("no lane")?;
            let least = u64::from(self.trips);
            ensure!(received >= least && sent >= least, "the lane has had {received} and {sent} packets");
        }
        Ok(latency)
    }

    fn start_peer(&self, hosts: &Hosts, transport: Transport) -> Result<Process> {
        let address = format!("{}:{PORT}", hosts.pair.b_v4());
        let transport = transport.word();
        let program = tools::built("pingpong")?.display().to_string();
        let words = [&*program, "server", transport, &address, "--wait", self.peer.word()];
        let command = crate::traffic::command(&hosts.pair.b, &self.placement.peer, None, &words)?;
        let mut peer = Process::spawn(command)?;
        wait_until_listening(&hosts.pair.b, transport, PORT, &mut peer)?;
        Ok(peer)
    }

    fn client(&self, hosts: &Hosts, row: &Row) -> Result<Process> {
        let program = lab_programs::program("round_trips")?;
        let mut command = match row.stack {
            Stack::Kernel => hosts.wine.command_on(&self.placement.program, &program),
            Stack::Lane => {
                let launch = self.profile.windows("examples/launch.exe")?;
                let mut command = hosts.wine.command_on(&self.placement.program, &launch);
                let library = self.profile.windows("tickwire_winsock.dll")?;
                command.args(["--require", &windows_path(&library), &windows_path(&program)]);
                command
            }
        };
        let call = if row.wait == Wait::ProgramPolls { "poll" } else { "block" };
        command.args([row.transport.word(), call, &hosts.pair.b_v4(), &PORT.to_string()]);
        command.args([self.trips, WARMUP].map(|count| count.to_string()));
        command.env("TICKWIRE_SPIN", if row.wait == Wait::Asleep { "never" } else { "adaptive" });
        Process::spawn(command)
    }
}

impl Transport {
    const fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}
