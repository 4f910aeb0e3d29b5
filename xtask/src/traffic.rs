//! Shared by demo and benchmark: programs on processors of their own, and the proof that the
//! traffic crossed our stack.

use anyhow::{Result, bail};
use std::process::Command;
use tickwire_lab::{LabHost, Service, tools};

/// The fewest packets through a lane for a measurement that lasts for seconds.
pub(crate) const FEWEST: u64 = 100;

/// A program on one processor of a host. `accelerated`: on Tickwire only (`--require`), with these
/// further options of `tickwire run`.
pub(crate) fn command(host: &LabHost, cpu: &str, accelerated: Option<&[&str]>, program: &[&str]) -> Result<Command> {
    let mut prepared = host.command("taskset");
    prepared.args(["-c", cpu]);
    if let Some(options) = accelerated {
        prepared.arg(tools::tickwire()?).args(["run", "--require"]).args(options).arg("--");
    }
    prepared.args(program);
    Ok(prepared)
}

/// Measures; fails unless each of these services has diverted at least `fewest` packets, which
/// shows that the traffic crossed our stack.
pub(crate) fn proven<T>(services: &[Service], fewest: u64, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    let diverted = || services.iter().map(|s| Ok(s.stat()?.diverted())).collect::<Result<Vec<u64>>>();
    let before = diverted()?;
    let figures = measure()?;
    for (service, (before, after)) in before.into_iter().zip(diverted()?).enumerate() {
        let crossed = after.saturating_sub(before);
        if crossed < fewest {
            bail!("service {service} diverted only {crossed} packets: this traffic ran on the kernel");
        }
    }
    Ok(figures)
}
