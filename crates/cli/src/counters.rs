//! `tickwire counters`: the counter study.

use crate::args::counters::Counters;
use crate::study::{Study, command, step};
use anyhow::Result;
use std::process::ExitCode;
use std::time::Duration;
use tickwire_clocksources::{CounterOptions, CounterStudyError, html, study, table};
use tickwire_show::usage::UsageError;

pub(crate) fn run(arguments: &Counters) -> Result<ExitCode> {
    let options = CounterOptions {
        reads: arguments.reads,
        watch: Duration::from_secs_f64(arguments.seconds),
        reference: arguments.reference.clone(),
    };
    let begun = Study::begin(arguments.html.as_deref(), arguments.json)?;
    let found = study(&options, step).map_err(|error| match error {
        CounterStudyError::Reference { .. } => UsageError::of("--reference", error).into(),
        error => anyhow::Error::from(error),
    })?;
    begun.end(|| html(&found, &command()), || &found, || table(&found))?;
    Ok(ExitCode::SUCCESS)
}
