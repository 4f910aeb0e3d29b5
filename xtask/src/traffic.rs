//! What demo and benchmark share: programs on processors of their own, and the proof of what
//! carried the traffic.

use anyhow::{Result, bail};
use std::process::Command;
use tickwire_lab::{Host, Service, tools};

/// Fewer packets than this through a lane are no measurement that lasts for seconds.
pub(crate) const FEWEST: u64 = 100;

/// A program on one processor of a host. `accelerated`: on Tickwire and nowhere else, with these
/// further options of `tickwire run`.
pub(crate) fn command(host: &Host, cpu: &str, accelerated: Option<&[&str]>, program: &[&str]) -> Result<Command> {
    let mut prepared = host.command("taskset");
    prepared.args(["-c", cpu]);
    if let Some(options) = accelerated {
        prepared.arg(tools::tickwire()?).args(["run", "--require"]).args(options).arg("--");
    }
    prepared.args(program);
    Ok(prepared)
}

/// Measures; accelerated figures count only if the counters of these services show that the traffic
/// crossed our stack: at least so many packets of it.
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
