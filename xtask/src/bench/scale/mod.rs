//! `cargo xtask bench scale`: many connections, how quickly they open, what a program pays at its
//! start, two programs' lanes side by side, an interface with two queues, and what a packet costs
//! in instructions.
//!
//! Instructions are counted once: they are the same in every run.

mod instructions;
mod judge;
mod report;
mod rows;
mod starting;
mod topology;

use super::harness::{Conditions, Outcome, Report, Rounds, selection};
use crate::progress::Progress;
use crate::{deps, prepare, workspace};
use anyhow::Result;
use instructions::Cost;
use rows::{ROWS, Row};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use topology::{LANE_CONNECTIONS, Measured, Topology};

/// What, how much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Messages of a row in each round
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    messages: u32,

    /// Seconds of a stream, and of opening connections, in each round
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How the services attach their divert programs
    #[arg(long, value_parser = selection::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if something could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = selection::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let prepare = || {
        workspace::ask_for_root()?;
        deps::install(&deps::SCALE)?;
        prepare::lab(|| workspace::build_release_example("tickwire-stack", "owned", "tcp_cost"))
    };
    selection::prepared(options.json.as_deref(), prepare, || measure(options, rows))
}

fn measure(options: &Options, rows: Vec<&'static Row>) -> Result<()> {
    let start = Instant::now();
    let mut progress = Progress::new();
    progress.begin("instructions of a packet".to_owned());
    let costs = instructions::measure()?;
    progress.begin("hosts and services".to_owned());
    let topology = Topology::new(options.messages, options.seconds, &options.attach)?;
    let all_rounds = Rounds { progress: &mut progress, number: options.rounds, what: format!("{} rows", rows.len()) };
    let outcomes = all_rounds.measure(rows, |row, _| (row.measure)(&topology, row.ends));
    let lane_bytes = topology.lane_bytes();
    drop(topology);
    summary(options, &outcomes, &costs, lane_bytes, start.elapsed()).emit(options.json.as_deref())
}

/// `lane_bytes`: memory of a lane, 0 if none was seen.
fn summary(
    options: &Options,
    outcomes: &[Outcome<&'static Row, Measured>],
    costs: &[Cost],
    lane_bytes: u64,
    took: Duration,
) -> Report {
    let Options { rounds, messages, seconds, .. } = *options;
    let conditions = Conditions::new(&options.attach, rounds, format!("{messages} messages or {seconds} s"), took);
    let json = conditions.json(json!({
        "messages": messages,
        "seconds": seconds,
        "lane_bytes": lane_bytes,
        "rows": report::rows_json(outcomes),
        "costs": report::costs_json(costs),
    }));
    let lane = (lane_bytes > 0).then(|| {
        let mib = lane_bytes as f64 / f64::from(1 << 20);
        format!("a lane with room for {LANE_CONNECTIONS} connections: {mib:.1} MiB")
    });
    let mut parts = vec![conditions.to_string()];
    parts.extend(lane);
    let verdicts = report::verdicts(&judge::check(outcomes, costs));
    parts.extend([report::table(outcomes), report::costs(costs), verdicts].map(|table| table.to_string()));
    Report { parts, json, missing: super::harness::report::missing_rows(outcomes) }
}
