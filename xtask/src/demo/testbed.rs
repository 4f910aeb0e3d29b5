//! The last part of the demo: a data acquisition network on both stacks, and the clock, in one
//! report.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use tickwire_lab::tools;

/// Its name among the measurements.
pub(super) const NAME: &str = "testbed: the pattern of 2015, and the clock";

/// How long the messages of each stack are measured, and also the clock in all.
const SECONDS: &str = "30";

/// Runs `tickwire testbed run`, which prints its own progress and table, and returns the report's
/// path.
pub(super) fn run(kernel_only: bool) -> Result<PathBuf> {
    let tickwire = tools::tickwire()?;
    let report = tickwire.with_file_name("tickwire-demo.html");
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("cannot replace {}", report.display()))?;
    }
    let mut command = Command::new(&tickwire);
    command.args(["testbed", "run", "--duration", SECONDS, &format!("--time={SECONDS}"), "--html"]).arg(&report);
    if kernel_only {
        command.args(["--on", "kernel"]);
    }
    let status = command.status().with_context(|| format!("cannot start {}", tickwire.display()))?;
    tickwire_lab::wait_if_interrupted();
    match status.code() {
        // A missed deadline is a result, not a failure: table and report show it.
        Some(0 | 1) if report.metadata().is_ok_and(|file| file.len() > 0) => Ok(report),
        _ => bail!("`tickwire testbed run` failed ({status})"),
    }
}
