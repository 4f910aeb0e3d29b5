//! The cost of reading a clock for a program: time, and system calls.

use super::keeper::Keeper;
use super::topology::Topology;
use crate::bench::harness::table;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tickwire_bench::reading::Cost;

/// Its name for `--only`.
pub(super) const NAME: &str = "reading";
/// The number of reads of the two runs under strace: their difference gives the calls of the reads.
const FEW: u32 = 1;
const MANY: u32 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(300);

/// The costs, and the system calls of a million readings of our clock.
#[derive(Debug)]
pub(super) struct Costs {
    pub(super) costs: Vec<Cost>,
    pub(super) system_calls: i64,
}

/// Measures all clocks in turn in one process.
pub(super) fn measure(keepers: &[Keeper]) -> Result<Costs> {
    let bed = Topology::new(false)?;
    let truth = bed.begin("")?;
    let _server = bed.serve(&truth, false)?;
    let _ours = bed.keep(Keeper::Tickwire, 1)?;
    let rival = keepers.contains(&Keeper::Clockbound).then(|| bed.keep(Keeper::Clockbound, 1)).transpose()?;
    let page = bed.file("page");
    let program = super::topology::program("truth")?;
    let mut command = vec![&*program, "reading", &page];
    if rival.is_some() {
        command.push("--clockbound");
    }
    // The program waits until the clocks are ready.
    let printed = bed.client.spawn(&command)?.success(TIMEOUT)?;
    let costs = serde_json::from_str(printed.trim()).context("figures of the readings")?;
    let calls = |reads: u32| -> Result<i64> {
        let trace = bed.file("trace");
        let reads = reads.to_string();
        let traced =
            ["strace", "-f", "-o", &trace, &program, "reading", &page, "--alone", "--batches", "1", "--batch", &reads];
        bed.client.spawn(&traced)?.success(TIMEOUT)?;
        Ok(std::fs::read_to_string(&trace).context("cannot read what strace saw")?.lines().count() as i64)
    };
    let (few, many) = (calls(FEW)?, calls(MANY)?);
    ensure!(few > 0, "strace saw nothing at all");
    Ok(Costs { costs, system_calls: many - few })
}

/// One line for each clock.
pub(super) fn table(costs: &Costs) -> String {
    let mut table = table::with(["reading", "min ns", "p50 ns", "p99 ns", "promise"]);
    for cost in &costs.costs {
        let figures = [cost.min_ns, cost.p50_ns, cost.p99_ns].map(|ns| format!("{ns:.1}"));
        // An ordered reading cannot be faster than a fence and the counter: 18 ns on the virtual
        // machines of `docs/benchmarks.md`.
        let promise = if cost.clock == "tickwire, unordered" { "p50 15, no system call" } else { "" };
        table.add_row(std::iter::once(cost.clock.clone()).chain(figures).chain([promise.to_owned()]));
    }
    table::right(&mut table, 1..4);
    format!("{table}\n{} system calls in {MANY} readings of tickwire's clock", costs.system_calls)
}
