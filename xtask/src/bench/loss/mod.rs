//! `cargo xtask bench loss`: messages over a cable that loses, duplicates and reorders packets,
//! with either end on the kernel or on Tickwire.
//!
//! The cable is the lab's relay: the same for every column, with the same seeds. Every row is
//! measured in each round, and rows are compared by the ratio of the medians of their rounds.

mod judge;
mod report;
mod rows;
mod topology;

use crate::prepare;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use report::{Conditions, Outcome};
use rows::{ROWS, Row};
use std::path::PathBuf;
use std::time::Instant;
use topology::{Beside, Ends, Run, Topology};

/// What, how much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each, with every size at both ends of each kind
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Seconds of each measurement: no message begins after them
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,

    /// Messages of each measurement, at most
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,

    /// Seed of the first round's chance; each round has another
    #[arg(long, default_value_t = 1)]
    seed: u32,

    /// Write the figures of all rounds here, with what the relay did, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How the services attach their divert programs
    #[arg(long, value_parser = super::ATTACH, default_value = "native")]
    attach: String,

    /// What the kernels control congestion with, whatever the machine is set to; ours is cubic, too
    #[arg(long, value_parser = ["cubic", "reno", "bbr"], default_value = "cubic")]
    congestion: String,

    /// Whose processor the cable, which is a program, takes its time from
    #[arg(long, value_name = "END", default_value_t = Beside::Sender)]
    cable_beside: Beside,
}

/// Bytes of a message.
const SIZES: [u32; 2] = [20_000, 640_000];

/// Measures; fails if something could not be measured, but not if it is slow.
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
    let mut progress = Progress::new();
    progress.begin("hosts, services and what the relay adds".to_owned());
    let beds = Ends::ALL
        .map(|ends| Topology::new(ends, &options.attach, &options.congestion, options.cable_beside))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let added = topology::added(&beds)?;
    progress.keep("done");
    progress.say(&length(options, &rows));

    let mut outcomes: Vec<Outcome> = Vec::new();
    for row in &rows {
        for size in SIZES {
            outcomes.extend(Ends::ALL.map(|ends| Outcome::new(row.name, size, ends)));
        }
    }
    for round in 1..=options.rounds {
        let began = Instant::now();
        let mut places = outcomes.iter_mut();
        for row in &rows {
            for size in SIZES {
                for (bed, outcome) in beds.iter().zip(&mut places) {
                    let what = format!("{}, {} KB, {}", row.name, size / 1000, bed.ends);
                    progress.begin(format!("round {round} of {}: {what}", options.rounds));
                    let Options { seconds, messages, .. } = *options;
                    let seed = options.seed.wrapping_add(round - 1);
                    match bed.measure(&Run { row, size, seed, seconds, messages }) {
                        Ok(measured) => outcome.rounds.push(measured),
                        Err(error) => {
                            tickwire_lab::wait_if_interrupted();
                            progress.keep(&format!("failed: {error:#}"));
                            outcome.failures.push(format!("{error:#}"));
                        }
                    }
                }
            }
        }
        let seconds = began.elapsed().as_secs();
        progress.sum(&format!("round {round} of {}: {} rows in {seconds} s", options.rounds, rows.len()));
    }
    progress.clear();
    drop(beds);
    let conditions = Conditions {
        machine: tickwire_report::machine(),
        attach: options.attach.clone(),
        congestion: options.congestion.clone(),
        beside: options.cable_beside,
        rounds: options.rounds,
        seconds: options.seconds,
        messages: options.messages,
        seed: options.seed,
        added,
        took: start.elapsed(),
    };
    println!("{conditions}");
    for size in SIZES {
        println!("{}", report::table(&outcomes, size));
    }
    println!("{}", report::verdicts(&judge::check(&outcomes)));
    if let Some(path) = &options.json {
        let text = report::json(&conditions, &outcomes)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.rounds.is_empty()).count();
    if failed > 0 {
        bail!("{failed} of {} cells could not be measured", outcomes.len());
    }
    Ok(())
}

/// The longest time that it takes, for the user.
fn length(options: &Options, rows: &[&Row]) -> String {
    let runs: f64 = rows.iter().map(|row| f64::from(options.seconds) + row.around_s).sum();
    let cells = (SIZES.len() * Ends::ALL.len()) as f64;
    let minutes = runs * cells * f64::from(options.rounds) / 60.0;
    format!("{} rows in {} rounds take up to {minutes:.0} min", rows.len(), options.rounds)
}
