//! `cargo xtask windows demo`: Windows programs on the kernel's sockets and on Tickwire in turn, on
//! a fresh machine.

use super::programs::cases::{CASES, ProgramCase};
use super::programs::judge::CaseResult;
use super::programs::{self, report};
use crate::prepare;
use anyhow::{Result, ensure};
use std::time::Instant;

/// The programs of the demo: small to get, and on the lane.
const PROGRAMS: [&str; 3] = ["plain.exe", "caget.exe", "softIoc.exe"];

/// Which programs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the lab's own program, for which nothing is downloaded
    #[arg(long)]
    no_downloads: bool,
}

/// Runs the demo; an error if a program failed, or was not on the lane.
pub(crate) fn run(options: &Options) -> Result<()> {
    let names = if options.no_downloads { &PROGRAMS[..1] } else { &PROGRAMS[..] };
    let is_chosen = |case: &&'static ProgramCase| names.iter().any(|name| case.name.starts_with(name));
    let chosen: Vec<_> = CASES.iter().filter(is_chosen).collect();
    if !prepare::is_done() {
        eprintln!("the first time, building and getting programs takes some minutes");
        return programs::prepare(&chosen);
    }
    eprintln!(
        "two hosts (network namespaces), one cable; Windows programs under Wine on one, a Linux kernel on the other"
    );
    let begin = Instant::now();
    let results = programs::results(&chosen)?;
    println!("{}", report::table(&results));
    println!(
        "Round trips in microseconds, the smaller the better; Mbit/s, the larger the better; ratio: how many times better\n\
         than the kernel's sockets. Packets are those that crossed the lane, as the service has counted them."
    );
    eprintln!("took {:.0} s", begin.elapsed().as_secs_f64());
    let is_wrong = |result: &&CaseResult| match result {
        CaseResult::Skipped { .. } => false,
        CaseResult::Ran { .. } => !result.is_on_lane(),
    };
    let wrong = results.iter().filter(is_wrong).count();
    ensure!(wrong == 0, "{wrong} of the programs failed, or were not on the lane (see above)");
    Ok(())
}
