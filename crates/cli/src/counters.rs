//! `tickwire counters`: the counter study.

use crate::args::Counters;
use crate::output;
use crate::usage::Usage;
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::io::Write;
use std::path::{Path, PathBuf};
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

/// The report's file: opened before the work, so that a wrong name shows at once, and changed only when there is something to write.
struct Html {
    path: PathBuf,
    file: File,
    /// It was not there before, and nothing is in it yet.
    new: bool,
}

impl Html {
    fn open(path: &Path) -> Result<Self> {
        let new = !path.exists();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.into(), file, new })
    }

    fn write(mut self, text: &str) -> Result<()> {
        self.new = false;
        // A pipe or a terminal has no length to set.
        let written = self.file.set_len(0).or(Ok(())).and_then(|()| self.file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Html {
    fn drop(&mut self) {
        if self.new {
            // There was no study.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
