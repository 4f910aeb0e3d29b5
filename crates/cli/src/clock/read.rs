//! `tickwire clock read` and `convert`: the clock as any program reads it.

use crate::args::{ClockConvert, ClockRead, NOT_SYNCHRONISED};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::BufRead;
use std::process::ExitCode;
use tickclock::{Clock, Count, Nanos, Reading, Status};

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
    let clock = super::open(&arguments.page.path())?;
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

/// The figures do not show that nobody keeps the clock: a count from before has the small bound of then.
fn warn(clock: &Clock) {
    let now = clock.now();
    if now.status.contains(Status::RETIRED) {
        eprintln!("tickwire: another page has taken this one's place: its values are of a daemon that is gone");
    } else if now.status.contains(Status::STALE) {
        eprintln!("tickwire: the clock is stale: no daemon keeps it any more, and the bounds of later counts grow");
    }
}

/// Converts counter values, from the command line or one a line from standard input.
pub(super) fn convert(arguments: &ClockConvert) -> Result<ExitCode> {
    let clock = super::open(&arguments.page.path())?;
    let parameters = clock.parameters();
    warn(&clock);
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
            let text = line.trim();
            if text.is_empty() {
                continue;
            }
            let Ok(count) = text.parse() else {
                bail!(
                    "line {}: {text:?} is no value of the counter: expected a whole number from 0 to {}",
                    number + 1,
                    u64::MAX
                );
            };
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
