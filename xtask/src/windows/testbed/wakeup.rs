//! What a wakeup costs on this machine: half of the difference between the round trips of two
//! sleeping and of two spinning programs on the kernel, as in the benchmark.

use crate::traffic;
use anyhow::{Context, Result};
use std::time::Duration;
use tickwire_bench::latency::Latency;
use tickwire_lab::{LabPair, Process, tools, wait_until_listening};

/// Within this a program has done its work.
const TIMEOUT: Duration = Duration::from_secs(60);

const PORT: u16 = 7;

/// The processors of both programs, on the smallest machine.
const PROCESSORS: [&str; 2] = ["0", "1"];

/// In microseconds. It takes about two seconds.
pub(in crate::windows) fn cost_us() -> Result<f64> {
    let [sleeping, spinning] = ["block", "spin"].map(p50_ns);
    Ok((sleeping? as f64 - spinning? as f64) / 2000.0)
}

/// The median of UDP round trips.
fn p50_ns(wait: &str) -> Result<u64> {
    let pair = LabPair::new()?;
    let address = format!("{}:{PORT}", pair.b_v4());
    let program = tools::built("pingpong")?.display().to_string();
    let start = |host, processor, role| {
        let words = [program.as_str(), role, "udp", &address, "--wait", wait];
        Process::spawn(traffic::command(host, processor, None, &words)?)
    };
    let mut server = start(&pair.b, PROCESSORS[0], "server")?;
    wait_until_listening(&pair.b, "udp", PORT, &mut server)?;
    let printed = start(&pair.a, PROCESSORS[1], "client")?.success(TIMEOUT)?;
    let latency: Latency = serde_json::from_str(printed.trim()).context("figures of the ping-pong client")?;
    Ok(latency.p50_ns)
}
