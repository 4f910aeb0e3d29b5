//! `cargo xtask bench`: the rows of the performance promise, all in one run, rivals interleaved.
//!
//! | module | purpose |
//! |---|---|
//! | `rows` | what is measured |
//! | `topology` | the hosts, and how a row is measured on them |
//! | `figures` | round trips or a rate |
//! | `judge` | what is promised |
//! | `report` | table and JSON |

pub(super) mod figures;
mod judge;
pub(super) mod report;
mod rows;
mod topology;

use super::harness::host_state::Before;
use super::harness::{Conditions, Report, Rounds, selection, verdict};
use crate::progress::Progress;
use crate::{prepare, workspace};
use anyhow::Result;
use rows::{ROWS, Row};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use topology::Topology;

/// How much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Round trips of a row in each round
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    trips: u32,

    /// Seconds of a stream in each round
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,

    /// Only the rows whose name contains this
    #[arg(long)]
    only: Option<String>,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How the service attaches its divert program
    #[arg(long, value_parser = selection::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if a row could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = selection::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let prepare = || prepare::lab(|| workspace::build_release_example("tickwire-lane-linux", "bpf", "floor"));
    selection::prepared(options.json.as_deref(), prepare, || measure(options, rows))
}

fn measure(options: &Options, rows: Vec<&'static Row>) -> Result<()> {
    let Options { rounds, trips, seconds, .. } = *options;
    let start = Instant::now();
    let topology = Topology::new(trips, seconds, &options.attach)?;
    let attach = topology.attached()?;
    let before = Before::now();
    let all_rounds = Rounds { progress: &mut Progress::new(), number: rounds, what: format!("{} rows", rows.len()) };
    let outcomes = all_rounds.measure(rows, |row, _| (row.measure)(&topology));
    let round = format!("{trips} round trips and {seconds} s of stream");
    let conditions =
        Conditions::new(&attach, rounds, round, start.elapsed()).watched(before.until_now(judge::wakeup_us(&outcomes)));
    let verdicts = judge::check(&outcomes, topology.lane_bytes());
    drop(topology);
    let own = json!({ "trips": trips, "stream_seconds": seconds, "rows": report::json(&outcomes) });
    let parts =
        vec![conditions.to_string(), report::table(&outcomes).to_string(), verdict::table(&verdicts).to_string()];
    let missing = super::harness::report::missing_rows(&outcomes);
    Report { parts, json: conditions.json(own), missing }.emit(options.json.as_deref())
}
