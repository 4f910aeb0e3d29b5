//! `cargo xtask windows testbed-node`, which the controller calls: starts a Windows node inside of
//! a host of the lab. The node has the input and output of this process.
//!
//! Wine and the service run on the processors of this process, as the kernel's part of receiving
//! does; the node has its own.

use crate::windows::build::Profile;
use crate::windows::service_log;
use crate::windows::wine;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{Process, tools};

/// Within this the service starts, and ends a lane.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The file for what the lane has carried (`tickwire_testbed::controller::LANE`).
const LANE: &str = "lane.json";

/// What the controller asks for.
#[derive(Debug, clap::Args)]
pub(crate) struct StarterOptions {
    /// The host's directory in the lab
    #[arg(long)]
    directory: PathBuf,

    /// The processors of the node
    #[arg(long)]
    processors: Option<String>,

    /// On the lane
    #[arg(long)]
    lane: bool,

    /// Programs that are built for release
    #[arg(long)]
    release: bool,
}

/// Starts a node, and returns when it has ended.
pub(in crate::windows) fn run(options: &StarterOptions) -> Result<()> {
    let profile = Profile::of(options.release);
    let wine = WineHost::here(&options.directory)?;
    let service = if options.lane { Some(service(&wine, profile)?) } else { None };
    let status = node(&wine, options, profile)?.status().context("cannot run Wine")?;
    ensure!(status.success(), "the node has failed ({status})");
    if let Some(service) = service {
        tools::until("the lane ends", TIMEOUT, || service_log::has_ended(&service.stderr()))?;
        let proof = service_log::proof(&service.stderr())?;
        fs::write(options.directory.join(LANE), proof.to_string()).context("cannot write what the lane has carried")?;
    }
    Ok(())
}

fn service(wine: &WineHost, profile: Profile) -> Result<Process> {
    let mut command = wine.command(&profile.windows("tickwire.exe")?);
    // It logs each claim.
    command.args(["service", "--interface", "eth0", "--driver", "lab"]).env("RUST_LOG", "debug");
    let mut service = Process::spawn(command)?;
    service.wait_for("the service runs", TIMEOUT)?;
    Ok(service)
}

fn node(wine: &WineHost, options: &StarterOptions, profile: Profile) -> Result<Command> {
    let tickwire = profile.windows("tickwire.exe")?;
    let mut command = match &options.processors {
        Some(processors) => wine.command_on(processors, &tickwire),
        None => wine.command(&tickwire),
    };
    if options.lane {
        command.args(["run", "--require", "--", &wine::windows_path(&tickwire)]);
    }
    command.args(["testbed", "node"]);
    Ok(command)
}
