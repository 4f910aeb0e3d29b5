//! `cargo xtask bench threads`: programs of many threads and processes, and of real-time threads,
//! on Tickwire and on the kernel.

mod judge;
mod report;
mod rows;
mod topology;

use super::harness::host_pairs::HostPairs;
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

/// What, how much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Round trips of a row in each round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    trips: u32,

    /// Calls to `send` of a real-time thread in each round
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    sends: u32,

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
    let Options { rounds, trips, sends, .. } = *options;
    let start = Instant::now();
    let topology = Topology { pairs: HostPairs::new(1, &options.attach, "")?, trips, sends };
    let before = Before::now();
    let all_rounds = Rounds { progress: &mut Progress::new(), number: rounds, what: format!("{} rows", rows.len()) };
    let outcomes = all_rounds.measure(rows, |row, _| (row.measure)(&topology, row.ends));
    drop(topology);
    let round = format!("{trips} round trips or {sends} calls");
    // The rows that show the cost of a wakeup are not among these.
    let conditions = Conditions::new(&options.attach, rounds, round, start.elapsed()).watched(before.until_now(None));
    let own = json!({ "trips": trips, "sends": sends, "rows": report::json(&outcomes) });
    let verdicts = verdict::table(&judge::check(&outcomes));
    let parts = vec![conditions.to_string(), report::table(&outcomes).to_string(), verdicts.to_string()];
    let missing = super::harness::report::missing_rows(&outcomes);
    Report { parts, json: conditions.json(own), missing }.emit(options.json.as_deref())
}
