//! The hosts that the rows run on: one pair with a service on each, and one that no service has touched.

use super::figures::Measured;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_bench::rate::Rate;
use tickwire_lab::{CableOptions, Host, Pair, Process, Service, ServiceOptions, tools};

/// Which ends are accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// None, on hosts without a service.
    Kernel,
    /// None, on hosts with a service that diverts nothing of it.
    Beside,
    /// Both.
    Both,
    /// The client only; its peer is the kernel.
    Client,
}

/// What goes over the cable, and how the programs wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// `udp` or `tcp`.
    pub(crate) transport: &'static str,
    /// The programs spin (non-blocking calls in a loop on the kernel, `--spin always` on Tickwire) or block.
    pub(crate) spin: bool,
}

/// The bed of all rows.
pub(crate) struct Bed {
    // Before their hosts, so that they end before them.
    services: [Service; 2],
    with: Pair,
    without: Pair,
    wire: Pair,
    pub(crate) trips: u32,
    pub(crate) seconds: u32,
}

const PORT: u16 = 5201;
const PATIENCE: Duration = Duration::from_secs(60);
/// Client and server have a processor of their own.
const CLIENT_CPU: &str = "0";
const SERVER_CPU: &str = "1";
const SIZE: &str = "64";

impl Bed {
    pub(crate) fn new(trips: u32, seconds: u32, attach: &str) -> Result<Self> {
        let with = Pair::new()?;
        let without = Pair::with(&CableOptions { offload: true, ..CableOptions::default() })?;
        let wire = Pair::new()?;
        let options = ServiceOptions { arguments: vec!["--attach".into(), attach.into()], ..ServiceOptions::default() };
        let services = [Service::start_with(&with.a, &options)?, Service::start_with(&with.b, &options)?];
        Ok(Self { services, with, without, wire, trips, seconds })
    }

    /// Runs a program of our own against plain sockets on both ends.
    pub(crate) fn ping_pong(&self, ends: Ends, traffic: Traffic) -> Result<Measured> {
        let pair = self.pair(ends, traffic);
        let address = format!("{}:{PORT}", pair.b_v4());
        let program = tools::built("pingpong")?;
        let program = program.to_str().context("a path that is not text")?;
        let server_end = (&pair.b, SERVER_CPU, ends == Ends::Both);
        let client_end = (&pair.a, CLIENT_CPU, matches!(ends, Ends::Both | Ends::Client));
        let wait = |accelerated: bool| if traffic.spin && !accelerated { "spin" } else { "block" };
        let serve = [program, "server", traffic.transport, &address, "--wait", wait(server_end.2), "--size", SIZE];
        let mut server = self.start(server_end, traffic.spin, &serve)?;
        bound(&pair.b, traffic.transport, &mut server)?;
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
        let printed = self.proven(ends, || self.start(client_end, traffic.spin, &ask)?.success(PATIENCE));
        server.kill();
        let latency: Latency = serde_json::from_str(printed?.trim()).context("figures of the ping-pong client")?;
        if latency.lost > 0 {
            bail!("{} messages were lost", latency.lost);
        }
        Ok(Measured::Latency(latency))
    }

    /// One TCP stream between programs of our own; `wire`: the kernel sends frames of the MTU, as over a real cable.
    pub(crate) fn stream(&self, ends: Ends, wire: bool) -> Result<Measured> {
        let pair = if wire && ends == Ends::Kernel {
            &self.wire
        } else {
            self.pair(ends, Traffic { transport: "tcp", spin: false })
        };
        let address = format!("{}:{PORT}", pair.b_v4());
        let program = tools::built("pingpong")?;
        let program = program.to_str().context("a path that is not text")?;
        let accelerated = ends == Ends::Both;
        let mut sink = self.start((&pair.b, SERVER_CPU, accelerated), false, &[program, "sink", &address])?;
        bound(&pair.b, "tcp", &mut sink)?;
        let seconds = self.seconds.to_string();
        let source = [program, "source", &address, "--seconds", &seconds];
        let printed = self.proven(ends, || {
            self.start((&pair.a, CLIENT_CPU, accelerated), false, &source)?.success(PATIENCE)?;
            sink.success(PATIENCE)
        });
        sink.kill();
        let rate: Rate = serde_json::from_str(printed?.trim()).context("figures of the sink")?;
        Ok(Measured::Rate(rate.bits_per_second / 1e9))
    }

    /// sockperf ping-pong, which we did not write.
    pub(crate) fn sockperf(&self, ends: Ends, transport: &str) -> Result<Measured> {
        let pair = self.pair(ends, Traffic { transport: "udp", spin: true });
        let (address, port) = (pair.b_v4(), PORT.to_string());
        let accelerated = ends == Ends::Both;
        let flag: &[&str] = if transport == "tcp" { &["--tcp"] } else { &[] };
        let at = ["-i", &address, "-p", &port];
        let mut server =
            self.start((&pair.b, SERVER_CPU, accelerated), true, &[&["sockperf", "server"], &at[..], flag].concat())?;
        bound(&pair.b, transport, &mut server)?;
        let seconds = self.seconds.to_string();
        let client = [&["sockperf", "ping-pong", "-m", SIZE, "-t", &seconds, "--full-rtt"], &at[..], flag].concat();
        let printed =
            self.proven(ends, || self.start((&pair.a, CLIENT_CPU, accelerated), true, &client)?.success(PATIENCE));
        server.kill();
        sockperf_figures(&printed?)
    }

    /// One row of the raw measurements, which bring their own hosts.
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

    fn pair(&self, ends: Ends, traffic: Traffic) -> &Pair {
        match ends {
            Ends::Kernel if traffic.transport == "tcp" && !traffic.spin => &self.without,
            Ends::Kernel => &self.wire,
            Ends::Beside | Ends::Both | Ends::Client => &self.with,
        }
    }

    fn start(&self, (host, cpu, accelerated): (&Host, &str, bool), spin: bool, command: &[&str]) -> Result<Process> {
        let mut prepared = host.command("taskset");
        prepared.args(["-c", cpu]);
        if accelerated {
            prepared.arg(tools::tickwire()?).args(["run", "--require"]);
            if spin {
                prepared.args(["--spin", "always"]);
            }
            prepared.arg("--");
        }
        prepared.args(command);
        Process::spawn(prepared)
    }

    /// Accelerated figures count only if the counters show that the traffic crossed our stack.
    fn proven<T>(&self, ends: Ends, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        let wanted: &[Service] = match ends {
            Ends::Kernel | Ends::Beside => &[],
            Ends::Both => &self.services,
            Ends::Client => &self.services[..1],
        };
        let diverted = || wanted.iter().map(|s| Ok(s.stat()?.diverted())).collect::<Result<Vec<u64>>>();
        let before = diverted()?;
        let figures = measure()?;
        if before.into_iter().zip(diverted()?).any(|(before, after)| after < before + 100) {
            bail!("this traffic did not cross the stack");
        }
        Ok(figures)
    }
}

fn bound(host: &Host, transport: &str, server: &mut Process) -> Result<()> {
    let sockets = if transport == "tcp" { "-lnt" } else { "-lnu" };
    let filter = format!("sport = :{PORT}");
    let mut gone = false;
    tools::until("the server's port is bound", Duration::from_secs(5), || {
        gone = !server.is_running().unwrap_or(false);
        gone || host.run(&["ss", "-H", sockets, &filter]).is_ok_and(|found| !found.trim().is_empty())
    })?;
    if gone {
        bail!("the server ended: {}{}", server.stdout(), server.stderr());
    }
    // The port is entered with the service right after it is bound.
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

/// `---> percentile 99.900 =   12.345` in microseconds, and the like for maximum and minimum.
fn sockperf_figures(printed: &str) -> Result<Measured> {
    let at = |label: &str| -> Result<u64> {
        let line = printed
            .lines()
            .find(|l| l.contains(label))
            .with_context(|| format!("sockperf printed no {label}: {printed}"))?;
        let us: f64 =
            line.rsplit('=').next().unwrap_or("").trim().parse().with_context(|| format!("sockperf printed {line}"))?;
        Ok((us * 1000.0) as u64)
    };
    let count = printed
        .lines()
        .find_map(|l| l.split("ReceivedMessages=").nth(1))
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .unwrap_or(0);
    Ok(Measured::Latency(Latency {
        count,
        min_ns: at("<MIN>")?,
        p50_ns: at("percentile 50.000")?,
        p99_ns: at("percentile 99.000")?,
        p999_ns: at("percentile 99.900")?,
        max_ns: at("<MAX>")?,
        lost: 0,
    }))
}
