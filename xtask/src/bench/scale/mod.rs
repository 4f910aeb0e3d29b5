//! `cargo xtask bench scale`: many connections, how quickly they open, two programs' lanes side by
//! side, an interface with two queues, and what a packet costs in instructions.
//!
//! As in the other measurements, every row is measured in each round, and rows are compared by the
//! ratio of the medians of their rounds. Instructions are counted once: they are the same in every
//! run.

mod instructions;
mod judge;
mod report;
mod rows;
mod topology;

use crate::progress::Progress;
use crate::{deps, prepare, workspace};
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
    #[arg(long, value_parser = super::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if something could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    if prepare::is_done() {
        return measure(options);
    }
    // Checked before the build, which takes minutes.
    super::will_be_written(options.json.as_deref())?;
    super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    workspace::ask_for_root()?;
    deps::install(&deps::SCALE)?;
    prepare::lab(|| workspace::build_release_example("tickwire-stack", "owned", "tcp_cost"))
}

fn measure(options: &Options) -> Result<()> {
    let start = Instant::now();
    let rows = super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let mut progress = Progress::new();
    progress.begin("instructions of a packet".to_owned());
    let costs = instructions::measure()?;
    progress.begin("hosts and services".to_owned());
    let bed = Topology::new(options.messages, options.seconds, &options.attach)?;
    let mut outcomes: Vec<Outcome> = rows.iter().copied().map(Outcome::new).collect();
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
    let lane_bytes = bed.lane_bytes();
    drop(bed);
    let conditions = Conditions {
        machine: tickwire_report::machine(),
        attach: options.attach.clone(),
        rounds: options.rounds,
        messages: options.messages,
        seconds: options.seconds,
        lane_bytes,
        took: start.elapsed(),
    };
    print!("{conditions}");
    println!("{}", report::table(&outcomes));
    println!("{}", report::costs(&costs));
    println!("{}", report::verdicts(&judge::check(&outcomes, &costs)));
    if let Some(path) = &options.json {
        let text = report::json(&conditions, &outcomes, &costs)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.rounds.is_empty()).count();
    if failed > 0 {
        bail!("{failed} rows could not be measured");
    }
    Ok(())
}
