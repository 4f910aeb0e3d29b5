//! `cargo xtask bench flood`: round trips on a connection while its host is flooded, on Tickwire
//! and on the kernel.
//!
//! The cost of a flood is the ratio of the medians of its rounds to those without a flood, and to
//! those with as many packets to an absent host. The latter is the control: the flood's sender
//! shares a small machine's processors with the connection.

mod judge;
mod reach;
mod rows;
mod topology;

use super::data_plane::figures::Measured;
use super::data_plane::report;
use super::harness::host_state::Before;
use super::harness::{Conditions, Report, Rounds, selection, verdict};
use crate::prepare;
use crate::progress::Progress;
use anyhow::Result;
use rows::{ROWS, Row};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use topology::Topology;

/// How much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Round trips of a row in each round
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    trips: u32,

    /// Forged packets a second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How the services attach their divert programs
    #[arg(long, value_parser = selection::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if a row could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = selection::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    selection::prepared(options.json.as_deref(), || prepare::lab(|| Ok(())), || measure(options, rows))
}

fn measure(options: &Options, rows: Vec<&'static Row>) -> Result<()> {
    let Options { rounds, trips, rate, .. } = *options;
    let start = Instant::now();
    let mut topology = Topology::new(&options.attach, trips, rate)?;
    let before = Before::now();
    let all_rounds = Rounds { progress: &mut Progress::new(), number: rounds, what: format!("{} rows", rows.len()) };
    let outcomes = all_rounds.measure(rows, |row, _| topology.measure(row).map(Measured::Latency));
    drop(topology);
    let round = format!("{trips} round trips, {rate} forged packets a second");
    // The rows that show the cost of a wakeup are not among these.
    let conditions = Conditions::new(&options.attach, rounds, round, start.elapsed()).watched(before.until_now(None));
    let own = json!({ "trips": trips, "stream_seconds": 0, "rows": report::json(&outcomes) });
    let verdicts = verdict::table(&judge::check(&outcomes));
    let parts = vec![conditions.to_string(), report::table(&outcomes).to_string(), verdicts.to_string()];
    let missing = super::harness::report::missing_rows(&outcomes);
    Report { parts, json: conditions.json(own), missing }.emit(options.json.as_deref())
}
