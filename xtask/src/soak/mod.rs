//! `cargo xtask soak`: endurance, in simulation and in the lab.

mod lab;
mod simulation;

use anyhow::Result;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where, and for how long.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<SoakCommand>,

    #[command(flatten)]
    simulation: simulation::Lives,
}

#[derive(Debug, clap::Subcommand)]
enum SoakCommand {
    /// Let real programs talk in the lab while things happen to their hosts, and look for anything
    /// that breaks or stays
    Lab(lab::Options),
}

/// Runs the requested test.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.command {
        None => simulation::run(&options.simulation),
        Some(SoakCommand::Lab(options)) => lab::run(options),
    }
}

/// The default first seed: the time of day, so that every run differs.
fn seed_of_today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() * 1_000_000)
}
