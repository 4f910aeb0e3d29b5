//! The hosts and programs of one scenario: the truth's server on one host, the clock and its probe on the other.

use super::scenario::Scenario;
use crate::workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tickwire_bench::error::ClockError;
use tickwire_lab::{CableOptions, Host, Lab, Process, tools};

/// Who keeps a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Keeper {
    /// Ours, read from its page.
    Tickwire,
    /// chronyd, which steers the kernel's clock.
    Chronyd,
}

impl Keeper {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tickwire => "tickwire",
            Self::Chronyd => "chronyd",
        }
    }
}

const CLIENT: &str = "10.78.0.1";
const SERVER: &str = "10.78.0.2";
const INTERFACE: &str = "eth0";
const NTP: u16 = 123;
const PATIENCE: Duration = Duration::from_secs(30);
/// What a saturated cable carries in each direction, and how long its queues are.
const TBF: &str = "root tbf rate 100mbit burst 5kb latency 10ms";

struct Bed {
    _lab: Lab,
    client: Host,
    server: Host,
    directory: PathBuf,
}

impl Bed {
    fn new(saturated: bool) -> Result<Self> {
        let lab = Lab::new()?;
        let (client, server) = (lab.host("client")?, lab.host("server")?);
        let options = CableOptions::default();
        lab.cable(&client, &server, INTERFACE, &options)?;
        if saturated {
            // At the hosts: a switch in between would add some us to one direction only, because what a client that has slept sends goes through cold caches.
            // The server's stamp is from before its queue, so answers are late by all of it.
            for host in [&client, &server] {
                let command = format!("tc qdisc add dev {INTERFACE} {TBF}");
                host.run(&command.split(' ').collect::<Vec<_>>())?;
            }
        }
        client.address(INTERFACE, &format!("{CLIENT}/24"))?;
        server.address(INTERFACE, &format!("{SERVER}/24"))?;
        for host in [&client, &server] {
            // Without it a veth stamps what comes as soon as its peer sends it, as an idle NIC does; with it, when its turn comes in the peer's context.
            host.run(&["ethtool", "-K", INTERFACE, "gro", "off"])?;
        }
        client.run(&["ping", "-c1", SERVER])?;
        let directory = lab.directory();
        Ok(Self { _lab: lab, client, server, directory })
    }

    /// Puts the program that completes answers at the server's device.
    fn complete_answers(&self) -> Result<()> {
        let object = self.file("stamp.o");
        let source = workspace::root().join("crates/truth/bpf/stamp.c");
        let mut clang = Command::new("clang");
        // Debian keeps <asm/types.h> in the multiarch folder, which clang does not search for the BPF target.
        clang.args(["-target", "bpf", "-O2", "-g"]).arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
        workspace::run(clang.arg("-c").arg(source).args(["-o", &object]))?;
        self.server.run(&["tc", "qdisc", "add", "dev", INTERFACE, "clsact"])?;
        let filter =
            ["tc", "filter", "add", "dev", INTERFACE, "egress", "bpf", "da", "obj", &object, "sec", "classifier"];
        self.server.run(&filter).map(drop)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    /// A TCP stream from one host to the other for so long.
    fn stream(&self, from: &Host, to: &Host, address: &str, port: u16, seconds: u32) -> Result<[Process; 2]> {
        let program = program("pingpong")?;
        let address = format!("{address}:{port}");
        let mut sink = to.spawn(&[&program, "sink", &address])?;
        tickwire_lab::bound(to, "tcp", port, &mut sink)?;
        let source = from.spawn(&[&program, "source", &address, "--seconds", &seconds.to_string()])?;
        Ok([sink, source])
    }

    /// Starts whoever keeps the clock.
    fn keep(&self, keeper: Keeper, poll: u32) -> Result<Process> {
        match keeper {
            Keeper::Tickwire => {
                let page = self.file("page");
                self.client.spawn(&[&program("truth")?, "keep", SERVER, &page, "--poll", &poll.to_string()])
            }
            Keeper::Chronyd => {
                let log2 = poll.ilog2();
                let configuration = format!(
                    "server {SERVER} minpoll {log2} maxpoll {log2} iburst xleave\ncmdport 0\nbindcmdaddress /\n\
                     pidfile {}\n",
                    self.file("chronyd.pid")
                );
                let file = self.file("chrony.conf");
                std::fs::write(&file, configuration)?;
                self.client.spawn(&["chronyd", "-d", "-u", "root", "-f", &file])
            }
        }
    }
}

/// Sets the system clock back when it is dropped, or when this program ends, however it ends: a process of its own waits for that.
struct SystemClock(Child);

impl SystemClock {
    fn guard() -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(program("truth")?);
        // Not in our group: Ctrl-C is not for it.
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

fn program(name: &str) -> Result<String> {
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

/// Runs one scenario with one clock.
pub(super) fn measure(scenario: &Scenario, run: &Run) -> Result<ClockError> {
    let bed = Bed::new(scenario.saturated)?;
    let system_clock = (run.keeper == Keeper::Chronyd).then(SystemClock::guard).transpose()?;
    let measured = measure_on(&bed, scenario, run);
    drop(system_clock);
    measured
}

fn measure_on(bed: &Bed, scenario: &Scenario, &Run { keeper, seconds, rate, interleaved }: &Run) -> Result<ClockError> {
    let (truth, recipe) = (bed.file("truth.toml"), bed.file("recipe.toml"));
    std::fs::write(Path::new(&recipe), (scenario.recipe)(seconds))?;
    let truth_program = program("truth")?;
    bed.client.run(&[&truth_program, "begin", &recipe, &truth])?;
    let address = format!("{SERVER}:{NTP}");
    let mut serve = vec![&*truth_program, "serve", &truth, &address];
    if !interleaved {
        bed.complete_answers()?;
        serve.push("--completed");
    }
    let mut server = bed.server.spawn(&serve)?;
    tickwire_lab::bound(&bed.server, "udp", NTP, &mut server)?;
    let settle = (scenario.settle)(seconds);
    let (page, long) = (bed.file("page"), [seconds, settle, rate].map(|number| number.to_string()));
    let mut probe =
        vec![&*truth_program, "probe", &truth, "--seconds", &long[0], "--settle", &long[1], "--rate", &long[2]];
    if keeper == Keeper::Tickwire {
        probe.extend(["--page", &page]);
    }
    let mut probe = bed.client.spawn(&probe)?;
    probe.wait_for("probing", PATIENCE)?;
    let began = Instant::now();
    let mut kept = bed.keep(keeper, scenario.poll)?;
    let mut streams = Vec::new();
    if scenario.saturated {
        std::thread::sleep(Duration::from_secs(settle.into()).saturating_sub(began.elapsed()));
        let left = seconds - settle + 5;
        streams.push(bed.stream(&bed.client, &bed.server, SERVER, 5201, left)?);
        streams.push(bed.stream(&bed.server, &bed.client, CLIENT, 5202, left)?);
    }
    let printed = probe.success(Duration::from_secs(seconds.into()) + PATIENCE)?;
    // It must not be steering any more when the system clock is set back.
    let _ = kept.stop(PATIENCE);
    drop(streams);
    let figures: ClockError = serde_json::from_str(printed.trim()).context("figures of the probe")?;
    if figures.reads == 0 {
        anyhow::bail!("the clock never knew the time: {}{}", kept.stdout(), kept.stderr());
    }
    Ok(figures)
}
