//! `tickwire counters`.

use super::values::{seconds, whole};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Study the counters of this machine: how quickly they are read, and how evenly they run.
///
/// For every counter that a program can read here it says how long a reading takes, at rest, under
/// load of the processors and under load of the network stack (both made by this command, over the
/// loopback interface), and the Allan deviation beside a reference. Counters that are not here are
/// named. It takes about a minute.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/counters.txt"))]
pub(crate) struct Counters {
    /// Readings of each counter under each load
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = reads)]
    pub(crate) reads: u64,

    /// How long the counters are watched beside the reference
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// The clock that the others are compared with
    #[arg(long, value_name = "NAME", default_value = "CLOCK_MONOTONIC_RAW")]
    pub(crate) reference: String,

    /// Write a report for a browser, with plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON, one document
    #[arg(long)]
    pub(crate) json: bool,
}

fn reads(text: &str) -> Result<u64, String> {
    whole(text, 100, 1_000_000_000)
}
