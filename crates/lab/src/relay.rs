//! A cable with faults: two hosts whose frames pass through the program `relay` in a namespace
//! between them.
//!
//! The kernel of this lab has no netem. A BPF program can drop and duplicate packets, but neither
//! delay nor reorder them. The relay does all of it with the simulation's seeded code. It is a
//! process of the lab, and ends with the lab in every case.

use crate::cable::{CableOptions, bring_up};
use crate::pair::INTERFACE;
use crate::process::Process;
use crate::{Lab, LabHost, LabPair, tools};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::time::Duration;

/// Two hosts, and the namespace of the cable between them. No frame passes without a running
/// [`Relay`].
#[derive(Debug)]
pub struct Relayed {
    /// The hosts, with the addresses of every [`LabPair`].
    pub pair: LabPair,
    between: LabHost,
    mtu: u32,
}

/// The relay's devices, towards host `a` and host `b`.
const DEVICES: [&str; 2] = ["to-a", "to-b"];
const TIMEOUT: Duration = Duration::from_secs(10);

impl Relayed {
    /// Two hosts on the devices of a relay, which is not running yet.
    ///
    /// # Errors
    /// Not root, or a device cannot be made.
    pub fn new() -> Result<Self> {
        let options = CableOptions::default();
        let lab = Lab::new()?;
        let (a, b, between) = (lab.host("a")?, lab.host("b")?, lab.host("relay")?);
        // It acts as a cable, so it must not send packets of its own.
        for which in ["all", "default"] {
            between.sysctl(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
        }
        for (host, device) in [(&a, DEVICES[0]), (&b, DEVICES[1])] {
            connect(host, &between, device)?;
            bring_up(&between, device, &options)?;
            bring_up(host, INTERFACE, &options)?;
        }
        let pair = LabPair::with_addresses(lab, a, b)?;
        for (host, peer, addresses) in
            [(&pair.a, &pair.b, [pair.b_v4(), pair.b_v6()]), (&pair.b, &pair.a, [pair.a_v4(), pair.a_v6()])]
        {
            know(host, peer, &addresses)?;
        }
        Ok(Self { pair, between, mtu: options.mtu })
    }

    /// Starts the relay with these arguments, in addition to the devices and their MTU (`relay
    /// --help`), and waits until frames pass.
    ///
    /// # Errors
    /// It has not been built, or does not take the arguments.
    pub fn start(&self, arguments: &[&str]) -> Result<Relay> {
        self.start_by(&[], arguments)
    }

    /// Like [`Relayed::start`], but the relay runs only on this processor.
    ///
    /// # Errors
    /// As [`Relayed::start`]; there is no such processor.
    pub fn start_on(&self, processor: &str, arguments: &[&str]) -> Result<Relay> {
        self.start_by(&["taskset", "-c", processor], arguments)
    }

    fn start_by(&self, starter: &[&str], arguments: &[&str]) -> Result<Relay> {
        let program = tools::built("relay")?;
        // A cable does not wait for a processor: the relay runs with real-time priority.
        let mut command = self.between.command("chrt");
        command
            .args(["--fifo", "1"])
            .args(starter)
            .arg(program)
            .args(DEVICES)
            .args(["--mtu", &self.mtu.to_string()])
            .args(arguments);
        let mut process = Process::spawn(command)?;
        process.wait_for("relaying", TIMEOUT)?;
        Ok(Relay(process))
    }
}

/// A cable whose end in `between` has this name. It has one queue in each direction: with more,
/// frames sent by several processors overtake each other.
fn connect(host: &LabHost, between: &LabHost, device: &str) -> Result<()> {
    let one = "numtxqueues 1 numrxqueues 1";
    let command = format!(
        "ip link add {INTERFACE} {one} netns {} type veth peer name {device} {one} netns {}",
        host.namespace(),
        between.namespace()
    );
    crate::run(&command.split(' ').collect::<Vec<_>>())?;
    // GRO stays on, because only then a veth accepts XDP frames and preserves their order; but each
    // frame must arrive as it was sent.
    between.run(&["ip", "link", "set", device, "gro_max_size", "1"]).map(drop)
}

/// Adds the peer's Ethernet address to a host's neighbour table: a lost request for it would add a
/// second to the measurement.
fn know(host: &LabHost, peer: &LabHost, addresses: &[String]) -> Result<()> {
    let mac = peer.run(&["cat", &format!("/sys/class/net/{INTERFACE}/address")])?;
    for address in addresses {
        host.run(&["ip", "neigh", "replace", address, "lladdr", mac.trim(), "dev", INTERFACE, "nud", "permanent"])?;
    }
    Ok(())
}

/// A running relay; killed when dropped.
#[derive(Debug)]
pub struct Relay(Process);

impl Relay {
    /// Ends it, and returns what it did.
    ///
    /// # Errors
    /// It has ended by itself, or its output cannot be parsed; the error contains the output.
    pub fn finish(mut self) -> Result<Passed> {
        let ended = self.0.stop(TIMEOUT)?;
        if !ended.status.success() {
            bail!("the relay failed ({}): {}", ended.status, ended.stderr.trim());
        }
        serde_json::from_str(ended.stdout.trim()).with_context(|| format!("the relay printed {:?}", ended.stdout))
    }
}

/// What a relay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passed {
    /// From `a` to `b`.
    pub forth: Way,
    /// From `b` to `a`.
    pub back: Way,
    /// Mean delay of a frame beyond its scheduled departure, in ns.
    pub late_mean_ns: u64,
    /// The largest such delay, in ns.
    pub late_max_ns: u64,
    /// Processor time of the relay, in us: its own, and that of both hosts' kernels when they
    /// receive a frame.
    pub processor_us: u64,
}

/// What a relay did in one direction, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Frames received.
    pub sent: u64,
    /// Frames forwarded.
    pub delivered: u64,
    /// Lost at random.
    pub lost: u64,
    /// Last segments of messages, lost by configuration.
    pub tails: u64,
    /// Lost in a blackout.
    pub dark: u64,
    /// Marked for congestion.
    pub marked: u64,
    /// Duplicated.
    pub duplicated: u64,
    /// Held back for others to overtake them.
    pub reordered: u64,
    /// Dropped because they exceed the MTU, which no host should send.
    pub too_big: u64,
    /// Lost because the relay did not receive them in time; not configured.
    pub overflowed: u64,
    /// Lost because the other host's device did not accept them; not configured.
    pub refused: u64,
}

impl Way {
    /// Frames lost by configuration.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost + self.tails + self.dark
    }

    /// Frames lost although not configured: figures with such a loss are invalid.
    #[must_use]
    pub fn unasked(&self) -> u64 {
        self.too_big + self.overflowed + self.refused
    }
}
