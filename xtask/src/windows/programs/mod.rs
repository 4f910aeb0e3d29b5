//! `cargo xtask windows programs`: Windows programs of others, on the kernel's sockets and on the
//! lane in turn. The service's counters prove the lane.
//!
//! | module | purpose |
//! |---|---|
//! | `package` | getting the programs |
//! | `cases` | what they do, and what is checked |
//! | `hosts` | the hosts of a case, and its programs |
//! | `lane_log` | what the service's log says of lanes |
//! | `outcome`, `judge` | where a program's packets went |
//! | `report` | the table, and JSON |

pub(in crate::windows) mod cases;
mod hosts;
pub(in crate::windows) mod judge;
mod lane_log;
pub(in crate::windows) mod outcome;
mod package;
pub(in crate::windows) mod report;

use super::lab;
use crate::progress::Progress;
use crate::{deps, prepare, workspace};
use anyhow::{Result, bail, ensure};
use cases::{CASES, ProgramCase};
pub(in crate::windows) use hosts::{ProgramHosts, ProgramRun, Sockets};
use judge::CaseResult;
pub(in crate::windows) use lane_log::LoggedLane;
pub(in crate::windows) use package::unpack_debian_source;
use std::collections::BTreeSet;
use std::time::Instant;

/// Which programs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only cases whose name contains this
    filter: Option<String>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Leave out cases that would download more than this many megabytes each
    #[arg(long, value_name = "MB")]
    most: Option<u32>,
}

/// Gets the programs, and runs the cases; an error if one fails. A case whose program cannot be had
/// is skipped, with the reason.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = chosen(options)?;
    if !prepare::is_done() {
        return prepare(&chosen);
    }
    let results = results(&chosen)?;
    println!("{}", if options.json { report::json(&results)? } else { report::table(&results) });
    let count = |is: fn(&CaseResult) -> bool| results.iter().filter(|result| is(result)).count();
    let (failed, on_lane) = (count(CaseResult::has_failed), count(CaseResult::is_on_lane));
    eprintln!("{on_lane} of {} cases on the lane, {failed} failed", results.len());
    ensure!(failed == 0, "{failed} of the cases failed (see above)");
    Ok(())
}

fn chosen(options: &Options) -> Result<Vec<&'static ProgramCase>> {
    let filter = options.filter.as_deref().unwrap_or_default();
    let is_small = |case: &ProgramCase| {
        options.most.is_none_or(|most| case.packages.iter().all(|package| package.megabytes <= most))
    };
    let chosen: Vec<_> = CASES.iter().filter(|case| case.name.contains(filter) && is_small(case)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        bail!("no case is left; there are: {}", names.join("; "));
    }
    Ok(chosen)
}

/// Gets and builds what the cases need, and becomes root. Returns only on failure.
pub(in crate::windows) fn prepare(cases: &[&'static ProgramCase]) -> Result<()> {
    workspace::ask_for_root()?;
    lab::build()?;
    // A package of Debian that cannot be had is a reason to skip the cases that need it.
    let mut tried = BTreeSet::new();
    for case in cases {
        if let Err(error) = deps::install(case.needs) {
            eprintln!("{error:#}");
        }
        let mut packages = case.packages.iter().filter(|package| tried.insert(package.name));
        packages.try_for_each(package::WindowsPackage::install)?;
    }
    workspace::again_as_root(&workspace::target()?.join("debug"))
}

/// Runs cases one after the other, with their progress on standard error.
pub(in crate::windows) fn results(cases: &[&'static ProgramCase]) -> Result<Vec<CaseResult>> {
    let mut progress = Progress::new();
    let mut results = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let begin = Instant::now();
        let name = format!("[{}/{}] {}", number + 1, cases.len(), case.name);
        progress.begin(format!("{name}: starting Wine"));
        let result = judge::judge(case, |sockets| {
            let place = if sockets == Sockets::Kernel { "on the kernel's sockets" } else { "on Tickwire" };
            progress.begin(format!("{name}: {place}"));
        })?;
        progress.begin(name);
        let outcome = match &result {
            CaseResult::Skipped { .. } => "skipped",
            CaseResult::Ran { lane, .. } => lane.word(),
        };
        progress.keep(&format!("{outcome} ({:.1} s)", begin.elapsed().as_secs_f64()));
        results.push(result);
    }
    Ok(results)
}
