//! `tickwire clock read` and `convert`: the clock as any program reads it.

use super::why;
use crate::args::clock::{ClockConvert, ClockRead};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::BufRead;
use std::process::ExitCode;
use tickclock::{Clock, Count, Reading, Status};

/// A reading as JSON; unknown values are null.
#[derive(Serialize)]
struct Shown {
    counter: u64,
    utc_ns: Option<i64>,
    earliest_ns: Option<i64>,
    latest_ns: Option<i64>,
    tai_utc_s: Option<i32>,
    error_ns: Option<u64>,
    bound_ns: Option<u64>,
    age_ns: Option<i64>,
    disruptions: u32,
    status: Vec<&'static str>,
}

impl Shown {
    fn new(count: Count, reading: &Reading) -> Self {
        let known = reading.is_known();
        let (earliest, latest) = reading.interval();
        Self {
            counter: count.0,
            utc_ns: known.then_some(reading.utc().0),
            earliest_ns: known.then_some(earliest.0),
            latest_ns: known.then_some(latest.0),
            tai_utc_s: reading.status.contains(Status::TAI_KNOWN).then_some(reading.offset),
            error_ns: known.then_some(reading.error),
            bound_ns: known.then_some(reading.bound),
            age_ns: Some(reading.age).filter(|age| !matches!(*age, i64::MIN | i64::MAX)),
            disruptions: reading.disruptions,
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
    let status: Vec<_> = reading.status.names().collect();
    let text = if json {
        serde_json::to_string(&Shown::new(count, reading))? + "\n"
    } else if reading.is_known() {
        let (time, bound) = (super::units::utc(reading.utc()), super::units::span(reading.bound as f64));
        format!("{time}  ± {bound}  ({})\n", status.join(", "))
    } else {
        format!("the time is not known: {}\n", why::untold(reading))
    };
    tickwire_show::output::print(&text)?;
    Ok(super::known(reading.is_known()))
}

/// Warns if no daemon keeps the clock. The figures do not show that: an earlier count has the small
/// bound of its time.
fn warn(clock: &Clock) {
    let now = clock.now();
    if now.status.contains(Status::RETIRED) {
        eprintln!("tickwire: {}: its values are of a daemon that is gone", why::REPLACED);
    } else if now.status.contains(Status::STALE) {
        eprintln!("tickwire: {}: its page is stale, and the bounds of later counts grow", why::STALE);
    }
}

/// Converts counter values, from the command line or one a line from standard input. Line n of the
/// output is that of line n of the input.
pub(super) fn convert(arguments: &ClockConvert) -> Result<ExitCode> {
    let clock = super::open(&arguments.page.path())?;
    let parameters = clock.parameters();
    let now_known = parameters.reading_near(parameters.at).is_known();
    if now_known {
        warn(&clock);
    }
    let mut untold = None;
    let mut one = |count: u64| -> Result<bool> {
        let reading = clock.at_by(&parameters, Count(count));
        if !reading.is_known() {
            untold.get_or_insert((Count(count), reading));
        }
        let text = if arguments.json {
            serde_json::to_string(&Shown::new(Count(count), &reading))? + "\n"
        } else if reading.is_known() {
            format!("{count} {} {}\n", reading.utc().0, reading.bound)
        } else {
            format!("{count} unknown\n")
        };
        tickwire_show::output::print(&text)
    };
    if arguments.counters.is_empty() {
        for (number, line) in std::io::stdin().lock().lines().enumerate() {
            let line = line.with_context(|| format!("cannot read line {} of standard input", number + 1))?;
            let text = line.trim();
            let more = if text.is_empty() {
                tickwire_show::output::print(if arguments.json { "null\n" } else { "\n" })?
            } else if let Ok(count) = text.parse() {
                one(count)?
            } else {
                bail!(
                    "line {}: {text:?} is no value of the counter: expected a whole number from 0 to {}",
                    number + 1,
                    u64::MAX
                );
            };
            if !more {
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
    match untold {
        Some((count, reading)) if now_known => {
            eprintln!("tickwire: {}", why::untold_at(count, &reading, clock.counter()));
        }
        Some(_) => eprintln!("tickwire: the time is not known: {}", why::untold(&clock.now())),
        None => {}
    }
    Ok(super::known(untold.is_none()))
}
