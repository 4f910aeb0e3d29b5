//! How each row is measured.

use crate::bench::harness::host_pairs::{Ends, HostPairs, PORT, TIMEOUT, at, program, start_client, start_server};
use crate::bench::harness::{Figures, median};
use crate::traffic;
use anyhow::{Context, Result};
use tickwire_bench::latency::Latency;
use tickwire_bench::many::ExchangeFigures;

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Round trips a second, of all threads together; `None` if single calls are timed.
    pub(super) rate: Option<f64>,
    /// From a message to its answer, or what a call takes.
    pub(super) latency: Latency,
}

impl Figures for Measured {
    type Median = Self;

    fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let latencies: Vec<Latency> = rounds.iter().map(|round| round.latency).collect();
        let rate = median(rounds.iter().filter_map(|round| round.rate));
        Some(Self { rate, latency: Latency::of_rounds(&latencies)? })
    }
}

/// The hosts, and how much is measured.
pub(super) struct Topology {
    pub(super) pairs: HostPairs,
    pub(super) trips: u32,
    pub(super) sends: u32,
}

/// The priority of real-time programs.
const PRIORITY: &str = "10";
/// The port of a stream's sink.
const SINK: u16 = 5301;

/// The idle threads or processes of a program besides the measured threads, each with a connection
/// of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Idle {
    Threads(u32),
    Processes(u32),
}

impl Topology {
    /// Round trips of `threads` threads of an ordinary program.
    pub(super) fn threads(&self, ends: Ends, threads: u32) -> Result<Measured> {
        self.exchange(ends, &[], &["--threads", &threads.to_string()])
    }

    /// Round trips of one thread, beside idle ones.
    pub(super) fn beside(&self, ends: Ends, idle: Idle) -> Result<Measured> {
        self.exchange(ends, &[], &options(idle).each_ref().map(String::as_str))
    }

    /// The same of a program that runs with a real-time priority.
    pub(super) fn real_time(&self, ends: Ends, idle: Idle) -> Result<Measured> {
        self.exchange(ends, &["chrt", "-f", PRIORITY], &options(idle).each_ref().map(String::as_str))
    }

    fn exchange(&self, ends: Ends, starter: &[&str], options: &[&str]) -> Result<Measured> {
        let count = self.trips.to_string();
        let options = [&["--count", &count], options].concat();
        let roles = ["serve", "exchange"];
        let exchange: ExchangeFigures =
            self.pairs.figures_of(ends, starter, "threads", roles, &options, self.trips.into())?;
        Ok(Measured { rate: Some(exchange.per_second), latency: exchange.latency })
    }

    /// What `send` takes in a real-time thread, while an ordinary thread of the program sends
    /// without a pause.
    pub(super) fn sends(&self, ends: Ends) -> Result<Measured> {
        let count = self.sends.to_string();
        let options = ["--count", &*count, "--priority", PRIORITY];
        let latency = self.pairs.figures(ends, "threads", ["mirror", "send"], &options, (self.sends / 10).into())?;
        Ok(Measured { rate: None, latency })
    }

    /// Round trips of one thread while another of the program streams.
    pub(super) fn beside_own_stream(&self, ends: Ends) -> Result<Measured> {
        let program = program("pingpong")?;
        let pair = self.pairs.pair(ends);
        let (address, sink) = (at(pair, PORT), at(pair, SINK));
        let trips = (self.trips / 10).to_string();
        let mut server = start_server(pair, ends, PORT, &[&program, "server", "tcp", &address])?;
        let client = [&*program, "client", "tcp", &address, "--count", &trips, "--stream", &sink];
        let printed = traffic::proven(self.pairs.witnesses(ends), (self.trips / 10).into(), || {
            let mut sink = start_server(pair, ends, SINK, &[&program, "sink", &sink])?;
            let printed = start_client(pair, ends, &client)?.success(TIMEOUT)?;
            sink.success(TIMEOUT)?;
            Ok(printed)
        })?;
        server.kill();
        let latency: Latency = serde_json::from_str(printed.trim()).context("figures of the ping-pong client")?;
        Ok(Measured { rate: Some(1e9 / latency.p50_ns as f64), latency })
    }
}

fn options(idle: Idle) -> [String; 4] {
    let (what, number) = match idle {
        Idle::Threads(number) => ("--idle-threads", number),
        Idle::Processes(number) => ("--idle-processes", number),
    };
    ["--threads".into(), "1".into(), what.into(), number.to_string()]
}
