//! `tickwire clock`: the time plane, for a person.

mod read;
mod run;
mod show;
mod wait;

use crate::args::{Clock, ClockCommand, Page};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tickwire_timekeeper::Report;

/// Does what was asked for.
pub(crate) fn run(arguments: Clock) -> Result<ExitCode> {
    match arguments.command {
        ClockCommand::Run(arguments) => run::run(&arguments),
        ClockCommand::Status(arguments) => {
            let report = ask(&arguments.page.path())?;
            print(&report, arguments.json, show::status)
        }
        ClockCommand::Sources(arguments) => {
            let report = ask(&arguments.page.path())?;
            print(&report, arguments.json, show::sources)
        }
        ClockCommand::Read(arguments) => read::run(&arguments),
        ClockCommand::Convert(arguments) => read::convert(&arguments),
        ClockCommand::Wait(arguments) => wait::run(&arguments),
    }
}

impl Page {
    /// The page that was named, else the usual one.
    pub(crate) fn path(&self) -> PathBuf {
        self.page.clone().unwrap_or_else(tickclock::default_path)
    }
}

fn ask(page: &Path) -> Result<Report> {
    tickwire_timekeeper::ask(page).with_context(|| {
        format!(
            "no clock daemon answers for {} (start `tickwire clock run`, or name its page with --page or in TICKWIRE_CLOCK)",
            page.display()
        )
    })
}

fn print(report: &Report, json: bool, table: fn(&Report) -> String) -> Result<ExitCode> {
    let text = if json { serde_json::to_string_pretty(report)? + "\n" } else { table(report) };
    crate::output::print(&text)?;
    // As `tickwire clock wait`: a script asks whether the time is known.
    let known = report.bound_ns.is_some();
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::from(crate::args::NOT_SYNCHRONISED) })
}
