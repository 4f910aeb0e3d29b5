//! `cargo xtask bench programs`: real third-party programs on the kernel and on Tickwire, one end
//! or both.
//!
//! Each program is measured in all four ways in every round, one after the other, and compared by
//! the medians of its rounds. A measurement on Tickwire counts only if the lanes' counters show
//! that its traffic crossed the stack.
//!
//! | module | purpose |
//! |---|---|
//! | `catalog`, `family` | the programs: installation, start, and parsers of their output |
//! | `install` | installs them, and builds the programs that drive them (`xtask/programs`) |
//! | `ways`, `topology` | the four ways, and the hosts of each |
//! | `launch`, `start`, `run` | starting the two programs of a measurement, and ending them |
//! | `proof` | whether the traffic crossed the stack |
//! | `figure`, `trips`, `outcome` | the figures |
//! | `conditions`, `promises`, `report` | the output |

mod catalog;
mod conditions;
mod family;
mod figure;
mod install;
mod launch;
mod outcome;
mod promises;
mod proof;
mod report;
mod run;
mod start;
mod topology;
mod trips;
mod ways;

use crate::progress::Progress;
use crate::{deps, prepare, workspace};
use anyhow::{Context, Result, bail};
use catalog::Program;
use conditions::{Conditions, Watch};
use outcome::Outcome;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use topology::Topology;
use ways::{End, Way};

/// How much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the programs whose name contains this, in any case
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Rounds; every program is measured once in each way in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// List the programs, and what is installed for them
    #[arg(long)]
    list: bool,

    /// Give client and server a processor of their own
    #[arg(long)]
    pin: bool,

    /// How the services attach their divert programs
    #[arg(long, value_parser = super::ATTACH, default_value = "native")]
    attach: String,
}

/// Measures; fails if something could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let all = catalog::all();
    let programs = chosen(&all, options.only.as_deref())?;
    if options.list {
        let lines: String = programs.iter().map(|program| listed(program) + "\n").collect();
        // The reader may have closed the pipe: `--list | head`.
        let _ = std::io::stdout().write_all(lines.as_bytes());
        return Ok(());
    }
    if prepare::is_done() {
        return measure(options, &programs);
    }
    // Checked before the build, which takes minutes.
    super::will_be_written(options.json.as_deref())?;
    workspace::ask_for_root()?;
    deps::install(&deps::LAB)?;
    let build = workspace::build_release_of(&["tickwire", "tickwire-preload", "tickwire-bench"])?;
    install::all(&programs)?;
    workspace::again_as_root(&build)
}

/// The programs whose name contains `only`, or all; without a match, the error lists the names.
fn chosen<'a>(all: &'a [Program], only: Option<&str>) -> Result<Vec<&'a Program>> {
    let wanted = only.unwrap_or_default().to_lowercase();
    let chosen: Vec<&Program> = all.iter().filter(|program| program.name.to_lowercase().contains(&wanted)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|program| program.name).collect();
        bail!("no program's name contains {wanted:?}; there are: {}", names.join("; "));
    }
    Ok(chosen)
}

fn listed(program: &Program) -> String {
    let needs: Vec<String> = program.needs.iter().map(ToString::to_string).collect();
    format!("{:<20}{} [{}]\n{:20}installs: {}", program.name, program.about, program.unit, "", needs.join(", "))
}

fn measure(options: &Options, programs: &[&Program]) -> Result<()> {
    let start = Instant::now();
    let bed = Topology::new(&options.attach, options.seconds, install::directory()?)?;
    let mut watch = Watch::begin();
    let outcomes = in_rounds(options, &bed, programs, &mut watch)?;
    drop(bed);
    let conditions = Conditions {
        machine: tickwire_report::machine(),
        attach: options.attach.clone(),
        rounds: options.rounds,
        seconds: options.seconds,
        pinned: options.pin,
        took_seconds: start.elapsed().as_secs_f64(),
        blocking_us: watch.blocking_us(),
        spinning_us: watch.spinning_us(),
        load: watch.load(),
        steal_percent: watch.steal_percent(),
    };
    tell(options, &conditions, &outcomes)
}

fn tell(options: &Options, conditions: &Conditions, outcomes: &[Outcome]) -> Result<()> {
    let verdicts = promises::check(outcomes);
    println!("{conditions}");
    println!("{}", report::table(outcomes));
    println!(
        "medians of the rounds; in brackets how many times the kernel: larger is better; a latency's own figure is its p50"
    );
    let failures = report::failures(outcomes);
    failures.iter().for_each(|line| println!("{line}"));
    println!("{}", report::verdicts(&verdicts));
    report::missed(&verdicts).iter().for_each(|line| println!("{line}"));
    if let Some(path) = &options.json {
        let text = report::json(conditions, outcomes, &verdicts)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missing = outcomes.iter().flat_map(|outcome| &outcome.ways).filter(|rounds| rounds.measured.is_empty()).count();
    if missing > 0 {
        bail!("{missing} of {} cells could not be measured", outcomes.len() * Way::ALL.len());
    }
    Ok(())
}

/// Measures every program in every way in every round. Failures are reported and kept.
fn in_rounds(options: &Options, bed: &Topology, programs: &[&Program], watch: &mut Watch) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = programs.iter().map(|program| Outcome::new(program)).collect();
    let unusable: Vec<Option<String>> = programs.iter().map(|program| unusable(bed, program)).collect();
    let mut progress = Progress::new();
    for round in 1..=options.rounds {
        let began = Instant::now();
        watch.wake_ups(bed.kernel()).context("cannot measure what a wake-up costs")?;
        for ((program, outcome), unusable) in programs.iter().zip(&mut outcomes).zip(&unusable) {
            // The ways take turns in being first, so that the machine's drift favours none.
            for turn in 0..Way::ALL.len() {
                let hosts = &bed.hosts[(turn + round as usize - 1) % Way::ALL.len()];
                watch.look();
                progress.begin(format!("round {round} of {}: {}, {}", options.rounds, program.name, hosts.way));
                let measured = match unusable {
                    Some(why) => Err(anyhow::anyhow!("{why}")),
                    None => run::measure(bed, hosts, program, options.seconds, options.pin),
                };
                let rounds = &mut outcome.ways[hosts.way.index()];
                match measured {
                    Ok(measured) => {
                        let line = format!("{:.1} {}", measured.figure.value, program.unit);
                        progress.sum(&format!(
                            "round {round} of {}: {}, {}: {line}",
                            options.rounds, program.name, hosts.way
                        ));
                        rounds.measured.push(measured);
                    }
                    Err(error) => {
                        tickwire_lab::wait_if_interrupted();
                        progress.keep(&format!("failed: {error:#}"));
                        rounds.failures.push(format!("{error:#}"));
                    }
                }
            }
        }
        let seconds = began.elapsed().as_secs();
        progress.sum(&format!("round {round} of {}: {} programs in {seconds} s", options.rounds, programs.len()));
    }
    progress.clear();
    Ok(outcomes)
}

/// Why a program cannot be measured at all: it is not installed, or what it needs cannot be
/// prepared.
fn unusable(bed: &Topology, program: &Program) -> Option<String> {
    let site = bed.site(&bed.hosts[Way::Kernel.index()], End::Server);
    let checked = install::check(program, &site.installed);
    let prepared = checked.and_then(|()| program.prepare.map_or(Ok(()), |prepare| prepare(&site)));
    prepared.err().map(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_programs_is_answered_with_those_there_are() {
        let all = catalog::all();
        let names = |only| chosen(&all, Some(only)).map(|found| found.iter().map(|p| p.name).collect::<Vec<_>>());
        assert_eq!(names("EDIS").unwrap(), ["redis 1", "redis 16"]);
        assert_eq!(chosen(&all, None).unwrap().len(), all.len());
        let refused = names("apache").unwrap_err().to_string();
        assert!(refused.starts_with("no program's name contains \"apache\"; there are: redis 1; "), "{refused}");
    }
}
