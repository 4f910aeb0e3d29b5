//! The endurance test in simulation, for a given time. Unless a seed is given, each run has new
//! seeds, so that it explores other lives. A failure names its seed.

use super::seed_of_today;
use crate::workspace;
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How long, and which lives.
#[derive(Debug, clap::Args)]
pub(crate) struct Lives {
    /// Seconds; the life that is under way then is lived to its end
    #[arg(long, default_value_t = 600)]
    seconds: u32,

    /// The first seed; the lives that follow have the next ones. Without it, the time of day
    #[arg(long)]
    seed: Option<u64>,

    /// How many things the programs of a life do
    #[arg(long, default_value_t = 3000)]
    actions: u32,
}

/// Runs lives; fails at the first that breaks anything. Replaces this process by the program that
/// runs them, so that a signal to this process ends it.
pub(crate) fn run(options: &Lives) -> Result<()> {
    let seed = options.seed.unwrap_or_else(seed_of_today);
    eprintln!("building ...");
    workspace::build_release_example("tickwire-sim", "", "soak")?;
    let program = workspace::target()?.join("release/examples/soak");
    println!("lives from seed {seed} on, for {} s", options.seconds);
    let [seconds, seed, actions] = [u64::from(options.seconds), seed, options.actions.into()].map(|n| n.to_string());
    let error = Command::new(program).args([seconds, seed, actions]).exec();
    Err(error).context("cannot run the soak")
}
