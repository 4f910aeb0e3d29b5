//! `cargo xtask bench threads`: programs of many threads and processes, and of real-time threads,
//! on Tickwire and on the kernel.
//!
//! Every row is measured in each round, and rows are compared by the ratio of the medians of their
//! rounds.

mod judge;
mod report;
mod rows;
mod topology;

use super::host_state::Before;
use super::rivals::Rivals;
use crate::prepare;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use report::{Conditions, Outcome};
use rows::ROWS;
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
    #[arg(long, value_parser = super::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if a row could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    if prepare::is_done() {
        return measure(options);
    }
    // Checked before the build, which takes minutes.
    super::will_be_written(options.json.as_deref())?;
    super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    prepare::lab(|| Ok(()))
}

fn measure(options: &Options) -> Result<()> {
    let start = Instant::now();
    let rows = super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let bed = Topology { rivals: Rivals::new(1, &options.attach, "")?, trips: options.trips, sends: options.sends };
    let before = Before::now();
    let mut outcomes: Vec<Outcome> = rows.iter().copied().map(Outcome::new).collect();
    let mut progress = Progress::new();
    for round in 1..=options.rounds {
        let began = Instant::now();
        for (row, outcome) in rows.iter().zip(&mut outcomes) {
            progress.begin(format!("round {round} of {}: {}, {}", options.rounds, row.name, row.ends));
            match (row.measure)(&bed, row.ends) {
                Ok(measured) => outcome.rounds.push(measured),
                Err(error) => {
                    tickwire_lab::wait_if_interrupted();
                    progress.keep(&format!("failed: {error:#}"));
                    outcome.failures.push(format!("{error:#}"));
                }
            }
        }
        let seconds = began.elapsed().as_secs();
        progress.sum(&format!("round {round} of {}: {} rows in {seconds} s", options.rounds, rows.len()));
    }
    progress.clear();
    drop(bed);
    let conditions = Conditions {
        state: before.until_now(&[]),
        machine: tickwire_report::machine(),
        attach: options.attach.clone(),
        rounds: options.rounds,
        trips: options.trips,
        sends: options.sends,
        took: start.elapsed(),
    };
    println!("{conditions}");
    println!("{}", report::table(&outcomes));
    println!("{}", super::report::verdicts(&judge::check(&outcomes)));
    if let Some(path) = &options.json {
        let text = report::json(&conditions, &outcomes)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.rounds.is_empty()).count();
    if failed > 0 {
        bail!("{failed} rows could not be measured");
    }
    Ok(())
}
