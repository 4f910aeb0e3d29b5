//! What reading a clock costs a program: time, and system calls.

use super::bed::Bed;
use super::keeper::Keeper;
use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use std::time::Duration;
use tickwire_bench::reading::Cost;

/// The name under which `--only` finds it.
pub(super) const NAME: &str = "reading";
/// How often one run under strace reads, and how often the other.
const FEW: u32 = 1;
const MANY: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(300);

/// The costs, and the system calls of a million readings of ours.
#[derive(Debug)]
pub(super) struct Costs {
    pub(super) costs: Vec<Cost>,
    pub(super) system_calls: i64,
}

/// Measures all clocks by turns in one process.
pub(super) fn measure(keepers: &[Keeper]) -> Result<Costs> {
    let bed = Bed::new(false)?;
    let truth = bed.begin("")?;
    let _server = bed.serve(&truth, false)?;
    let _ours = bed.keep(Keeper::Tickwire, 1)?;
    let rival = keepers.contains(&Keeper::Clockbound).then(|| bed.keep(Keeper::Clockbound, 1)).transpose()?;
    let page = bed.file("page");
    let program = super::bed::program("truth")?;
    let mut command = vec![&*program, "reading", &page];
    if rival.is_some() {
        command.push("--clockbound");
    }
    // It waits for the clocks.
    let printed = bed.client.spawn(&command)?.success(PATIENCE)?;
    let costs = serde_json::from_str(printed.trim()).context("figures of the readings")?;
    let calls = |reads: u32| -> Result<i64> {
        let trace = bed.file("trace");
        let reads = reads.to_string();
        let traced =
            ["strace", "-f", "-o", &trace, &program, "reading", &page, "--alone", "--batches", "1", "--batch", &reads];
        bed.client.spawn(&traced)?.success(PATIENCE)?;
        Ok(std::fs::read_to_string(&trace).context("cannot read what strace saw")?.lines().count() as i64)
    };
    let (few, many) = (calls(FEW)?, calls(MANY)?);
    ensure!(few > 0, "strace saw nothing at all");
    Ok(Costs { costs, system_calls: many - few })
}

/// One line for each clock.
pub(super) fn table(costs: &Costs) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["reading", "min ns", "p50 ns", "p99 ns", "promise"]);
    for cost in &costs.costs {
        let figures = [cost.min_ns, cost.p50_ns, cost.p99_ns].map(|ns| format!("{ns:.1}"));
        // An ordered reading cannot be quicker than fence and counter, 18 ns on the virtual
        // machines of `docs/benchmarks.md`.
        let promise = if cost.clock == "tickwire, unordered" { "p50 15, no system call" } else { "" };
        table.add_row(std::iter::once(cost.clock.clone()).chain(figures).chain([promise.to_owned()]));
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{} system calls in {MANY} readings of tickwire's clock", costs.system_calls)
}
