//! The hosts that the rows run on: a pair with a service on each host, a pair with a service on
//! one, and pairs that never had a service.

use super::figures::Measured;
use crate::bench::harness::host_pairs::{CLIENT_CPU, SERVER_CPU, program};
use crate::sockperf::Report;
use crate::traffic;
use anyhow::{Context, Result, bail};
use std::cell::{Cell, OnceCell};
use std::process::Command;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_bench::rate::RateFigures;
use tickwire_lab::{CableOptions, LabHost, LabPair, Process, Service, ServiceOptions, tools};

/// How the services beside ordinary programs attach divert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// `auto`: the service chooses.
    Default,
    /// XDP in the driver.
    Native,
    /// XDP before the kernel's stack.
    Generic,
}

/// Which ends are accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// None, on hosts without a service.
    Kernel,
    /// None, on hosts with a service that diverts none of this traffic.
    Beside(Attach),
    /// Both.
    Both,
    /// The client only; its peer is the kernel of a host without a service, as most peers are.
    Client,
}

/// The transport, and how the programs wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// `udp` or `tcp`.
    pub(crate) transport: &'static str,
    /// How they wait.
    pub(crate) wait: Wait,
}

/// How the programs wait for a message. On the kernel a program either spins or blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Non-blocking calls in a loop on the kernel, `--spin always` on Tickwire.
    Spin,
    /// Blocking calls, which `tickwire run` makes spin for a while after traffic.
    Adaptive,
    /// Blocking calls, `--spin never` on Tickwire.
    Sleep,
    /// Blocking calls, with the real-time priority on Tickwire that the service grants.
    RealTime,
}

impl Wait {
    /// The options of `tickwire run`.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Spin => &["--spin", "always"],
            Self::Adaptive => &["--realtime", "never"],
            Self::Sleep => &["--realtime", "never", "--spin", "never"],
            Self::RealTime => &["--realtime", "granted"],
        }
    }
}

/// The testbed of all rows.
pub(crate) struct Topology {
    // Fields drop in order: the services end before their hosts.
    services: [Service; 2],
    with: LabPair,
    /// Has a service on host a only.
    one_end: (Service, LabPair),
    without: LabPair,
    wire: LabPair,
    beside: [OnceCell<Beside>; 3],
    lane_bytes: Cell<u64>,
    pub(crate) trips: u32,
    pub(crate) seconds: u32,
}

/// Hosts with all offloads, the best case for the kernel, and an idle service on each.
struct Beside {
    _services: [Service; 2],
    pair: LabPair,
}

impl Beside {
    fn new(attach: &str) -> Result<Self> {
        let pair = LabPair::with(&CableOptions { offload: true, ..CableOptions::default() })?;
        Ok(Self { _services: services(&pair, attach)?, pair })
    }
}

fn services(pair: &LabPair, attach: &str) -> Result<[Service; 2]> {
    Ok([service(&pair.a, attach)?, service(&pair.b, attach)?])
}

fn service(host: &LabHost, attach: &str) -> Result<Service> {
    // Only the programs of [`Wait::RealTime`] use the grant.
    let config = "[groups.root]\nrealtime = 50\n".into();
    let arguments = vec!["--attach".into(), attach.into()];
    let options = ServiceOptions { config, arguments, ..ServiceOptions::default() };
    Service::start_with(host, &options)
}

const PORT: u16 = 5201;
const TIMEOUT: Duration = Duration::from_secs(60);
const SIZE: &str = "64";
/// A program that never sleeps.
const BUSY: &str = "while :; do :; done";

impl Topology {
    pub(crate) fn new(trips: u32, seconds: u32, attach: &str) -> Result<Self> {
        let with = LabPair::new()?;
        let without = LabPair::with(&CableOptions { offload: true, ..CableOptions::default() })?;
        let wire = LabPair::new()?;
        let services = services(&with, attach)?;
        let pair = LabPair::new()?;
        let one_end = (service(&pair.a, attach)?, pair);
        let (beside, lane_bytes) = Default::default();
        Ok(Self { services, with, one_end, without, wire, beside, lane_bytes, trips, seconds })
    }

    /// The memory of the largest lane that was seen, in bytes; 0 if there was none.
    pub(crate) fn lane_bytes(&self) -> u64 {
        self.lane_bytes.get()
    }

    /// How the services have attached divert: with `auto` they choose.
    pub(crate) fn attached(&self) -> Result<String> {
        let mut modes = Vec::new();
        for service in &self.services {
            let stat = service.stat()?;
            let mode = stat.json.pointer("/host/interfaces/0/mode").and_then(serde_json::Value::as_str);
            modes.push(mode.context("the service does not say how divert is attached")?.to_owned());
        }
        modes.dedup();
        Ok(modes.join(" and "))
    }

    /// Runs a program of our own against plain sockets on both ends.
    pub(crate) fn ping_pong(&self, ends: Ends, traffic: Traffic) -> Result<Measured> {
        let pair = self.pair(ends, traffic.wait)?;
        let address = format!("{}:{PORT}", pair.b_v4());
        let program = &*program("pingpong")?;
        let server_end = (&pair.b, SERVER_CPU, ends == Ends::Both);
        let client_end = (&pair.a, CLIENT_CPU, matches!(ends, Ends::Both | Ends::Client));
        let wait = |accelerated: bool| if traffic.wait == Wait::Spin && !accelerated { "spin" } else { "block" };
        let serve = [program, "server", traffic.transport, &address, "--wait", wait(server_end.2), "--size", SIZE];
        let mut server = self.start(server_end, traffic.wait, &serve)?;
        tickwire_lab::wait_until_listening(&pair.b, traffic.transport, PORT, &mut server)?;
        let trips = self.trips.to_string();
        let ask = [
            program,
            "client",
            traffic.transport,
            &address,
            "--wait",
            wait(client_end.2),
            "--size",
            SIZE,
            "--count",
            &trips,
        ];
        let printed = self.proven(ends, || self.start(client_end, traffic.wait, &ask)?.success(TIMEOUT));
        server.kill();
        let latency: Latency = serde_json::from_str(printed?.trim()).context("figures of the ping-pong client")?;
        if latency.lost > 0 {
            bail!("{} messages were lost", latency.lost);
        }
        Ok(Measured::Latency(latency))
    }

    /// [`Topology::ping_pong`] while a busy loop competes for each processor.
    pub(crate) fn among_busy(&self, ends: Ends, traffic: Traffic) -> Result<Measured> {
        let host = &self.pair(ends, traffic.wait)?.a;
        let programs = [CLIENT_CPU, SERVER_CPU].map(|cpu| host.spawn(&["taskset", "-c", cpu, "sh", "-c", BUSY]));
        let _busy = programs.into_iter().collect::<Result<Vec<Process>>>()?;
        self.ping_pong(ends, traffic)
    }

    /// One TCP stream between programs of our own. `wire`: the kernel sends frames of the MTU (no
    /// offloads), as over a real cable.
    pub(crate) fn stream(&self, ends: Ends, wire: bool) -> Result<Measured> {
        let pair = if wire && ends == Ends::Kernel { &self.wire } else { self.pair(ends, Wait::Adaptive)? };
        let address = format!("{}:{PORT}", pair.b_v4());
        let program = &*program("pingpong")?;
        let accelerated = ends == Ends::Both;
        let mut sink = self.start((&pair.b, SERVER_CPU, accelerated), Wait::Adaptive, &[program, "sink", &address])?;
        tickwire_lab::wait_until_listening(&pair.b, "tcp", PORT, &mut sink)?;
        let seconds = self.seconds.to_string();
        let source = [program, "source", &address, "--seconds", &seconds];
        let printed = self.proven(ends, || {
            self.start((&pair.a, CLIENT_CPU, accelerated), Wait::Adaptive, &source)?.success(TIMEOUT)?;
            sink.success(TIMEOUT)
        });
        sink.kill();
        let rate: RateFigures = serde_json::from_str(printed?.trim()).context("figures of the sink")?;
        Ok(Measured::Rate(rate.bits_per_second / 1e9))
    }

    /// sockperf ping-pong: an independent program.
    pub(crate) fn sockperf(&self, ends: Ends, transport: &str) -> Result<Measured> {
        let pair = self.pair(ends, Wait::Adaptive)?;
        let (address, port) = (pair.b_v4(), PORT.to_string());
        let accelerated = ends == Ends::Both;
        let flag: &[&str] = if transport == "tcp" { &["--tcp"] } else { &[] };
        let at = ["-i", &address, "-p", &port];
        let mut server = self.start(
            (&pair.b, SERVER_CPU, accelerated),
            Wait::Spin,
            &[&["sockperf", "server"], &at[..], flag].concat(),
        )?;
        tickwire_lab::wait_until_listening(&pair.b, transport, PORT, &mut server)?;
        let seconds = self.seconds.to_string();
        let client = [&["sockperf", "ping-pong", "-m", SIZE, "-t", &seconds, "--full-rtt"], &at[..], flag].concat();
        let printed =
            self.proven(ends, || self.start((&pair.a, CLIENT_CPU, accelerated), Wait::Spin, &client)?.success(TIMEOUT));
        server.kill();
        let report = Report::read(&printed?)?;
        let ns = |us: f64| (us * 1000.0) as u64;
        Ok(Measured::Latency(Latency {
            count: report.count,
            min_ns: ns(report.min),
            p50_ns: ns(report.p50),
            p99_ns: ns(report.p99),
            p999_ns: ns(report.p999),
            max_ns: ns(report.max),
            lost: 0,
        }))
    }

    /// One row of the raw measurements, by a program that makes its own hosts.
    pub(crate) fn floor(&self, row: &str) -> Result<serde_json::Value> {
        let program = tools::built("examples/floor")?;
        let output = Command::new(program).args(["--trips", &self.trips.to_string(), row]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: serde_json::Value =
            serde_json::from_str(text.trim()).with_context(|| format!("floor printed {text}"))?;
        match figures.get("error") {
            Some(error) => bail!("{error}"),
            None => Ok(figures),
        }
    }

    fn pair(&self, ends: Ends, wait: Wait) -> Result<&LabPair> {
        Ok(match ends {
            Ends::Kernel if wait == Wait::Spin => &self.wire,
            Ends::Kernel => &self.without,
            Ends::Beside(attach) => self.beside(attach)?,
            Ends::Both => &self.with,
            Ends::Client => &self.one_end.1,
        })
    }

    /// Made when the first row needs it.
    fn beside(&self, attach: Attach) -> Result<&LabPair> {
        let (place, name) = match attach {
            Attach::Default => (&self.beside[0], "auto"),
            Attach::Native => (&self.beside[1], "native"),
            Attach::Generic => (&self.beside[2], "generic"),
        };
        if place.get().is_none() {
            // `get` has just found it empty, and the cell is not shared between threads.
            let _ = place.set(Beside::new(name)?);
        }
        Ok(&place.get().context("hosts that were just made")?.pair)
    }

    fn start(&self, (host, cpu, accelerated): (&LabHost, &str, bool), wait: Wait, command: &[&str]) -> Result<Process> {
        Process::spawn(traffic::command(host, cpu, accelerated.then_some(wait.options()), command)?)
    }

    /// Measures. Accelerated figures count only if the counters show that the traffic crossed our
    /// stack.
    fn proven<T>(&self, ends: Ends, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        let wanted: &[Service] = match ends {
            Ends::Kernel | Ends::Beside(_) => &[],
            Ends::Both => &self.services,
            Ends::Client => std::slice::from_ref(&self.one_end.0),
        };
        let measured = traffic::proven(wanted, traffic::FEWEST, measure)?;
        if ends == Ends::Both {
            // The server still has its lane.
            let stat = self.services[1].stat()?;
            let lanes = stat.json["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let bytes = lanes.iter().filter_map(|lane| lane["memory_bytes"].as_u64()).max().unwrap_or(0);
            self.lane_bytes.set(self.lane_bytes.get().max(bytes));
        }
        Ok(measured)
    }
}
