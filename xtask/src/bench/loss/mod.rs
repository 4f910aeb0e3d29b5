//! `cargo xtask bench loss`: messages over a cable that loses, duplicates and reorders packets,
//! with either end on the kernel or on Tickwire.
//!
//! The cable is the lab's relay: the same for every column, with the same seeds.

mod ends;
mod judge;
mod report;
mod rows;
mod topology;

use super::harness::{Conditions, Outcome, Report, Rounds, selection};
use crate::prepare;
use crate::progress::Progress;
use anyhow::{Context, Result};
use ends::Ends;
use rows::{Cell, ROWS, Row, SIZES};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use topology::{Added, Beside, Measured, Run, Topology};

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
    #[arg(long, value_parser = selection::ATTACH, default_value = "native")]
    attach: String,

    /// What the kernels control congestion with, whatever the machine is set to; ours is cubic, too
    #[arg(long, value_parser = ["cubic", "reno", "bbr"], default_value = "cubic")]
    congestion: String,

    /// Whose processor the cable, which is a program, takes its time from
    #[arg(long, value_name = "END", default_value_t = Beside::Sender)]
    cable_beside: Beside,
}

/// Measures; fails if something could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = selection::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    selection::prepared(options.json.as_deref(), || prepare::lab(|| Ok(())), || measure(options, &rows))
}

fn measure(options: &Options, rows: &[&'static Row]) -> Result<()> {
    let start = Instant::now();
    let mut progress = Progress::new();
    progress.begin("hosts, services and what the relay adds".to_owned());
    let hosts = Ends::ALL
        .map(|ends| Topology::new(ends, &options.attach, &options.congestion, options.cable_beside))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let added = topology::added(&hosts)?;
    progress.keep("done");
    progress.say(&length(options, rows));
    let what = format!("{} rows", rows.len());
    let all_rounds = Rounds { progress: &mut progress, number: options.rounds, what };
    let outcomes = all_rounds.measure(rows::cells(rows), |cell, round| {
        let Options { seconds, messages, .. } = *options;
        let run = Run { cell, seed: options.seed.wrapping_add(round - 1), seconds, messages };
        hosts.iter().find(|hosts| hosts.ends == cell.ends).context("no hosts for these ends")?.measure(&run)
    });
    drop(hosts);
    summary(options, &added, &outcomes, start.elapsed()).emit(options.json.as_deref())
}

fn summary(options: &Options, added: &Added, outcomes: &[Outcome<Cell, Measured>], took: Duration) -> Report {
    let Options { rounds, seconds, messages, seed, congestion, cable_beside, .. } = options;
    let round = format!("{seconds} s or {messages} messages a cell, seeds from {seed}");
    let conditions = Conditions {
        set: vec![format!("the kernels use {congestion}"), format!("the cable beside the {cable_beside}")],
        ..Conditions::new(&options.attach, *rounds, round, took)
    };
    let json = conditions.json(json!({
        "congestion": congestion,
        "cable_beside": cable_beside.to_string(),
        "seconds": seconds,
        "messages": messages,
        "seed": seed,
        "round_trip": { "relay": added.relay, "cable": added.cable },
        "cells": outcomes.iter().map(report::cell_json).collect::<Vec<_>>(),
    }));
    let mut parts = vec![conditions.to_string(), added.to_string()];
    parts.extend(SIZES.map(|size| report::table(outcomes, size).to_string()));
    parts.push(report::verdicts(&judge::check(outcomes)).to_string());
    Report { parts, json, missing: super::harness::report::missing_cells(outcomes) }
}

/// The longest time that it takes, for the user.
fn length(options: &Options, rows: &[&Row]) -> String {
    let runs: f64 = rows.iter().map(|row| f64::from(options.seconds) + row.around_s).sum();
    let cells = (SIZES.len() * Ends::ALL.len()) as f64;
    let minutes = runs * cells * f64::from(options.rounds) / 60.0;
    format!("{} rows in {} rounds take up to {minutes:.0} min", rows.len(), options.rounds)
}
