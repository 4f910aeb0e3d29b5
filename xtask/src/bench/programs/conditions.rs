//! The conditions of the measurement: the machine, the cost of a wakeup on it, and the load.

use super::figure::median;
use crate::bench::harness::host_pairs::program;
use crate::bench::harness::host_state::{Ticks, load};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_lab::{LabPair, Process};

/// Samples taken while the programs were measured.
#[derive(Debug, Default)]
pub(super) struct Watch {
    began: Option<Ticks>,
    loads: Vec<f64>,
    blocking_us: Vec<f64>,
    spinning_us: Vec<f64>,
}

/// The conditions of a whole run.
#[derive(Debug, Serialize)]
pub(super) struct Conditions {
    pub(super) machine: String,
    pub(super) attach: String,
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    pub(super) pinned: bool,
    pub(super) took_seconds: f64,
    /// Round trips between two kernels by UDP, in microseconds.
    pub(super) blocking_us: Option<f64>,
    pub(super) spinning_us: Option<f64>,
    /// The least and the largest load average of one minute.
    pub(super) load: Option<(f64, f64)>,
    /// Steal time, in percent.
    pub(super) steal_percent: Option<f64>,
}

const PORT: u16 = 5201;
const TRIPS: &str = "3000";
const TIMEOUT: Duration = Duration::from_secs(30);

impl Watch {
    pub(super) fn begin() -> Self {
        Self { began: Ticks::now(), ..Self::default() }
    }

    /// Samples the load average.
    pub(super) fn look(&mut self) {
        self.loads.extend(load());
    }

    /// Measures the cost of a wakeup: a blocking round trip against a spinning one.
    pub(super) fn wake_ups(&mut self, pair: &LabPair) -> Result<()> {
        self.blocking_us.push(round_trip_us(pair, "block")?);
        self.spinning_us.push(round_trip_us(pair, "spin")?);
        Ok(())
    }

    pub(super) fn load(&self) -> Option<(f64, f64)> {
        let least = self.loads.iter().copied().reduce(f64::min)?;
        Some((least, self.loads.iter().copied().fold(least, f64::max)))
    }

    pub(super) fn steal_percent(&self) -> Option<f64> {
        Some(self.began?.stolen_percent(Ticks::now()?))
    }

    pub(super) fn blocking_us(&self) -> Option<f64> {
        median(self.blocking_us.iter().copied())
    }

    pub(super) fn spinning_us(&self) -> Option<f64> {
        median(self.spinning_us.iter().copied())
    }
}

fn round_trip_us(pair: &LabPair, wait: &str) -> Result<f64> {
    let (program, address) = (program("pingpong")?, format!("{}:{PORT}", pair.b_v4()));
    let mut server = pair.b.spawn(&["taskset", "-c", "0", &program, "server", "udp", &address, "--wait", wait])?;
    tickwire_lab::wait_until_listening(&pair.b, "udp", PORT, &mut server)?;
    let ask = ["taskset", "-c", "1", &program, "client", "udp", &address, "--wait", wait, "--count", TRIPS];
    let mut client: Process = pair.a.spawn(&ask)?;
    let printed = client.success(TIMEOUT)?;
    let latency: Latency = serde_json::from_str(printed.trim()).context("figures of the ping-pong client")?;
    Ok(latency.p50_ns as f64 / 1e3)
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        if let (Some(blocking), Some(spinning)) = (self.blocking_us, self.spinning_us) {
            let wake_up = (blocking - spinning).max(0.0) / 2.0;
            writeln!(
                f,
                "wake-up cost {wake_up:.1} us (UDP round trip of the kernel: {blocking:.1} us blocking, {spinning:.1} us spinning)"
            )?;
        }
        if let (Some((least, most)), Some(steal)) = (self.load, self.steal_percent) {
            writeln!(f, "load average {least:.2} to {most:.2}, steal {steal:.1} %")?;
        }
        let pinned = if self.pinned { "each end on a processor of its own" } else { "programs on all processors" };
        write!(
            f,
            "divert attached: {}; {pinned}; {} rounds of {} s; took {:.0} s",
            self.attach, self.rounds, self.seconds, self.took_seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_begin_with_the_machine_and_what_a_wake_up_costs() {
        let conditions = Conditions {
            machine: "a machine".into(),
            attach: "native".into(),
            rounds: 5,
            seconds: 2,
            pinned: false,
            took_seconds: 61.5,
            blocking_us: Some(64.0),
            spinning_us: Some(8.0),
            load: Some((0.5, 2.25)),
            steal_percent: Some(0.25),
        };
        let shown = conditions.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "a machine");
        assert!(lines[1].starts_with("wake-up cost 28.0 us "), "{shown}");
        assert_eq!(lines[2], "load average 0.50 to 2.25, steal 0.2 %");
        assert!(lines[3].contains("programs on all processors; 5 rounds of 2 s"), "{shown}");
    }
}
