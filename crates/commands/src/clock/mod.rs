//! `tickwire clock`: the command line of the time plane.
//!
//! | module | purpose |
//! |---|---|
//! | `run`, `serve`, `read`, `wait`, `replay` | the subcommands (`convert` is in `read`) |
//! | `show`, `why` | the daemon's report as text; why a time is not known |
//! | `units` | times and spans as text |
//! | `stop` | what ends a daemon that runs in the foreground |

mod read;
mod replay;
mod run;
#[cfg(unix)]
mod serve;
mod show;
mod stop;
mod units;
mod wait;
mod why;

pub use show::{following, servers};
#[cfg(unix)]
pub use stop::until_told;
pub use units::{span, utc};
pub use why::reasons;

use crate::args::clock::{ClockArguments, ClockCommand, PageOption};
use anyhow::{Context, Result, anyhow};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal_size::{Width, terminal_size_of};
use tickclock::OpenError;
use tickwire_timekeeper::{Daemon, Report, TimekeeperConfig};

/// The status of `tickwire clock` if the time is not known.
const NOT_SYNCHRONISED: u8 = 3;

/// Runs the subcommand. Returns the exit status of the program. `prepare` gives a daemon in the
/// foreground what only the program has, before it begins.
///
/// # Errors
/// It could not be done. An error of the command line is a [`tickwire_show::usage::UsageError`].
pub fn run(arguments: ClockArguments, prepare: impl FnOnce(&mut Daemon)) -> Result<ExitCode> {
    match arguments.command {
        ClockCommand::Run(arguments) => run::run(&arguments, prepare),
        #[cfg(unix)]
        ClockCommand::Serve(arguments) => serve::run(&arguments),
        ClockCommand::Status(arguments) => {
            let report = ask(&arguments.page.path())?;
            print(&report, arguments.json, |report, _| show::status(report))
        }
        ClockCommand::Sources(arguments) => {
            let report = ask(&arguments.page.path())?;
            let table = if arguments.verbose { show::statistics } else { show::sources };
            print(&report, arguments.json, table)
        }
        ClockCommand::Read(arguments) => read::run(&arguments),
        ClockCommand::Convert(arguments) => read::convert(&arguments),
        ClockCommand::Wait(arguments) => wait::run(&arguments),
        ClockCommand::Replay(arguments) => replay::run(&arguments),
    }
}

impl PageOption {
    /// The page that was named, or the default one.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.page.clone().unwrap_or_else(tickclock::default_path)
    }

    /// The page that was named on the command line or in the environment, else that of the
    /// configuration.
    fn or(&self, configured: &Path) -> PathBuf {
        let named = self.page.is_some() || std::env::var_os(tickclock::VARIABLE).is_some();
        if !named {
            return configured.into();
        }
        let path = self.path();
        std::path::absolute(&path).unwrap_or(path)
    }
}

/// The `[clock]` table of the file that was named, else of the usual one.
fn configured(file: Option<&Path>) -> Result<TimekeeperConfig> {
    Ok(match file {
        Some(file) => TimekeeperConfig::read(file)?,
        None => TimekeeperConfig::read_default()?,
    })
}

/// What to do if there is no clock.
const NO_CLOCK: &str =
    "start `tickwire service` or `tickwire clock run`, or name its page with --page or in TICKWIRE_CLOCK";

/// Queries the status of a page's daemon.
///
/// # Errors
/// No daemon answers.
pub fn ask(page: &Path) -> Result<Report> {
    let nobody = || format!("no clock daemon answers for {}: {NO_CLOCK}", page.display());
    tickwire_timekeeper::ask(page).with_context(nobody)
}

/// Opens a page to read it.
fn open(page: &Path) -> Result<tickclock::Clock> {
    tickclock::Clock::open(page).map_err(|error| match error {
        // The command line has an option for the page; other programs have only the variable.
        OpenError::Missing(page) => anyhow!("there is no clock at {}: {NO_CLOCK}", page.display()),
        other => other.into(),
    })
}

fn print(report: &Report, json: bool, table: fn(&Report, Option<usize>) -> String) -> Result<ExitCode> {
    let out = std::io::stdout();
    let width = terminal_size_of(&out).filter(|_| out.is_terminal()).map(|(Width(width), _)| width.into());
    let text = if json { serde_json::to_string_pretty(report)? + "\n" } else { table(report, width) };
    tickwire_show::output::print(&text)?;
    Ok(known(report.bound_ns.is_some()))
}

/// The exit status for scripts: whether the time is known.
fn known(known: bool) -> ExitCode {
    if known { ExitCode::SUCCESS } else { ExitCode::from(NOT_SYNCHRONISED) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::clock::MANUAL;
    use serde_json::Value;

    /// A report in which everything is known.
    const FULL: &str = r#"{
    "utc_ns": 1, "status": ["synchronised"], "tai_utc_s": 37, "leap": 1, "leap_at_utc_ns": 2, "error_ns": 1,
    "bound_ns": 2, "counter": "TSC", "nominal_period_ns": 0.5, "period_ns": 0.5, "long_period_ns": 0.5,
    "skew_ppm": 0.1, "stratum": 2, "root_delay_ns": 1, "disruptions": 0, "page": "/page",
    "system_clock": { "steered": true, "why": "x", "ahead_ns": 1.0, "frequency_ppm": 1.0 },
    "sources": [{
        "name": "a", "address": "a", "standing": "followed", "reach": 1, "poll_s": 1.0, "asked": true,
        "last_s": 1.0, "stratum": 1, "offset_ns": 1.0, "error_ns": 1.0, "frequency_ppm": 1.0, "skew_ppm": 1.0,
        "bound_ns": 1.0, "round_trip_ns": 1.0, "noise_ns": 1.0, "asymmetry_ns": 0.0, "root_delay_ns": 1,
        "root_dispersion_ns": 1, "stamps": "kernel", "stamped": { "-": 1 }, "no_card": "x",
        "lacking": { "-": 1 }, "interleaved": true, "used": 1, "refused": { "-": 1 },
        "nts": { "cookies": 8, "agreed": 1, "failed": { "-": 1 } }
    }]
}"#;

    fn keys(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    found.push(key.clone());
                    keys(value, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    /// Whether a section of the manual has this as a word.
    fn names(section: &str, word: &str) -> bool {
        let (_, text) = MANUAL.split_once(section).unwrap();
        let end = text.find("\n\n").unwrap_or(text.len());
        text[..end].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|one| one == word)
    }

    #[test]
    fn the_manual_names_all_that_a_script_is_told() {
        let report: Report = serde_json::from_str(FULL).unwrap();
        let mut all = Vec::new();
        // From the serialised report, so that new keys are not missed here.
        keys(&serde_json::to_value(&report).unwrap(), &mut all);
        let unnamed: Vec<_> = all.iter().filter(|key| *key != "-" && !names("JSON (with --json", key)).collect();
        assert!(all.len() > 40 && unnamed.is_empty(), "{unnamed:?}");
        let metrics = report.metrics();
        let lines = metrics.text().lines();
        let metrics: Vec<_> =
            lines.filter_map(|line| line.strip_prefix("# TYPE tickwire_clock_")?.split(' ').next()).collect();
        let unnamed: Vec<_> = metrics.iter().filter(|name| !names("Metrics for Prometheus:", name)).collect();
        assert!(metrics.len() > 25 && unnamed.is_empty(), "{unnamed:?}");
    }
}
