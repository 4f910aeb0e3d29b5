//! What studies have in common: progress for a user at a terminal, and the result as a report for a
//! browser, JSON or a table.

use crate::html::Html;
use anyhow::Result;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use tickwire_show::output;
use tickwire_show::usage::UsageError;

/// A study that has begun.
pub(crate) struct Study {
    report: Option<Html>,
    json: bool,
}

impl Study {
    /// `report`: the file for the HTML report, if any. `json`: print JSON instead of a table.
    pub(crate) fn begin(report: Option<&Path>, json: bool) -> Result<Self> {
        // With the system's reason. Nothing has begun yet, so this is an error of the command line.
        let report = report.map(Html::open).transpose().map_err(|error| UsageError::new(format!("{error:#}")))?;
        Ok(Self { report, json })
    }

    /// Writes the report, and prints what was found.
    pub(crate) fn end<Results: Serialize>(
        self,
        html: impl FnOnce() -> String,
        json: impl FnOnce() -> Results,
        table: impl FnOnce() -> String,
    ) -> Result<()> {
        // Standard output gets the result even if the report cannot be written (a full disk).
        let reported = self.report.map_or(Ok(()), |report| report.write(&html()));
        let text = if self.json { serde_json::to_string_pretty(&json())? + "\n" } else { table() };
        output::print(&text)?;
        reported
    }
}

/// The command line, for the report, so that the study can be repeated. Invalid UTF-8 in it is
/// replaced.
pub(crate) fn command() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Prints progress for the user; nothing if standard error is no terminal.
pub(crate) fn tell(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what}");
    }
}

/// Prints the step that begins now.
pub(crate) fn step(what: &str) {
    tell(&format!("{what} ..."));
}
