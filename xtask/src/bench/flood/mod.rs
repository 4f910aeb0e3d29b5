//! `cargo xtask bench flood`: round trips on a connection while its host is flooded, on Tickwire
//! and on the kernel.
//!
//! Every row is measured in each round. The cost of a flood is the ratio of the medians of its
//! rounds to those without a flood, and to those with as many packets to an absent host. The latter
//! is the control: the flood's sender shares a small machine's processors with the connection.

mod judge;
mod reach;
mod topology;

use super::figures::Measured;
use super::host_state::Before;
use super::report;
use crate::prepare;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Instant;
use topology::{Flood, Row, Topology};

/// How much, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows whose name contains this
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Rounds; every row is measured once in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Round trips of a row in each round
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    trips: u32,

    /// Forged packets a second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,

    /// Write the figures of all rounds here, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// How the services attach their divert programs
    #[arg(long, value_parser = super::ATTACH, default_value = "native")]
    attach: String,
}

const fn row(name: &'static str, ours: bool, flood: Option<Flood>) -> Row {
    Row { name, ours, flood }
}

/// All rows; the flood's name follows the comma.
const ROWS: [Row; 16] = [
    row("Tickwire", true, None),
    row("kernel", false, None),
    row("Tickwire, to nobody", true, Some(Flood::Nobody)),
    row("kernel, to nobody", false, Some(Flood::Nobody)),
    row("Tickwire, SYN", true, Some(Flood::Syn)),
    row("kernel, SYN", false, Some(Flood::Syn)),
    row("Tickwire, RST", true, Some(Flood::Rst)),
    row("kernel, RST", false, Some(Flood::Rst)),
    row("Tickwire, data", true, Some(Flood::Data)),
    row("kernel, data", false, Some(Flood::Data)),
    row("Tickwire, fragments", true, Some(Flood::Fragments)),
    row("kernel, fragments", false, Some(Flood::Fragments)),
    row("Tickwire, overlapping fragments", true, Some(Flood::Overlaps)),
    row("kernel, overlapping fragments", false, Some(Flood::Overlaps)),
    row("Tickwire, land", true, Some(Flood::Land)),
    row("kernel, land", false, Some(Flood::Land)),
];

/// Measures; fails if a row could not be measured, but not if it is slow.
pub(crate) fn run(options: &Options) -> Result<()> {
    if prepare::is_done() {
        return measure(options);
    }
    // Checked before the build, which takes minutes.
    super::will_be_written(options.json.as_deref())?;
    super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    prepare::lab(|| Ok(()))
}

fn measure(options: &Options) -> Result<()> {
    let start = Instant::now();
    let rows = super::chosen(&ROWS, |row| row.name, options.only.as_deref())?;
    let mut bed = Topology::new(&options.attach, options.trips, options.rate)?;
    let before = Before::now();
    let measure = |row: &Row| bed.measure(row).map(Measured::Latency);
    let outcomes = super::in_rounds(options.rounds, &rows, |row| row.name, measure);
    drop(bed);
    let state = before.until_now(&outcomes);
    println!("{state}");
    println!("{}", tickwire_report::machine());
    println!(
        "divert attached: {}; {} rounds of {} round trips, {} forged packets a second; took {} s",
        options.attach,
        options.rounds,
        options.trips,
        options.rate,
        start.elapsed().as_secs()
    );
    println!("{}", report::table(&outcomes));
    println!("{}", report::verdicts(&judge::check(&outcomes)));
    if let Some(path) = &options.json {
        let conditions = report::Conditions {
            state,
            machine: tickwire_report::machine(),
            attach: options.attach.clone(),
            rounds: options.rounds,
            trips: options.trips,
            stream_seconds: 0,
            took: start.elapsed(),
        };
        let text = report::json(&conditions, &outcomes)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = outcomes.iter().filter(|outcome| outcome.rounds.is_empty()).count();
    if failed > 0 {
        bail!("{failed} rows could not be measured");
    }
    Ok(())
}
