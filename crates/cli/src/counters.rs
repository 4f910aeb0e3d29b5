//! `tickwire counters`: the counter study.

use crate::args::counters::Counters;
use crate::html::Html;
use crate::output;
use crate::usage::Usage;
use anyhow::Result;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tickwire_counters::{Options, StudyError, html, study, table};

pub(crate) fn run(arguments: &Counters) -> Result<ExitCode> {
    let options = Options {
        reads: arguments.reads,
        watch: Duration::from_secs_f64(arguments.seconds),
        reference: arguments.reference.clone(),
    };
    let report = arguments.html.as_deref().map(Html::open).transpose()?;
    let shown = std::io::stderr().is_terminal();
    let found = study(&options, |what| {
        if shown {
            eprintln!("{what} ...");
        }
    });
    let found = match found {
        Err(error @ StudyError::Reference { .. }) => return Err(Usage::of("--reference", error).into()),
        found => found?,
    };
    if let Some(report) = report {
        let command: Vec<String> = std::env::args().collect();
        report.write(&html(&found, &command))?;
    }
    let text = if arguments.json { serde_json::to_string_pretty(&found)? + "\n" } else { table(&found) };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
