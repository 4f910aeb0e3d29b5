//! A cable with faults: two hosts whose frames pass through the program `relay` in a namespace
//! between them.
//!
//! The kernel of this lab has no netem, and a BPF program can drop and double, but neither delay
//! nor reorder. The relay does all of it, by the simulation's code, seeded. It is a process of the
//! lab: it goes when the lab goes, however that happens.

use crate::cable::{CableOptions, bring_up};
use crate::pair::INTERFACE;
use crate::process::Process;
use crate::{Host, Lab, Pair, tools};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::time::Duration;

/// Two hosts, and between them the cable's place. Nothing passes while no [`Relay`] runs.
#[derive(Debug)]
pub struct Relayed {
    /// The hosts, with addresses as those of every [`Pair`].
    pub pair: Pair,
    between: Host,
    mtu: u32,
}

/// The relay's devices, towards host `a` and host `b`.
const DEVICES: [&str; 2] = ["to-a", "to-b"];
const PATIENCE: Duration = Duration::from_secs(10);

impl Relayed {
    /// Two hosts on the devices of a relay, which does not run yet.
    ///
    /// # Errors
    /// Not root, or a device cannot be made.
    pub fn new() -> Result<Self> {
        let options = CableOptions::default();
        let lab = Lab::new()?;
        let (a, b, between) = (lab.host("a")?, lab.host("b")?, lab.host("relay")?);
        // It is a cable: it says nothing by itself.
        for which in ["all", "default"] {
            between.sysctl(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
        }
        for (host, device) in [(&a, DEVICES[0]), (&b, DEVICES[1])] {
            connect(host, &between, device)?;
            bring_up(&between, device, &options)?;
            bring_up(host, INTERFACE, &options)?;
        }
        let pair = Pair::with_addresses(lab, a, b)?;
        for (host, peer, addresses) in
            [(&pair.a, &pair.b, [pair.b_v4(), pair.b_v6()]), (&pair.b, &pair.a, [pair.a_v4(), pair.a_v6()])]
        {
            know(host, peer, &addresses)?;
        }
        Ok(Self { pair, between, mtu: options.mtu })
    }

    /// Starts the relay, with these arguments beside the devices and their MTU (`relay --help`),
    /// and waits until frames pass.
    ///
    /// # Errors
    /// It has not been built, or does not take the arguments.
    pub fn start(&self, arguments: &[&str]) -> Result<Relay> {
        self.start_by(&[], arguments)
    }

    /// As [`Relayed::start`], with the relay on this processor only.
    ///
    /// # Errors
    /// As [`Relayed::start`]; there is no such processor.
    pub fn start_on(&self, processor: &str, arguments: &[&str]) -> Result<Relay> {
        self.start_by(&["taskset", "-c", processor], arguments)
    }

    fn start_by(&self, starter: &[&str], arguments: &[&str]) -> Result<Relay> {
        let program = tools::built("relay")?;
        // A cable waits for no processor: it comes before all programs.
        let mut command = self.between.command("chrt");
        command
            .args(["--fifo", "1"])
            .args(starter)
            .arg(program)
            .args(DEVICES)
            .args(["--mtu", &self.mtu.to_string()])
            .args(arguments);
        let mut process = Process::spawn(command)?;
        process.wait_for("relaying", PATIENCE)?;
        Ok(Relay(process))
    }
}

/// A cable whose end in `between` has this name. One queue each way: with more, frames that are
/// sent by several processors overtake each other.
fn connect(host: &Host, between: &Host, device: &str) -> Result<()> {
    let one = "numtxqueues 1 numrxqueues 1";
    let command = format!(
        "ip link add {INTERFACE} {one} netns {} type veth peer name {device} {one} netns {}",
        host.namespace(),
        between.namespace()
    );
    crate::run(&command.split(' ').collect::<Vec<_>>())?;
    // Receive offload stays on, because a veth takes frames of XDP and keeps their order only so;
    // but each frame must come as it was sent.
    between.run(&["ip", "link", "set", device, "gro_max_size", "1"]).map(drop)
}

/// Tells a host its peer's Ethernet address: a lost request for it would count as a second of
/// whatever is measured.
fn know(host: &Host, peer: &Host, addresses: &[String]) -> Result<()> {
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
    /// Ends it; gives what it did.
    ///
    /// # Errors
    /// It has ended by itself, or prints what cannot be read; the error has its words.
    pub fn finish(mut self) -> Result<Passed> {
        let ended = self.0.stop(PATIENCE)?;
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
    /// How much later than told a frame left, on average, in ns.
    pub late_mean_ns: u64,
    /// At most.
    pub late_max_ns: u64,
    /// Processor time that the relay took, in us: its own, and what the kernels of both hosts do
    /// with a frame when they are given it.
    pub processor_us: u64,
}

/// What a relay did in one direction, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// That came in.
    pub sent: u64,
    /// That went out.
    pub delivered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Last segments of messages, lost as told.
    pub tails: u64,
    /// Lost in a blackout.
    pub dark: u64,
    /// Marked for congestion.
    pub marked: u64,
    /// Doubled.
    pub duplicated: u64,
    /// Held back for others to overtake them.
    pub reordered: u64,
    /// Larger than the MTU, which nobody may send: lost.
    pub too_big: u64,
    /// Lost because the relay did not take them in time, which nobody asked for.
    pub overflowed: u64,
    /// Lost because the other host's device did not take them, which nobody asked for.
    pub refused: u64,
}

impl Way {
    /// Lost as told.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost + self.tails + self.dark
    }

    /// Lost though nobody asked for it: figures with such a loss are not what they are said to be.
    #[must_use]
    pub fn unasked(&self) -> u64 {
        self.too_big + self.overflowed + self.refused
    }
}
