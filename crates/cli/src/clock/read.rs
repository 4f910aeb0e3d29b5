//! `tickwire clock read` and `convert`: the clock as any program reads it.

use crate::args::{ClockConvert, ClockRead, NOT_SYNCHRONISED};
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::BufRead;
use std::process::ExitCode;
use tickclock::{Clock, Count, Nanos, Reading};

/// A reading as JSON.
#[derive(Serialize)]
struct Shown {
    counter: u64,
    utc_ns: Option<i64>,
    earliest_ns: Option<i64>,
    latest_ns: Option<i64>,
    tai_utc_s: i32,
    error_ns: Option<u64>,
    bound_ns: Option<u64>,
    age_ns: i64,
    status: Vec<&'static str>,
}

impl Shown {
    fn new(count: Count, reading: &Reading) -> Self {
        let known = reading.bound != u64::MAX;
        let (earliest, latest) = reading.interval();
        Self {
            counter: count.0,
            utc_ns: known.then_some(reading.utc().0),
            earliest_ns: known.then_some(earliest.0),
            latest_ns: known.then_some(latest.0),
            tai_utc_s: reading.offset,
            error_ns: known.then_some(reading.error),
            bound_ns: known.then_some(reading.bound),
            age_ns: reading.age,
            status: reading.status.names().collect(),
        }
    }
}

pub(super) fn run(arguments: &ClockRead) -> Result<ExitCode> {
    let clock = Clock::open(arguments.page.path())?;
    let (count, reading) = clock.now_with_counter();
    show(count, &reading, arguments.json)
}

fn show(count: Count, reading: &Reading, json: bool) -> Result<ExitCode> {
    let known = reading.bound != u64::MAX;
    let text = if json {
        serde_json::to_string(&Shown::new(count, reading))? + "\n"
    } else if known {
        let status: Vec<_> = reading.status.names().collect();
        format!(
            "{}  ± {}  ({})\n",
            super::show::utc(reading.utc()),
            super::show::span(reading.bound as f64),
            status.join(", ")
        )
    } else {
        let status: Vec<_> = reading.status.names().collect();
        let why = if status.is_empty() { "no server has answered yet".to_owned() } else { status.join(", ") };
        format!("the time is not known: {why}\n")
    };
    crate::output::print(&text)?;
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::from(NOT_SYNCHRONISED) })
}

/// Converts counter values, from the command line or one a line from standard input.
pub(super) fn convert(arguments: &ClockConvert) -> Result<ExitCode> {
    let clock = Clock::open(arguments.page.path())?;
    let parameters = clock.parameters();
    let mut known = true;
    let mut one = |count: u64| -> Result<bool> {
        let reading = parameters.reading(Count(count));
        known &= reading.bound != u64::MAX;
        let text = if arguments.json {
            serde_json::to_string(&Shown::new(Count(count), &reading))? + "\n"
        } else if reading.bound == u64::MAX {
            format!("{count} unknown\n")
        } else {
            let Nanos(utc) = reading.utc();
            format!("{count} {utc} {}\n", reading.bound)
        };
        crate::output::print(&text)
    };
    if arguments.counters.is_empty() {
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.context("cannot read standard input")?;
            let count =
                line.trim().parse().with_context(|| format!("line {}: {line:?} is no counter value", number + 1))?;
            if !one(count)? {
                break;
            }
        }
    } else {
        for &count in &arguments.counters {
            if !one(count)? {
                break;
            }
        }
    }
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::from(NOT_SYNCHRONISED) })
}
