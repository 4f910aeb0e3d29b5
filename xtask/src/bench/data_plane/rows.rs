//! The rows, measured in this order in every round.

use super::figures::Measured;
use super::topology::{Attach, Ends, Topology, Traffic, Wait};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt;
use tickwire_bench::latency::Latency;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name; rows are compared by it.
    pub(crate) name: &'static str,
    /// Measures it once.
    pub(crate) measure: fn(&Topology) -> Result<Measured>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const UDP_BLOCK: Traffic = Traffic { transport: "udp", wait: Wait::Adaptive };
const UDP_SPIN: Traffic = Traffic { transport: "udp", wait: Wait::Spin };
const UDP_SLEEP: Traffic = Traffic { transport: "udp", wait: Wait::Sleep };
const UDP_REAL_TIME: Traffic = Traffic { transport: "udp", wait: Wait::RealTime };
const TCP_BLOCK: Traffic = Traffic { transport: "tcp", wait: Wait::Adaptive };
const TCP_SPIN: Traffic = Traffic { transport: "tcp", wait: Wait::Spin };
const TCP_SLEEP: Traffic = Traffic { transport: "tcp", wait: Wait::Sleep };
const TCP_REAL_TIME: Traffic = Traffic { transport: "tcp", wait: Wait::RealTime };

/// All rows. HostPairs are adjacent, so that the machine's drift affects them alike.
pub(crate) static ROWS: [Row; 40] = [
    Row { name: "raw lane, native", measure: |bed| latency(&bed.floor("lane:native:xdp")?) },
    Row { name: "raw lane, tc", measure: |bed| latency(&bed.floor("lane:tc:tc")?) },
    Row { name: "UDP kernel, blocking", measure: |bed| bed.ping_pong(Ends::Kernel, UDP_BLOCK) },
    Row { name: "UDP kernel, spinning", measure: |bed| bed.ping_pong(Ends::Kernel, UDP_SPIN) },
    Row { name: "UDP smoltcp, lane", measure: |bed| latency(&bed.floor("smoltcp:udp")?) },
    Row { name: "UDP Tickwire, spinning", measure: |bed| bed.ping_pong(Ends::Both, UDP_SPIN) },
    Row { name: "UDP Tickwire, adaptive", measure: |bed| bed.ping_pong(Ends::Both, UDP_BLOCK) },
    Row { name: "UDP Tickwire, sleeping", measure: |bed| bed.ping_pong(Ends::Both, UDP_SLEEP) },
    Row { name: "UDP Tickwire, sockperf", measure: |bed| bed.sockperf(Ends::Both, "udp") },
    Row { name: "UDP kernel, sockperf", measure: |bed| bed.sockperf(Ends::Kernel, "udp") },
    Row { name: "UDP Tickwire to kernel", measure: |bed| bed.ping_pong(Ends::Client, UDP_BLOCK) },
    Row { name: "UDP Tickwire to kernel, sleeping", measure: |bed| bed.ping_pong(Ends::Client, UDP_SLEEP) },
    Row { name: "UDP kernel beside service", measure: |bed| bed.ping_pong(Ends::Beside(Attach::Default), UDP_BLOCK) },
    Row {
        name: "UDP kernel beside service, native",
        measure: |bed| bed.ping_pong(Ends::Beside(Attach::Native), UDP_BLOCK),
    },
    Row {
        name: "UDP kernel beside service, generic",
        measure: |bed| bed.ping_pong(Ends::Beside(Attach::Generic), UDP_BLOCK),
    },
    Row { name: "TCP kernel, blocking", measure: |bed| bed.ping_pong(Ends::Kernel, TCP_BLOCK) },
    Row { name: "TCP kernel, spinning", measure: |bed| bed.ping_pong(Ends::Kernel, TCP_SPIN) },
    Row { name: "TCP smoltcp, lane", measure: |bed| latency(&bed.floor("smoltcp:tcp")?) },
    Row { name: "TCP Tickwire, spinning", measure: |bed| bed.ping_pong(Ends::Both, TCP_SPIN) },
    Row { name: "TCP Tickwire, adaptive", measure: |bed| bed.ping_pong(Ends::Both, TCP_BLOCK) },
    Row { name: "TCP Tickwire, sleeping", measure: |bed| bed.ping_pong(Ends::Both, TCP_SLEEP) },
    Row { name: "TCP Tickwire, sockperf", measure: |bed| bed.sockperf(Ends::Both, "tcp") },
    Row { name: "TCP kernel, sockperf", measure: |bed| bed.sockperf(Ends::Kernel, "tcp") },
    Row { name: "TCP Tickwire to kernel", measure: |bed| bed.ping_pong(Ends::Client, TCP_BLOCK) },
    Row { name: "TCP Tickwire to kernel, sleeping", measure: |bed| bed.ping_pong(Ends::Client, TCP_SLEEP) },
    Row { name: "TCP kernel beside service", measure: |bed| bed.ping_pong(Ends::Beside(Attach::Default), TCP_BLOCK) },
    Row { name: "stream raw lane", measure: |bed| rate(&bed.floor("lane:native:xdp")?) },
    Row { name: "stream smoltcp, lane", measure: |bed| rate(&bed.floor("smoltcp:stream")?) },
    Row { name: "stream Tickwire", measure: |bed| bed.stream(Ends::Both, true) },
    Row { name: "stream kernel, 1500-byte frames", measure: |bed| bed.stream(Ends::Kernel, true) },
    Row { name: "stream kernel, offloads", measure: |bed| bed.stream(Ends::Kernel, false) },
    Row { name: "stream kernel beside service", measure: |bed| bed.stream(Ends::Beside(Attach::Default), false) },
    Row {
        name: "stream kernel beside service, native",
        measure: |bed| bed.stream(Ends::Beside(Attach::Native), false),
    },
    Row {
        name: "stream kernel beside service, generic",
        measure: |bed| bed.stream(Ends::Beside(Attach::Generic), false),
    },
    Row { name: "UDP kernel, processors busy", measure: |bed| bed.among_busy(Ends::Kernel, UDP_BLOCK) },
    Row { name: "UDP Tickwire, processors busy", measure: |bed| bed.among_busy(Ends::Both, UDP_BLOCK) },
    Row { name: "TCP kernel, processors busy", measure: |bed| bed.among_busy(Ends::Kernel, TCP_BLOCK) },
    Row { name: "TCP Tickwire, processors busy", measure: |bed| bed.among_busy(Ends::Both, TCP_BLOCK) },
    Row {
        name: "UDP Tickwire, processors busy, real-time priority granted",
        measure: |bed| bed.among_busy(Ends::Both, UDP_REAL_TIME),
    },
    Row {
        name: "TCP Tickwire, processors busy, real-time priority granted",
        measure: |bed| bed.among_busy(Ends::Both, TCP_REAL_TIME),
    },
];

fn latency(figures: &Value) -> Result<Measured> {
    let number = |key: &str| figures.get(key).and_then(Value::as_u64).with_context(|| format!("no {key} in {figures}"));
    Ok(Measured::Latency(Latency {
        count: number("trips")?,
        min_ns: number("p50_ns")?,
        p50_ns: number("p50_ns")?,
        p99_ns: number("p99_ns")?,
        p999_ns: number("p999_ns")?,
        max_ns: number("max_ns")?,
        lost: 0,
    }))
}

fn rate(figures: &Value) -> Result<Measured> {
    figures.get("gbit").and_then(Value::as_f64).map(Measured::Rate).with_context(|| format!("no gbit in {figures}"))
}
