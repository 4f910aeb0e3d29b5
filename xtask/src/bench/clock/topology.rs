//! The hosts and programs of one scenario: the reference time's server on one host, the clock and
//! its probe on the other.

use super::keeper::Keeper;
use super::scenario::{Load, Scenario};
use crate::windows::WineHost;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tickwire_bench::error::ClockError;
use tickwire_lab::{CableOptions, Lab, LabHost, Process, tools};

const CLIENT: &str = "10.78.0.1";
const SERVER: &str = "10.78.0.2";
const INTERFACE: &str = "eth0";
const NTP: u16 = 123;
const TIMEOUT: Duration = Duration::from_secs(30);
/// A daemon that cannot start has failed after this.
const STARTED: Duration = Duration::from_millis(500);
/// The rate of a saturated cable in each direction, and the length of its queues.
const TBF: &str = "root tbf rate 100mbit burst 5kb latency 10ms";

pub(super) struct Topology {
    // Ends before the lab.
    wine: Option<WineHost>,
    _lab: Lab,
    pub(super) client: LabHost,
    server: LabHost,
    directory: PathBuf,
}

impl Topology {
    pub(super) fn new(saturated: bool) -> Result<Self> {
        let lab = Lab::new()?;
        let (client, server) = (lab.host("client")?, lab.host("server")?);
        let options = CableOptions::default();
        lab.cable(&client, &server, INTERFACE, &options)?;
        if saturated {
            // At the hosts: a switch in between would add some us to one direction only, because a
            // packet of a client that has slept meets cold caches. The server's transmit timestamp
            // is taken before the queue, so answers are late by the whole queueing delay.
            for host in [&client, &server] {
                let command = format!("tc qdisc add dev {INTERFACE} {TBF}");
                host.run(&command.split(' ').collect::<Vec<_>>())?;
            }
        }
        client.address(INTERFACE, &format!("{CLIENT}/24"))?;
        server.address(INTERFACE, &format!("{SERVER}/24"))?;
        for host in [&client, &server] {
            // Without GRO a veth timestamps a packet as soon as its peer sends it, as an idle NIC
            // does. With GRO it does so only in a NAPI poll, in the peer's context.
            host.run(&["ethtool", "-K", INTERFACE, "gro", "off"])?;
        }
        client.run(&["ping", "-c1", SERVER])?;
        let directory = lab.directory();
        Ok(Self { wine: None, _lab: lab, client, server, directory })
    }

    /// Attaches the BPF program that completes answers to the server's device.
    fn complete_answers(&self) -> Result<()> {
        let object = self.file("stamp.o");
        self.server.run(&[&program("truth")?, "stamp", &object])?;
        self.server.run(&["tc", "qdisc", "add", "dev", INTERFACE, "clsact"])?;
        let filter =
            ["tc", "filter", "add", "dev", INTERFACE, "egress", "bpf", "da", "obj", &object, "sec", "classifier"];
        self.server.run(&filter).map(drop)
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    /// Fixes a reference time by this recipe; returns its file.
    pub(super) fn begin(&self, recipe: &str) -> Result<String> {
        let (truth, file) = (self.file("truth.toml"), self.file("recipe.toml"));
        std::fs::write(&file, recipe).context("cannot write the recipe")?;
        self.client.run(&[&program("truth")?, "begin", &file, &truth])?;
        Ok(truth)
    }

    /// Starts the server of this reference time.
    pub(super) fn serve(&self, truth: &str, interleaved: bool) -> Result<Process> {
        let (program, address) = (program("truth")?, format!("{SERVER}:{NTP}"));
        let mut serve = vec![&*program, "serve", truth, &address];
        if !interleaved {
            self.complete_answers()?;
            serve.push("--completed");
        }
        let mut server = self.server.spawn(&serve)?;
        tickwire_lab::wait_until_listening(&self.server, "udp", NTP, &mut server)?;
        Ok(server)
    }

    /// Starts the clock daemon; after one that steers the system clock, this clock is set back.
    pub(super) fn keep(&self, keeper: Keeper, poll: u32) -> Result<Kept> {
        let system_clock = keeper.steers().then(SystemClock::guard).transpose()?;
        let process = keeper.start(&self.client, self.wine.as_ref(), &self.directory, SERVER, poll)?;
        Ok(Kept { process, _system_clock: system_clock })
    }

    /// Keeps every processor busy, in user space and in the kernel, until the returned processes
    /// are dropped. Each processor has two programs, so that a waiting program waits for at least a
    /// time slice.
    fn stress(&self) -> Result<Vec<Process>> {
        let load = ["sh", "-c", "while :; do head -c 1000000 /dev/urandom >/dev/null; done"];
        let processors = std::thread::available_parallelism()?.get();
        (0..2 * processors).map(|_| self.client.spawn(&load)).collect()
    }

    /// A TCP stream from one host to the other for `seconds`.
    fn stream(&self, from: &LabHost, to: &LabHost, address: &str, port: u16, seconds: u32) -> Result<[Process; 2]> {
        let program = program("pingpong")?;
        let address = format!("{address}:{port}");
        let mut sink = to.spawn(&[&program, "sink", &address])?;
        tickwire_lab::wait_until_listening(to, "tcp", port, &mut sink)?;
        let source = from.spawn(&[&program, "source", &address, "--seconds", &seconds.to_string()])?;
        Ok([sink, source])
    }
}

/// A running clock daemon.
pub(super) struct Kept {
    // Drops first: it must not steer the system clock after that is set back.
    process: Process,
    _system_clock: Option<SystemClock>,
}

impl Kept {
    /// Fails if the daemon has ended by itself.
    fn check(&mut self) -> Result<()> {
        ensure!(self.process.is_running()?, "it ended by itself: {}", self.said());
        Ok(())
    }

    fn said(&self) -> String {
        format!("{}{}", self.process.stdout(), self.process.stderr())
    }

    /// Ends it; returns its output.
    fn stop(mut self) -> Result<String> {
        self.check()?;
        let _ = self.process.stop(TIMEOUT);
        Ok(self.said())
    }
}

/// Sets the system clock back when it is dropped. A process of its own does it, so that it also
/// happens however this program ends.
struct SystemClock(Child);

impl SystemClock {
    fn guard() -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program("truth")?);
        // In a process group of its own, so that Ctrl-C does not end it.
        command.arg("guard").stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        Ok(Self(command.spawn().context("cannot guard the system clock")?))
    }
}

impl Drop for SystemClock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if !self.0.wait().is_ok_and(|status| status.success()) {
            eprintln!("the system clock could not be set back");
        }
    }
}

pub(super) fn program(name: &str) -> Result<String> {
    Ok(tools::built(name)?.to_str().context("a path that is not text")?.to_owned())
}

/// One clock, and how to measure it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) keeper: Keeper,
    pub(super) seconds: u32,
    /// Reads per second.
    pub(super) rate: u32,
    /// The server answers in interleaved mode.
    pub(super) interleaved: bool,
}

/// Runs one scenario with one clock; returns figures for each of its parts.
pub(super) fn measure(scenario: &Scenario, run: &Run) -> Result<Vec<ClockError>> {
    let mut bed = Topology::new(scenario.load == Load::Cable)?;
    let &Run { keeper, seconds, rate, interleaved } = run;
    bed.wine = keeper.prepare(&bed.client)?;
    let truth = bed.begin(&(scenario.recipe)(seconds))?;
    let _server = bed.serve(&truth, interleaved)?;
    let parts = (scenario.parts)(seconds);
    let from = parts.iter().map(|part| part.from.to_string()).collect::<Vec<_>>().join(",");
    let (page, long) = (bed.file("page"), [seconds, rate].map(|number| number.to_string()));
    let program = program("truth")?;
    let mut probe = vec![&*program, "probe", &truth, "--seconds", &long[0], "--from", &from, "--rate", &long[1]];
    match keeper {
        Keeper::Tickwire | Keeper::TickwireWindows => probe.extend(["--page", &page]),
        Keeper::Clockbound => probe.push("--clockbound"),
        Keeper::Chronyd | Keeper::Ntpsec => {}
    }
    let mut probe = bed.client.spawn(&probe)?;
    probe.wait_for("probing", TIMEOUT)?;
    let began = Instant::now();
    let mut kept = bed.keep(keeper, scenario.poll)?;
    std::thread::sleep(STARTED);
    kept.check()?;
    let (mut streams, mut stress) = (Vec::new(), Vec::new());
    let settled = parts.first().map_or(0, |part| part.from);
    if scenario.load != Load::None {
        std::thread::sleep(Duration::from_secs(settled.into()).saturating_sub(began.elapsed()));
    }
    match scenario.load {
        Load::None => {}
        Load::Processors => stress = bed.stress()?,
        Load::Cable => {
            let left = seconds - settled + 5;
            streams.push(bed.stream(&bed.client, &bed.server, SERVER, 5201, left)?);
            streams.push(bed.stream(&bed.server, &bed.client, CLIENT, 5202, left)?);
        }
    }
    let printed = probe.success(Duration::from_secs(seconds.into()) + TIMEOUT)?;
    drop((streams, stress));
    let said = kept.stop()?;
    let figures = printed.lines().map(serde_json::from_str).collect::<Result<Vec<ClockError>, _>>();
    let figures = figures.context("figures of the probe")?;
    ensure!(figures.len() == parts.len(), "figures of {} parts of {}", figures.len(), parts.len());
    if let Some(unknown) = figures.iter().position(|part| part.reads == 0) {
        bail!("{}: the clock never knew the time: {said}", parts[unknown].name);
    }
    Ok(figures)
}
