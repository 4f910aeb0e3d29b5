//! `tickwire counters`: the counter study.

use crate::args::Counters;
use crate::output;
use crate::usage::Usage;
use anyhow::{Context, Result};
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
    // Before the work, not after it.
    let file = arguments
        .html
        .as_ref()
        .map(|path| std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let file = file.transpose()?;
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
    if let (Some(mut file), Some(path)) = (file, &arguments.html) {
        let command: Vec<String> = std::env::args().collect();
        std::io::Write::write_all(&mut file, html(&found, &command).as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if arguments.json { serde_json::to_string_pretty(&found)? + "\n" } else { table(&found) };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
