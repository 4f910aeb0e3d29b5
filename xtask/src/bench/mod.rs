//! `cargo xtask bench`: the rows of the performance promise, all in one run, rivals interleaved in
//! rounds. The subcommands `clock`, `loss`, `flood`, `programs`, `threads` and `scale` are in the
//! modules of these names.
//!
//! A virtual machine's speed drifts by tens of percent within minutes, so a single figure is
//! meaningless. Every row is measured in every round, one after the other, and rows are compared by
//! the medians of their rounds.

mod clock;
mod figures;
mod flood;
mod host_state;
mod loss;
mod programs;
mod report;
mod rivals;
mod rows;
mod scale;
mod targets;
mod threads;
mod topology;

use crate::progress::Progress;
use crate::{prepare, workspace};
use anyhow::{Context, Result, bail};
use figures::{Measured, Outcome};
use host_state::Before;
use report::Conditions;
use rows::ROWS;
use std::path::{Path, PathBuf};
use std::time::Instant;
use topology::Topology;

/// How a service may attach its divert programs.
const ATTACH: [&str; 4] = ["auto", "native", "generic", "tc"];

/// How much, and where to.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    other: Option<Other>,

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
    #[arg(long, value_parser = ATTACH, default_value = "native")]
    attach: String,
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

/// Measures; fails if a row could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.other {
        Some(Other::Clock(options)) => return clock::run(options),
        Some(Other::Loss(options)) => return loss::run(options),
        Some(Other::Flood(options)) => return flood::run(options),
        Some(Other::Programs(options)) => return programs::run(options),
        Some(Other::Threads(options)) => return threads::run(options),
        Some(Other::Scale(options)) => return scale::run(options),
        None => {}
    }
    if prepare::is_done() {
        return measure(options);
    }
    // Checked before the build, which takes minutes.
    will_be_written(options.json.as_deref())?;
    chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    prepare::lab(|| workspace::build_release_example("tickwire-link", "bpf", "floor"))
}

/// The rows whose name contains `only`, or all; without a match, the error lists the names.
fn chosen<'a, R>(rows: &'a [R], name: fn(&R) -> &'static str, only: Option<&str>) -> Result<Vec<&'a R>> {
    let chosen: Vec<&R> = rows.iter().filter(|row| only.is_none_or(|only| name(row).contains(only))).collect();
    if chosen.is_empty() {
        let mut names: Vec<_> = rows.iter().map(name).collect();
        // A measurement may have a row for each stack.
        names.dedup();
        bail!("no row's name contains {:?}; there are: {}", only.unwrap_or_default(), names.join("; "));
    }
    Ok(chosen)
}

/// Checks that a file can be written, before minutes of building and measuring. An existing file
/// keeps its content until then.
fn will_be_written(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let there = path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if !there {
        // It may have been a dangling symbolic link: the link stays.
        let made = path.canonicalize();
        made.and_then(std::fs::remove_file).with_context(|| format!("cannot remove {} again", path.display()))?;
    }
    Ok(())
}

/// Measures every row in every round, one after the other; a row that fails is reported and
/// counted.
fn in_rounds<R>(
    rounds: u32,
    rows: &[&R],
    name: fn(&R) -> &'static str,
    mut measure: impl FnMut(&R) -> Result<Measured>,
) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = rows.iter().map(|row| Outcome::new(name(row))).collect();
    let mut progress = Progress::new();
    for round in 1..=rounds {
        let began = Instant::now();
        for (row, outcome) in rows.iter().zip(&mut outcomes) {
            progress.begin(format!("round {round} of {rounds}: {}", outcome.name));
            match measure(row) {
                Ok(measured) => outcome.rounds.push(measured),
                Err(error) => {
                    tickwire_lab::wait_if_interrupted();
                    progress.keep(&format!("failed: {error:#}"));
                    outcome.failures.push(format!("{error:#}"));
                }
            }
        }
        let seconds = began.elapsed().as_secs();
        progress.sum(&format!("round {round} of {rounds}: {} rows in {seconds} s", rows.len()));
    }
    progress.clear();
    outcomes
}

fn measure(options: &Options) -> Result<()> {
    let start = Instant::now();
    let rows = chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let bed = Topology::new(options.trips, options.seconds, &options.attach)?;
    let attach = bed.attached()?;
    let before = Before::now();
    let outcomes = in_rounds(options.rounds, &rows, |row| row.name, |row| (row.measure)(&bed));
    let conditions = Conditions {
        state: before.until_now(&outcomes),
        machine: tickwire_report::machine(),
        attach,
        rounds: options.rounds,
        trips: options.trips,
        stream_seconds: options.seconds,
        took: start.elapsed(),
    };
    let lane_bytes = bed.lane_bytes();
    drop(bed);
    println!("{conditions}");
    println!("{}", report::table(&outcomes));
    println!("{}", report::verdicts(&targets::check(&outcomes, lane_bytes)));
    if let Some(path) = &options.json {
        let text = report::json(&conditions, &outcomes)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = outcomes.iter().filter(|o| o.rounds.is_empty()).count();
    if failed > 0 {
        bail!("{failed} rows could not be measured");
    }
    Ok(())
}

/// A row's figures of one round as latency, if it is a latency row.
fn as_latency(measured: &Measured) -> Option<&tickwire_bench::latency::Latency> {
    match measured {
        Measured::Latency(latency) => Some(latency),
        Measured::Rate(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_found_before_and_one_that_can_is_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("figures.json");
        will_be_written(Some(&file)).unwrap();
        assert!(!file.exists());
        std::fs::write(&file, "of yesterday").unwrap();
        will_be_written(Some(&file)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "of yesterday");
        let refused = will_be_written(Some(&file.join("below"))).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write ") && refused.contains("below"), "{refused}");
        let (link, behind) = (directory.path().join("link"), directory.path().join("behind"));
        std::os::unix::fs::symlink(&behind, &link).unwrap();
        will_be_written(Some(&link)).unwrap();
        assert!(link.is_symlink() && !behind.exists());
        will_be_written(None).unwrap();
    }
}
