//! What studies have in common: who watches is told each step, and at the end what was found is a
//! report for a browser, JSON or a table.

use crate::html::Html;
use crate::output;
use crate::usage::Usage;
use anyhow::Result;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;

/// A study that has begun.
pub(crate) struct Study {
    report: Option<Html>,
    json: bool,
}

impl Study {
    /// Of which a report is to be in a file, if one is named, and JSON or else a table is to be
    /// printed.
    pub(crate) fn begin(report: Option<&Path>, json: bool) -> Result<Self> {
        // With the system's reason. Nothing has begun: it is the command line that is wrong.
        let report = report.map(Html::open).transpose().map_err(|error| Usage::new(format!("{error:#}")))?;
        Ok(Self { report, json })
    }

    /// Writes the report, and prints what was found.
    pub(crate) fn end<Found: Serialize>(
        self,
        html: impl FnOnce() -> String,
        json: impl FnOnce() -> Found,
        table: impl FnOnce() -> String,
    ) -> Result<()> {
        // A full disk does not take what was found from who reads standard output.
        let reported = self.report.map_or(Ok(()), |report| report.write(&html()));
        let text = if self.json { serde_json::to_string_pretty(&json())? + "\n" } else { table() };
        output::print(&text)?;
        reported
    }
}

/// The command as it was typed, for the report of a study that is to be repeated; what of it is no
/// text is shown as well as it can be.
pub(crate) fn command() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Says something to who watches: nobody, where standard error is no terminal.
pub(crate) fn tell(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what}");
    }
}

/// Says what is done now.
pub(crate) fn step(what: &str) {
    tell(&format!("{what} ..."));
}
