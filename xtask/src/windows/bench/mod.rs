//! `cargo xtask windows bench`: round trips of a plain Windows program, on the kernel's sockets and
//! on the lane in turn, at the same way of waiting. The peer is a program of Linux on the kernel of
//! another host.
//!
//! | module | purpose |
//! |---|---|
//! | `rows` | what is measured |
//! | `topology` | the hosts and programs, and one measurement |
//! | `judge` | the promises |
//! | `report` | table and JSON |

mod judge;
mod report;
mod rows;
mod topology;

use super::build::{self, Profile};
use super::{lab_card, lab_programs, testbed, wine};
use crate::bench::harness::host_state::Before;
use crate::bench::harness::{Conditions, Report, Rounds, selection, verdict};
use crate::progress::Progress;
use crate::{deps, workspace};
use anyhow::{Context, Result};
use rows::ROWS;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use topology::{PeerWait, Topology};

/// What, how much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Round trips of a row in each round
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    trips: u32,

    /// How the peer waits [default: by the number of processors]
    ///
    /// A peer that polls needs a processor of its own, beside those of program and service.
    #[arg(long, value_enum)]
    peer: Option<PeerWait>,

    /// Measure programs as tests have them: quicker to build, and slower
    #[arg(long)]
    debug: bool,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    fn profile(&self) -> Profile {
        if self.debug { Profile::Debug } else { Profile::Release }
    }
}

/// Measures, after building what is needed and becoming root; fails if a row could not be measured,
/// but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = selection::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    selection::prepared(options.json.as_deref(), || prepare(options.profile()), || measure(options, rows))
}

fn measure(options: &Options, rows: Vec<&'static rows::Row>) -> Result<()> {
    let Options { rounds, trips, .. } = *options;
    let start = Instant::now();
    let before = Before::now();
    let wakeup_us = testbed::wakeup_cost_us().context("the cost of a wakeup")?;
    let peer = options.peer.unwrap_or_else(PeerWait::for_this_machine);
    let topology = Topology::new(options.profile(), trips, peer)?;
    let all_rounds = Rounds { progress: &mut Progress::new(), number: rounds, what: format!("{} rows", rows.len()) };
    let outcomes = all_rounds.measure(rows, |row, _| topology.measure(row));
    let round = format!("{trips} round trips of 64 bytes");
    let state = before.until_now(Some(wakeup_us));
    let conditions = Conditions::new("the lab card", rounds, round, start.elapsed()).watched(state);
    let conditions = Conditions { set: vec![wine::version()?, topology.description()], ..conditions };
    drop(topology);
    let own = json!({ "trips": trips, "set": conditions.set, "rows": report::json(&outcomes) });
    let verdicts = verdict::table(&judge::check(&outcomes));
    let parts = vec![conditions.to_string(), report::table(&outcomes).to_string(), verdicts.to_string()];
    let missing = crate::bench::harness::report::missing_rows(&outcomes);
    Report { parts, json: conditions.json(own), missing }.emit(options.json.as_deref())
}

/// Returns only on failure.
fn prepare(profile: Profile) -> Result<()> {
    workspace::ask_for_root()?;
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_LAB)?;
    deps::install(&deps::LAB)?;
    super::add_target()?;
    wine::make()?;
    lab_card::build()?;
    lab_programs::build()?;
    build::for_windows(&build::LANE, profile)?;
    let build = workspace::build_release_of(&["tickwire-bench"])?;
    workspace::again_as_root(&build)
}
