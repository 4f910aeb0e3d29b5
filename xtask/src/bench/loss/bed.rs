//! Four pairs of hosts on a relay each: a service is only where an end is Tickwire's, so that a
//! kernel's end is an ordinary one.

use super::rows::Row;
use crate::traffic;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_bench::transfer::Transfer;
use tickwire_lab::{Host, Pair, Passed, Process, Relay, Relayed, Service, ServiceOptions, tools};

/// Who is at which end; the sender of the messages is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    KernelKernel,
    OursKernel,
    KernelOurs,
    OursOurs,
}

impl Ends {
    pub(super) const ALL: [Self; 4] = [Self::KernelKernel, Self::OursKernel, Self::KernelOurs, Self::OursOurs];

    /// Whether the sender and the receiver are accelerated.
    fn ours(self) -> [bool; 2] {
        match self {
            Self::KernelKernel => [false, false],
            Self::OursKernel => [true, false],
            Self::KernelOurs => [false, true],
            Self::OursOurs => [true, true],
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelKernel => "kernel-kernel",
            Self::OursKernel => "ours-kernel",
            Self::KernelOurs => "kernel-ours",
            Self::OursOurs => "ours-ours",
        })
    }
}

/// Whose processor the cable takes its time from.
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
pub(super) struct Bed {
    pub(super) ends: Ends,
    // Before the hosts, so that services end before their hosts go.
    services: Vec<Service>,
    relayed: Relayed,
    beside: Beside,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) row: &'a Row,
    pub(super) size: u32,
    pub(super) seed: u32,
    pub(super) seconds: u32,
    pub(super) messages: u32,
}

/// What one measurement gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) transfer: Transfer,
    pub(super) passed: Passed,
}

/// What a small message and its answer take between two kernels, through the relay and over a plain
/// cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) relay: Latency,
    pub(super) cable: Latency,
}

const PORT: u16 = 5201;
/// Beside the seconds of a measurement: a connection whose packets get lost may take long to open
/// and to close.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sender and receiver have a processor of their own. The relay shares that of one of them: where
/// the kernel would put it is chance, by which the median of a cell changes by a third.
const SENDER_CPU: &str = "0";
const RECEIVER_CPU: &str = "1";
/// Packets of a measurement of a single message, most of which got lost. A kernel's connection
/// diverts none.
const FEWEST: u64 = 3;

impl Bed {
    pub(super) fn new(ends: Ends, attach: &str, congestion: &str, beside: Beside) -> Result<Self> {
        let relayed = Relayed::new()?;
        let options = ServiceOptions { arguments: vec!["--attach".into(), attach.into()], ..ServiceOptions::default() };
        let mut services = Vec::new();
        let pair = &relayed.pair;
        let hosts = [(&pair.a, pair.a_v4()), (&pair.b, pair.b_v4())];
        for ((host, address), ours) in hosts.into_iter().zip(ends.ours()) {
            // What a connection has learnt of the path is not for the next one: each measurement
            // begins alike.
            host.sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
            // A namespace may not choose it by a kernel variable unless the whole machine allows
            // it; a route may.
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

    /// Measures; fails if something got lost that was not to.
    pub(super) fn measure(&self, run: &Run<'_>) -> Result<Measured> {
        let &Run { row, size, seed, seconds, messages } = run;
        let pair = &self.relayed.pair;
        let patience = PATIENCE + Duration::from_secs(seconds.into());
        let mut told = row.arguments(size);
        told.extend(["--seed".into(), seed.to_string(), "--limit".into(), patience.as_secs().to_string()]);
        let relay = self.start(&told.iter().map(String::as_str).collect::<Vec<_>>())?;

        let program = program("messages")?;
        let (address, size) = (format!("{}:{PORT}", pair.b_v4()), size.to_string());
        let [sends, receives] = self.ends.ours();
        let receive = [&program, "receive", &address, "--size", &size];
        let mut receiver = start(&pair.b, RECEIVER_CPU, receives, &receive)?;
        tickwire_lab::bound(&pair.b, "tcp", PORT, &mut receiver)?;
        let [count, seconds, warm_up] = [messages, seconds, row.warm_up()].map(|number| number.to_string());
        let mut send = vec![&*program, "send", &address, "--size", &size];
        send.extend(["--count", &count, "--seconds", &seconds, "--warmup", &warm_up]);
        let printed = traffic::proven(&self.services, FEWEST, || {
            start(&pair.a, SENDER_CPU, sends, &send)?.success(patience)?;
            receiver.success(patience)
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
pub(super) fn added(beds: &[Bed]) -> Result<Added> {
    let bed = beds.iter().find(|bed| bed.ends == Ends::KernelKernel).context("no hosts without a service")?;
    let relay = bed.start(&[])?;
    let through = ping_pong(&bed.relayed.pair)?;
    relay.finish()?;
    Ok(Added { relay: through, cable: ping_pong(&Pair::new()?)? })
}

fn ping_pong(pair: &Pair) -> Result<Latency> {
    let (program, address) = (program("pingpong")?, format!("{}:{PORT}", pair.b_v4()));
    let mut server = start(&pair.b, RECEIVER_CPU, false, &[&program, "server", "tcp", &address])?;
    tickwire_lab::bound(&pair.b, "tcp", PORT, &mut server)?;
    let client = [&program, "client", "tcp", &address, "--count", "3000", "--warmup", "200"];
    let printed = start(&pair.a, SENDER_CPU, false, &client)?.success(PATIENCE)?;
    serde_json::from_str(printed.trim()).context("figures of the ping-pong client")
}

fn start(host: &Host, cpu: &str, accelerated: bool, command: &[&str]) -> Result<Process> {
    let options: &[&str] = &[];
    Process::spawn(traffic::command(host, cpu, accelerated.then_some(options), command)?)
}

fn program(name: &str) -> Result<String> {
    Ok(tools::built(name)?.to_str().context("a path that is not text")?.to_owned())
}
