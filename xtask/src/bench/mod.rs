//! `cargo xtask bench`: a measurement for each subcommand, and without one the rows of the
//! performance promise (`data_plane`). `harness` has what they have in common.

mod clock;
mod data_plane;
mod flood;
pub(crate) mod harness;
mod loss;
mod programs;
mod scale;
mod threads;

use anyhow::Result;

/// How much, and where to.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
// The group would have the name of the one inside, which is that of both types.
#[group(skip)]
pub(crate) struct Options {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    data_plane: data_plane::Options,
}

/// Other measurements than those of the data plane.
#[derive(Debug, clap::Subcommand)]
enum Other {
    /// Measure clocks against a known truth
    Clock(clock::Options),
    /// Measure messages over a cable that loses, doubles and reorders
    Loss(loss::Options),
    /// Measure round trips on a connection while its host is flooded
    Flood(flood::Options),
    /// Measure real programs, either end or both on Tickwire
    Programs(programs::Options),
    /// Measure programs of many threads and processes, and of real-time threads
    Threads(threads::Options),
    /// Measure many connections, two programs side by side, two queues, and instructions
    Scale(scale::Options),
}

/// Measures; fails if something could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.other {
        Some(Other::Clock(options)) => clock::run(options),
        Some(Other::Loss(options)) => loss::run(options),
        Some(Other::Flood(options)) => flood::run(options),
        Some(Other::Programs(options)) => programs::run(options),
        Some(Other::Threads(options)) => threads::run(options),
        Some(Other::Scale(options)) => scale::run(options),
        None => data_plane::run(&options.data_plane),
    }
}
