//! `cargo xtask bench programs`: real third-party programs on the kernel and on Tickwire, one end
//! or both.
//!
//! Each program is measured in all four ways in every round, one after the other. A measurement on
//! Tickwire counts only if the lanes' counters show that its traffic crossed the stack.
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

use super::harness::{self, Report, Rounds, selection};
use crate::progress::Progress;
use crate::{deps, workspace};
use anyhow::{Context, Result, anyhow, bail};
use catalog::Program;
use conditions::{Conditions, Watch};
use outcome::{Cell, Outcome};
use std::collections::BTreeMap;
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
    #[arg(long, value_parser = selection::ATTACH, default_value = "native")]
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
    let prepare = || {
        workspace::ask_for_root()?;
        deps::install(&deps::LAB)?;
        let build = workspace::build_release_of(&["tickwire", "tickwire-preload", "tickwire-bench"])?;
        install::all(&programs)?;
        workspace::again_as_root(&build)
    };
    selection::prepared(options.json.as_deref(), prepare, || measure(options, &programs))
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
    let topology = Topology::new(&options.attach, options.seconds, install::directory()?)?;
    let mut watch = Watch::begin();
    let cells = in_rounds(options, &topology, programs, &mut watch)?;
    drop(topology);
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
    let missing = harness::report::missing_cells(&cells);
    let outcomes = Outcome::of_cells(cells);
    let verdicts = promises::check(&outcomes);
    let parts = report::parts(&conditions, &outcomes, &verdicts);
    let json = report::json(&conditions, &outcomes, &verdicts);
    Report { parts, json, missing }.emit(options.json.as_deref())
}

/// Measures every program in every way in every round.
fn in_rounds<'a>(
    options: &Options,
    topology: &Topology,
    programs: &[&'a Program],
    watch: &mut Watch,
) -> Result<Vec<harness::Outcome<Cell<'a>, run::Measured>>> {
    let cells = programs.iter().flat_map(|&program| Way::ALL.map(|way| Cell { program, way }));
    let mut outcomes: Vec<_> = cells.map(harness::Outcome::new).collect();
    let why = |program: &&Program| Some((program.name, unusable(topology, program)?));
    let unusable: BTreeMap<&str, String> = programs.iter().filter_map(why).collect();
    let mut progress = Progress::new();
    let what = format!("{} programs", programs.len());
    let mut rounds = Rounds { progress: &mut progress, number: options.rounds, what };
    for round in 1..=options.rounds {
        watch.wake_ups(topology.kernel()).context("cannot measure what a wake-up costs")?;
        let measure = |cell: &Cell<'_>| {
            watch.look();
            match unusable.get(cell.program.name) {
                Some(why) => Err(anyhow!("{why}")),
                None => {
                    let hosts = &topology.hosts[cell.way.index()];
                    run::measure(topology, hosts, cell.program, options.seconds, options.pin)
                }
            }
        };
        let brief = |cell: &Cell<'_>, measured: &run::Measured| {
            Some(format!("{:.1} {}", measured.figure.value, cell.program.unit))
        };
        rounds.measure_once(round, &mut outcomes, order(programs.len(), round), measure, brief);
    }
    progress.clear();
    Ok(outcomes)
}

/// The order of the cells in a round. The ways take turns in being first, so that the machine's
/// drift favours none.
fn order(programs: usize, round: u32) -> impl Iterator<Item = usize> {
    let ways = Way::ALL.len();
    (0..programs)
        .flat_map(move |program| (0..ways).map(move |turn| program * ways + (turn + round as usize - 1) % ways))
}

/// Why a program cannot be measured at all: it is not installed, or what it needs cannot be
/// prepared.
fn unusable(topology: &Topology, program: &Program) -> Option<String> {
    let site = topology.site(&topology.hosts[Way::Kernel.index()], End::Server);
    let checked = install::check(program, &site.installed);
    let prepared = checked.and_then(|()| program.prepare.map_or(Ok(()), |prepare| prepare(&site)));
    prepared.err().map(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_first_in_one_of_four_rounds_and_every_cell_is_measured_in_each() {
        let orders: Vec<Vec<usize>> = (1..=5).map(|round| order(2, round).collect()).collect();
        assert_eq!(orders[0], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(orders[1], [1, 2, 3, 0, 5, 6, 7, 4]);
        assert_eq!(orders[3], [3, 0, 1, 2, 7, 4, 5, 6]);
        assert_eq!(orders[4], orders[0]);
    }

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
