//! `cargo xtask windows suite`: a conformance suite of Winsock. Each case makes calls and prints
//! what a program sees of them, on the kernel's sockets (Wine's) and on the lane. The results are
//! compared case by case. The service's counters prove the lane.
//!
//! | module | purpose |
//! |---|---|
//! | `program/` | the cases, in C |
//! | `peer.py` | the peer, on the kernel of another host |
//! | `build` | building the program |
//! | `groups` | running the cases of a group |
//! | `compare` | what differs, and what is known to differ |
//! | `known` | the differences that have a reason, in `docs/winsock-suite.md` |
//! | `report` | the table, and JSON |

mod build;
mod compare;
mod groups;
pub(in crate::windows) mod known;
mod report;

use super::lab;
use super::programs::Sockets;
use crate::progress::Progress;
use crate::{prepare, workspace};
use anyhow::{Result, ensure};
use compare::{ComparedCase, SuiteVerdict};
use groups::{GroupRun, SuiteHosts};
use std::time::Instant;

/// Which cases.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only cases whose GROUP/NAME contains this, or another one of these
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Show cases that are the same on both, too
    #[arg(long)]
    all: bool,
}

/// What all groups have shown.
struct SuiteResults {
    cases: Vec<ComparedCase>,
    /// Each group's packets on the lane.
    groups: Vec<GroupRun>,
    /// Known differences that there are no longer.
    outdated: Vec<String>,
}

/// Runs the cases both ways; an error if one differs without a known reason, or a known difference
/// is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        workspace::ask_for_root()?;
        lab::build()?;
        build::build()?;
        return workspace::again_as_root(&workspace::target()?.join("debug"));
    }
    let results = results(&options.only)?;
    println!("{}", if options.json { report::json(&results)? } else { report::table(&results, options.all) });
    eprintln!("{}", report::sentence(&results));
    judge(&results)
}

/// Builds the program.
pub(super) fn build_program() -> Result<()> {
    build::build()
}

/// The groups that the lab runs, whose cases take less than a minute together.
const IN_LAB: [&str; 3] = ["datagrams/", "overlapped/", "ports/"];

/// Some groups, as a case of the lab.
pub(super) fn in_lab() -> Result<()> {
    let results = results(&IN_LAB.map(str::to_owned))?;
    judge(&results).inspect_err(|_| println!("{}", report::table(&results, false)))
}

fn judge(results: &SuiteResults) -> Result<()> {
    let worse = results.cases.iter().filter(|case| case.verdict == SuiteVerdict::Differs).count();
    ensure!(worse == 0, "{worse} cases differ without a reason in {}", known::FILE);
    let outdated = results.outdated.join(", ");
    ensure!(outdated.is_empty(), "these cases do not differ, as {} says: {outdated}", known::FILE);
    Ok(())
}

fn results(only: &[String]) -> Result<SuiteResults> {
    let hosts = SuiteHosts::new()?;
    let all = hosts.list()?;
    let known = known::read(&all)?;
    let chosen = groups::chosen(&all, only)?;
    let mut progress = Progress::new();
    let mut results = SuiteResults { cases: Vec::new(), groups: Vec::new(), outdated: Vec::new() };
    for (number, (group, names)) in chosen.iter().enumerate() {
        let begin = Instant::now();
        let step = format!("[{}/{}] {group}, {} cases", number + 1, chosen.len(), names.len());
        progress.begin(format!("{step}: on the kernel's sockets"));
        let (on_kernel, _) = hosts.run(group, names, Sockets::Kernel)?;
        progress.begin(format!("{step}: on the lane"));
        let (on_lane, run) = hosts.run(group, names, Sockets::Lane)?;
        results.cases.extend(compare::compare(group, names, &on_kernel, &on_lane, &known));
        results.groups.extend(run);
        progress.begin(step);
        progress.keep(&format!("{:.1} s", begin.elapsed().as_secs_f64()));
        tickwire_lab::wait_if_interrupted();
    }
    results.outdated = compare::outdated(&results.cases, &known);
    Ok(results)
}
