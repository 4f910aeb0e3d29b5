//! `cargo xtask windows testbed`: the pattern of 2015 with its consumer on Windows, once on the
//! kernel's sockets and once on the lane. 12 producers run on Linux.
//!
//! xtask does not contain the testbed's controller, which needs installed tools to build. So the
//! controller is a program (the example `other_nodes` of `tickwire-testbed`), and it has this
//! program start Windows nodes.
//!
//! | module | purpose |
//! |---|---|
//! | `build` | the programs |
//! | `starter` | starts a Windows node inside of a host of the lab, for the controller |
//! | `wakeup` | what a wakeup costs on this machine |

mod build;
mod starter;
mod wakeup;

pub(super) use build::build_for_linux;
pub(super) use starter::StarterOptions;
pub(super) use starter::run as start_node;
pub(super) use wakeup::cost_us as wakeup_cost_us;

use super::build::Profile;
use super::{lab_card, wine};
use crate::bench::harness::host_state::Before;
use crate::{deps, prepare, workspace};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// How long, and where the results go.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of the measurement on each of both
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    duration: f64,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write the report as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Measures, after building what is needed and becoming root.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        return prepare();
    }
    let before = Before::now();
    let wakeup_us = wakeup_cost_us().context("the cost of a wakeup")?;
    let mut controller = controller(Profile::Release)?;
    controller.args(["--duration", &options.duration.to_string()]);
    controller.args(["--command", &format!("cargo xtask windows testbed --duration {}", options.duration)]);
    controller.args(options.json.then_some("--json"));
    if let Some(page) = &options.html {
        controller.arg("--html").arg(page);
    }
    let status = starts_nodes(&mut controller, Profile::Release)?.status().context("cannot run the controller")?;
    tickwire_lab::wait_if_interrupted();
    // Standard output may be JSON.
    eprintln!("{}", before.until_now(Some(wakeup_us)));
    match status.code() {
        // A missed deadline is a result: the report shows it.
        Some(0 | 1) => Ok(()),
        _ => bail!("the controller failed ({status})"),
    }
}

/// The controller; the starter is still missing.
pub(super) fn controller(profile: Profile) -> Result<Command> {
    let mut controller = Command::new(build::controller()?);
    controller.arg("--node").arg(build::linux_node(profile)?);
    controller.args(["--machine", &machine()?]);
    controller.args(["--clock", "the consumer reads it by Windows' performance counter, in steps of 100 ns"]);
    Ok(controller)
}

/// What Windows nodes run on, for the report.
fn machine() -> Result<String> {
    Ok(format!(
        "the consumer is a Windows program, under {}; datagrams to groups reach it by the kernel in both runs",
        wine::version()?
    ))
}

/// The controller has this program start Windows nodes. To be called when it has all options.
pub(super) fn starts_nodes(controller: &mut Command, profile: Profile) -> Result<&mut Command> {
    let me = std::env::current_exe().context("cannot find the running program")?;
    controller.arg("--").arg(me).args(["windows", "testbed-node"]);
    Ok(controller.args(profile.is_release().then_some("--release")))
}

/// Returns only on failure.
fn prepare() -> Result<()> {
    workspace::ask_for_root()?;
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_LAB)?;
    deps::install(&deps::LAB)?;
    super::add_target()?;
    wine::make()?;
    lab_card::build()?;
    build::build(Profile::Release)?;
    workspace::run(workspace::cargo().args(["build", "--release", "--locked", "--package", "tickwire-bench"]))?;
    workspace::again_as_root(&workspace::target()?.join("release"))
}
