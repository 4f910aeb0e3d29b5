//! Four pairs of hosts, each on a relay. Only a host whose end is Tickwire's has a service, so that
//! a kernel's end is an ordinary one.

use super::ends::Ends;
use super::rows::Cell;
use crate::bench::harness::Figures;
use crate::bench::harness::host_pairs::{program, start};
use crate::traffic;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_bench::transfer::Transfer;
use tickwire_lab::{LabPair, Passed, Relay, Relayed, Service, ServiceOptions};

/// The end whose processor the cable shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Beside {
    Sender,
    Receiver,
}

impl Beside {
    fn processor(self) -> &'static str {
        match self {
            Self::Sender => SENDER_CPU,
            Self::Receiver => RECEIVER_CPU,
        }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        })
    }
}

/// Two hosts and their cable.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) ends: Ends,
    // Fields drop in order: the services end before their hosts.
    services: Vec<Service>,
    relayed: Relayed,
    beside: Beside,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) cell: &'a Cell,
    pub(super) seed: u32,
    pub(super) seconds: u32,
    pub(super) messages: u32,
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) transfer: Transfer,
    pub(super) passed: Passed,
}

impl Figures for Measured {
    type Median = Transfer;

    fn of_rounds(rounds: &[Self]) -> Option<Transfer> {
        Transfer::of_rounds(&rounds.iter().map(|round| round.transfer).collect::<Vec<_>>())
    }
}

/// The round trip of a small message between two kernels, through the relay and over a plain cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) relay: Latency,
    pub(super) cable: Latency,
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        let Self { relay, cable } = self;
        write!(
            f,
            "the relay by itself, a 64-byte round trip between kernels: p50 {:.0}, p99 {:.0} us; on a plain cable p50 {:.0}, p99 {:.0} us",
            us(relay.p50_ns),
            us(relay.p99_ns),
            us(cable.p50_ns),
            us(cable.p99_ns)
        )
    }
}

const PORT: u16 = 5201;
/// Allowed in addition to the seconds of a measurement: with losses, opening and closing a
/// connection may take long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Sender and receiver have a processor of their own. The relay is pinned to that of one of them:
/// the kernel would place it at random, which changes the median of a cell by a third.
const SENDER_CPU: &str = "0";
const RECEIVER_CPU: &str = "1";
/// The fewest packets of a measurement: a single message, most of whose packets were lost. A
/// kernel's connection diverts none.
const FEWEST: u64 = 3;

impl Topology {
    pub(super) fn new(ends: Ends, attach: &str, congestion: &str, beside: Beside) -> Result<Self> {
        let relayed = Relayed::new()?;
        let options = ServiceOptions { arguments: vec!["--attach".into(), attach.into()], ..ServiceOptions::default() };
        let mut services = Vec::new();
        let pair = &relayed.pair;
        let hosts = [(&pair.a, pair.a_v4()), (&pair.b, pair.b_v4())];
        for ((host, address), ours) in hosts.into_iter().zip(ends.ours()) {
            // No metrics cache: a connection must not inherit what an earlier one has learnt of the
            // path.
            host.sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
            // A namespace may choose congestion control by sysctl only among those that the whole
            // machine allows; a route may choose any.
            let route = "ip route replace 10.77.0.0/24 dev eth0 proto kernel scope link";
            let route = format!("{route} src {address} congctl {congestion}");
            host.run(&route.split(' ').collect::<Vec<_>>())?;
            if ours {
                services.push(Service::start_with(host, &options)?);
            }
        }
        Ok(Self { ends, services, relayed, beside })
    }

    fn start(&self, arguments: &[&str]) -> Result<Relay> {
        self.relayed.start_on(self.beside.processor(), arguments)
    }

    /// Measures; fails if packets were lost that the relay was not told to lose.
    pub(super) fn measure(&self, run: &Run<'_>) -> Result<Measured> {
        let &Run { cell: &Cell { row, size, .. }, seed, seconds, messages } = run;
        let pair = &self.relayed.pair;
        let timeout = TIMEOUT + Duration::from_secs(seconds.into());
        let mut told = row.arguments(size);
        told.extend(["--seed".into(), seed.to_string(), "--limit".into(), timeout.as_secs().to_string()]);
        let relay = self.start(&told.iter().map(String::as_str).collect::<Vec<_>>())?;

        let program = program("messages")?;
        let (address, size) = (format!("{}:{PORT}", pair.b_v4()), size.to_string());
        let [sends, receives] = self.ends.ours();
        let receive = [&program, "receive", &address, "--size", &size];
        let mut receiver = start(&pair.b, RECEIVER_CPU, receives, &receive)?;
        tickwire_lab::wait_until_listening(&pair.b, "tcp", PORT, &mut receiver)?;
        let [count, seconds, warm_up] = [messages, seconds, row.warm_up()].map(|number| number.to_string());
        let mut send = vec![&*program, "send", &address, "--size", &size];
        send.extend(["--count", &count, "--seconds", &seconds, "--warmup", &warm_up]);
        let printed = traffic::proven(&self.services, FEWEST, || {
            start(&pair.a, SENDER_CPU, sends, &send)?.success(timeout)?;
            receiver.success(timeout)
        })?;
        let passed = relay.finish()?;
        let unasked = passed.forth.unasked() + passed.back.unasked();
        if unasked > 0 {
            bail!("{unasked} frames were lost that were not to be: {passed:?}");
        }
        Ok(Measured { transfer: serde_json::from_str(printed.trim()).context("figures of the receiver")?, passed })
    }
}

/// Measures what the relay adds by itself.
pub(super) fn added(hosts: &[Topology]) -> Result<Added> {
    let kernels = hosts.iter().find(|hosts| hosts.ends == Ends::KernelKernel).context("no hosts without a service")?;
    let relay = kernels.start(&[])?;
    let through = ping_pong(&kernels.relayed.pair)?;
    relay.finish()?;
    Ok(Added { relay: through, cable: ping_pong(&LabPair::new()?)? })
}

fn ping_pong(pair: &LabPair) -> Result<Latency> {
    let (program, address) = (program("pingpong")?, format!("{}:{PORT}", pair.b_v4()));
    let mut server = start(&pair.b, RECEIVER_CPU, false, &[&program, "server", "tcp", &address])?;
    tickwire_lab::wait_until_listening(&pair.b, "tcp", PORT, &mut server)?;
    let client = [&program, "client", "tcp", &address, "--count", "3000", "--warmup", "200"];
    let printed = start(&pair.a, SENDER_CPU, false, &client)?.success(TIMEOUT)?;
    serde_json::from_str(printed.trim()).context("figures of the ping-pong client")
}
