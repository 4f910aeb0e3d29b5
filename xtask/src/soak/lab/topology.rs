//! The hosts, their services and programs, and the events that disturb them.

use super::judge::{Family, Happening, Said, What};
use super::plan::{Event, Plan, Side, Talker};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use tickwire_lab::{LabHost, LabPair, Process, Service, tools};

const PEER: &str = include_str!("peer.py");
const PYTHON: &str = "/usr/bin/python3";
const INTERFACE: &str = "eth0";
/// The port of a round's servers.
const PORT: u16 = 9000;
/// The port of the server in [`Topology::prove`].
const PROOF_PORT: u16 = 9100;
/// The timeout of a program for a request, also on a busy machine. A stream may be silent for 20 s.
const TIMEOUT: Duration = Duration::from_secs(40);
/// The most talkers at a time.
const TALKERS: usize = 5;
const MTU: u32 = 1500;

/// Seconds of the monotonic clock, as Python's `time.monotonic`.
fn now() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    time.map_or(0.0, |time| time.as_secs_f64())
}

/// Addresses of a host: the first of each family stays, the second is removed and added again.
fn addresses(side: Side) -> [&'static str; 4] {
    match side {
        Side::A => ["10.77.0.1", "fd77::1", "10.77.0.11", "fd77::11"],
        Side::B => ["10.77.0.2", "fd77::2", "10.77.0.12", "fd77::12"],
    }
}

fn with_prefix(address: &str) -> String {
    format!("{address}/{}", if address.contains(':') { 64 } else { 24 })
}

fn family(v6: bool) -> Family {
    if v6 { Family::V6 } else { Family::V4 }
}

/// The hosts with their services.
pub(super) struct Topology {
    pair: LabPair,
    services: [Option<Service>; 2],
}

impl Topology {
    /// Makes hosts and services.
    pub(super) fn new() -> Result<Self> {
        let pair = LabPair::new()?;
        let mut bed = Self { pair, services: [None, None] };
        for side in Side::BOTH {
            // Without GRO aggregation, so that each frame is counted as it arrives.
            bed.host(side).run(&["ip", "link", "set", INTERFACE, "gro_max_size", "1"])?;
            for address in &addresses(side)[2..] {
                bed.add(side, address)?;
            }
        }
        // Both in parallel: the kernel takes long to verify BPF programs.
        let [a, b] = std::thread::scope(|scope| {
            let a = scope.spawn(|| Service::start(&bed.pair.a));
            let b = Service::start(&bed.pair.b);
            [a.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), b]
        });
        bed.services = [Some(a?), Some(b?)];
        Ok(bed)
    }

    pub(super) fn host(&self, side: Side) -> &LabHost {
        match side {
            Side::A => &self.pair.a,
            Side::B => &self.pair.b,
        }
    }

    pub(super) fn service(&mut self, side: Side) -> Result<&mut Service> {
        self.services[side as usize].as_mut().with_context(|| format!("no service on {side}"))
    }

    fn start_service(&mut self, side: Side) -> Result<()> {
        self.services[side as usize] = Some(Service::start(self.host(side))?);
        Ok(())
    }

    /// Adds one of its addresses to a host. Source address selection avoids the second addresses:
    /// the IPv4 one is secondary, the IPv6 one deprecated.
    fn add(&self, side: Side, address: &str) -> Result<()> {
        let (prefixed, mut command) = (with_prefix(address), vec!["ip", "address", "replace"]);
        command.extend([prefixed.as_str(), "dev", INTERFACE]);
        if address.contains(':') {
            command.push("nodad");
            if addresses(side)[3] == address {
                command.extend(["preferred_lft", "0"]);
            }
        }
        self.host(side).run(&command).map(drop)
    }

    /// Starts a program of ours. An accelerated one also runs if there is no service (no
    /// `--require`).
    fn start(&self, on: Side, accelerated: bool, arguments: &[String]) -> Result<Process> {
        let host = self.host(on);
        let mut command = if accelerated {
            let tickwire = tools::tickwire()?;
            let mut command = host.command(&tickwire.to_string_lossy());
            command.args(["run", "--", PYTHON]);
            command
        } else {
            host.command(PYTHON)
        };
        command.args(["-c", PEER]).args(arguments);
        let mut process = Process::spawn(command)?;
        process.wait_for("ready", TIMEOUT)?;
        Ok(process)
    }

    fn serve(&self, on: Side, accelerated: bool, port: u16) -> Result<Process> {
        self.start(on, accelerated, &["serve".into(), port.to_string()])
    }

    fn talk(&self, talker: Talker, port: u16, count: u32) -> Result<Process> {
        let numbers = [talker.seed, port.into(), talker.threads, count].map(|n| n.to_string());
        let to = addresses(talker.on.other()).map(str::to_owned);
        self.start(talker.on, talker.accelerated, &[&["talk".to_owned()][..], &numbers, &to].concat())
    }

    /// Checks that a new server and a new talker, both accelerated, run without errors, and that
    /// their traffic crosses both stacks. Returns the defects.
    pub(super) fn prove(&mut self, seed: u32) -> Result<Vec<String>> {
        let mut defects = Vec::new();
        let mut before = [0; 2];
        for side in Side::BOTH {
            before[side as usize] = self.service(side)?.stat()?.diverted();
        }
        let mut server = self.serve(Side::B, true, PROOF_PORT)?;
        let talker = Talker { on: Side::A, accelerated: true, threads: 2, seed };
        let mut talker = self.talk(talker, PROOF_PORT, 5)?;
        let ended = talker.wait(TIMEOUT)?;
        let said = [Said::all(&ended.stdout), Said::all(&server.stdout())].concat();
        defects.extend(said.iter().filter_map(|said| said.defect(Side::A, &[])));
        for side in Side::BOTH {
            let crossed = self.service(side)?.stat()?.diverted() - before[side as usize];
            if crossed < 10 {
                defects.push(format!("in the calm afterwards {crossed} packets went to lanes of {side}"));
            }
        }
        for (what, ended) in [("talker", ended), ("server", server.stop(TIMEOUT)?)] {
            if !ended.status.success() {
                defects.push(format!("the {what} of the proof ended with {}: {}", ended.status, ended.stderr.trim()));
            }
        }
        Ok(defects)
    }

    /// Ends the services; returns the defects.
    pub(super) fn finish(mut self) -> Result<Vec<String>> {
        let mut defects = Vec::new();
        for side in Side::BOTH {
            let ended = self.service(side)?.stop()?;
            if !ended.status.success() {
                defects.push(format!("the service of {side} ended with {}: {}", ended.status, ended.stderr));
            }
            let left = self.host(side).run(&["ip", "-o", "link"])?;
            if left.lines().count() != 2 || left.contains("xdp") || self.host(side).socket().exists() {
                defects.push(format!("the service of {side} left something behind: {left}"));
            }
        }
        Ok(defects)
    }
}

/// A disturbance that ends after its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Return {
    Service(Side),
    Link(Side),
    Address(Side, bool),
}

/// A round in progress.
pub(super) struct Round<'b> {
    bed: &'b mut Topology,
    accelerated: [bool; 2],
    servers: [Option<Process>; 2],
    talkers: Vec<(Talker, Process)>,
    returns: Vec<(Instant, Return)>,
    happened: Vec<Happening>,
    said: Vec<(Side, Said)>,
    /// The defects so far.
    pub(super) defects: Vec<String>,
    /// Whether each host's service was interrupted.
    pub(super) interrupted: [bool; 2],
    /// Whether each host lost an address: packets sent from it meanwhile are refused.
    pub(super) unaddressed: [bool; 2],
}

impl<'b> Round<'b> {
    /// Starts the servers and the initial talkers.
    pub(super) fn begin(bed: &'b mut Topology, plan: &Plan) -> Result<Self> {
        let mut round = Self {
            bed,
            accelerated: plan.servers,
            servers: [None, None],
            talkers: Vec::new(),
            returns: Vec::new(),
            happened: Vec::new(),
            said: Vec::new(),
            defects: Vec::new(),
            interrupted: [false; 2],
            unaddressed: [false; 2],
        };
        for side in Side::BOTH {
            round.start_server(side)?;
        }
        for &talker in &plan.talkers {
            round.start_talker(talker)?;
        }
        Ok(round)
    }

    /// Runs all planned events, calls `tell` before each, and waits until all disturbances have
    /// ended.
    pub(super) fn live(&mut self, plan: &Plan, tell: &mut dyn FnMut(&Event)) -> Result<()> {
        let mut due = Instant::now();
        for (pause, event) in &plan.steps {
            due = Instant::now().max(due) + *pause;
            self.wait(due)?;
            tell(event);
            self.happen(event)?;
        }
        while let Some(last) = self.returns.iter().map(|&(due, _)| due).max() {
            self.wait(last)?;
        }
        self.mtu(MTU)
    }

    /// Waits, and ends the disturbances that are due meanwhile.
    fn wait(&mut self, until: Instant) -> Result<()> {
        while let Some(at) = self.returns.iter().position(|&(due, _)| due <= until) {
            // The earliest of them.
            let at = (0..self.returns.len()).min_by_key(|&at| self.returns[at].0).unwrap_or(at);
            let (due, what) = self.returns.swap_remove(at);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.return_of(what)?;
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<()> {
        match *event {
            Event::Restart(side, gap) | Event::Kill(side, gap) => {
                let Some(mut service) = self.bed.services[side as usize].take() else { return Ok(()) };
                self.begins(What::Service(side));
                self.interrupted[side as usize] = true;
                if matches!(event, Event::Kill(..)) {
                    service.process().kill();
                } else {
                    let ended = service.stop()?;
                    if !ended.status.success() {
                        self.defects
                            .push(format!("the service of {side} ended with {}: {}", ended.status, ended.stderr));
                    }
                }
                self.returns.push((Instant::now() + gap, Return::Service(side)));
            }
            Event::Flap(side, lasts) => self.takes_away(Return::Link(side), lasts)?,
            Event::Address { on, v6, lasts } => self.takes_away(Return::Address(on, v6), lasts)?,
            Event::Mtu(mtu) => self.mtu(mtu)?,
            Event::KillServer(side) => {
                self.begins(What::Server(side));
                if let Some(mut server) = self.servers[side as usize].take() {
                    server.kill();
                    self.hear(side, &server.stdout());
                }
                self.start_server(side)?;
                self.ends(What::Server(side));
            }
            Event::KillTalker(which) if !self.talkers.is_empty() => {
                let (talker, mut process) = self.talkers.swap_remove(which as usize % self.talkers.len());
                process.kill();
                self.hear(talker.on, &process.stdout());
            }
            Event::KillTalker(_) => {}
            Event::Start(talker) => {
                if self.talkers.len() == TALKERS {
                    let (oldest, process) = self.talkers.remove(0);
                    self.end(oldest.on, "a talker", process);
                }
                self.start_talker(talker)?;
            }
        }
        Ok(())
    }

    /// Takes a link down or removes an address, unless that is already so.
    fn takes_away(&mut self, what: Return, lasts: Duration) -> Result<()> {
        if self.returns.iter().any(|&(_, other)| other == what) {
            return Ok(());
        }
        self.begins(What::Way);
        match what {
            Return::Link(side) => {
                // The interface loses its IPv6 addresses with the link.
                self.unaddressed[side as usize] = true;
                self.begins(What::Address(side, Family::V6));
                self.bed.host(side).run(&["ip", "link", "set", INTERFACE, "down"])?;
            }
            Return::Address(side, v6) => {
                self.unaddressed[side as usize] = true;
                self.begins(What::Address(side, family(v6)));
                let address = with_prefix(addresses(side)[2 + usize::from(v6)]);
                // An IPv6 address may already be gone with the link.
                let gone = self.bed.host(side).run(&["ip", "address", "del", &address, "dev", INTERFACE]);
                gone.map(drop).or_else(|error| if v6 { Ok(()) } else { Err(error) })?;
            }
            Return::Service(_) => {}
        }
        self.returns.push((Instant::now() + lasts, what));
        Ok(())
    }

    fn return_of(&mut self, what: Return) -> Result<()> {
        match what {
            Return::Service(side) => {
                self.bed.start_service(side)?;
                self.ends(What::Service(side));
            }
            Return::Link(side) => {
                self.unaddressed[side as usize] = true;
                self.bed.host(side).run(&["ip", "link", "set", INTERFACE, "up"])?;
                // A host loses its IPv6 addresses with the link.
                let away = self.returns.iter().any(|&(_, other)| other == Return::Address(side, true));
                let [_, first, _, second] = addresses(side);
                for address in [Some(first), (!away).then_some(second)].into_iter().flatten() {
                    self.bed.add(side, address)?;
                }
                self.ends(What::Way);
                self.ends(What::Address(side, Family::V6));
            }
            Return::Address(side, v6) => {
                self.bed.add(side, addresses(side)[2 + usize::from(v6)])?;
                self.ends(What::Way);
                self.ends(What::Address(side, family(v6)));
            }
        }
        Ok(())
    }

    fn mtu(&self, mtu: u32) -> Result<()> {
        Side::BOTH.into_iter().try_for_each(|side| self.bed.host(side).mtu(INTERFACE, mtu))
    }

    fn begins(&mut self, what: What) {
        self.happened.push(Happening { what, from: now(), until: f64::INFINITY });
    }

    fn ends(&mut self, what: What) {
        // Overlapping disturbances end with the last of them.
        let still = |&(_, other): &(Instant, Return)| match (what, other) {
            (What::Way, Return::Link(_) | Return::Address(..)) => true,
            (What::Address(side, Family::V6), Return::Link(of)) => side == of,
            (What::Address(side, of), Return::Address(other, v6)) => side == other && family(v6) == of,
            _ => false,
        };
        if self.returns.iter().any(still) {
            return;
        }
        for happening in self.happened.iter_mut().filter(|h| h.what == what && h.until.is_infinite()) {
            happening.until = now();
        }
    }

    fn start_server(&mut self, side: Side) -> Result<()> {
        let server = self.bed.serve(side, self.accelerated[side as usize], PORT);
        self.servers[side as usize] = Some(server.with_context(|| format!("the server of {side}"))?);
        Ok(())
    }

    fn start_talker(&mut self, talker: Talker) -> Result<()> {
        let process = self.bed.talk(talker, PORT, 0)?;
        self.talkers.push((talker, process));
        Ok(())
    }

    fn hear(&mut self, on: Side, printed: &str) {
        self.said.extend(Said::all(printed).into_iter().map(|said| (on, said)));
    }

    /// Asks a program to end, and collects its output.
    fn end(&mut self, on: Side, what: &str, mut process: Process) {
        match process.stop(TIMEOUT) {
            Ok(ended) if ended.status.success() => {}
            Ok(ended) => {
                self.defects.push(format!("{what} on {on} ended with {}: {}", ended.status, ended.stderr.trim()))
            }
            Err(error) => self.defects.push(format!("{what} on {on}: {error:#}")),
        }
        self.hear(on, &process.stdout());
    }

    /// Makes the talkers finish their current exchanges, and waits until they are idle.
    pub(super) fn rest(&mut self) {
        for (talker, process) in &mut self.talkers {
            let idle = process.signal(Signal::SIGUSR1).and_then(|()| process.wait_for("idle\n", TIMEOUT));
            if let Err(error) = idle {
                self.defects.push(format!("a talker on {} does not come to rest: {error:#}", talker.on));
            }
        }
    }

    /// The hosts, to inspect them while the programs are idle.
    pub(super) fn bed(&mut self) -> &mut Topology {
        self.bed
    }

    /// Ends all programs; returns the lines that they printed, and the defects.
    pub(super) fn end_all(mut self) -> (Vec<Said>, Vec<String>) {
        for (talker, process) in std::mem::take(&mut self.talkers) {
            self.end(talker.on, "a talker", process);
        }
        for side in Side::BOTH {
            if let Some(server) = self.servers[side as usize].take() {
                self.end(side, "the server", server);
            }
        }
        let happened = &self.happened;
        let defects = self.said.iter().filter_map(|(on, said)| said.defect(*on, happened));
        self.defects.extend(defects.collect::<Vec<_>>());
        (self.said.into_iter().map(|(_, said)| said).collect(), self.defects)
    }
}
