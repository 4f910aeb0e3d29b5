//! The promise: an end on Tickwire makes no cell worse than kernel to kernel in the same run.

use super::ends::Ends;
use super::rows::Cell;
use super::topology::Measured;
use crate::bench::harness::{Bound, Outcome};
use tickwire_bench::transfer::Transfer;

/// One comparison of a cell with kernel to kernel.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) cell: String,
    pub(super) figure: &'static str,
    /// How many times better than kernel to kernel: the ratio of the medians of the rounds.
    pub(super) better: f64,
    /// The least allowed ratio.
    pub(super) bound: f64,
}

impl Verdict {
    pub(super) fn kept(&self) -> bool {
        Bound::AtLeast(self.bound).holds(self.better)
    }
}

/// How many times faster tail loss is repaired if Tickwire is the sender.
const TAIL: f64 = 10.0;

/// All comparisons whose cells were measured.
pub(super) fn check(outcomes: &[Outcome<Cell, Measured>]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for ours in outcomes.iter().filter(|outcome| outcome.cell.ends != Ends::KernelKernel) {
        let Cell { row, size, ends } = ours.cell;
        let rival = |cell: &Cell| (cell.row.name, cell.size, cell.ends) == (row.name, size, Ends::KernelKernel);
        let kernel = outcomes.iter().find(|kernel| rival(&kernel.cell)).and_then(Outcome::median);
        let (Some(kernel), Some(median)) = (kernel, ours.median()) else { continue };
        let mut judge = |figure: &'static str, better: f64, bound: f64| {
            verdicts.push(Verdict { cell: ours.cell.to_string(), figure, better, bound });
        };
        let times = |figure: fn(&Transfer) -> u64| figure(&kernel) as f64 / figure(&median).max(1) as f64;
        let sends = matches!(ends, Ends::OursKernel | Ends::OursOurs);
        judge("p50", times(|t| t.completion.p50_ns), 1.0);
        judge("p99", times(|t| t.completion.p99_ns), if row.name == "tail" && sends { TAIL } else { 1.0 });
        judge("goodput", median.goodput.bits_per_second / kernel.goodput.bits_per_second.max(1.0), 1.0);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;

    #[test]
    fn each_cell_is_held_against_kernel_to_kernel_of_its_row_and_size() {
        let outcomes = [
            outcome("tail", 20_000, Ends::KernelKernel, 200_000_000),
            outcome("tail", 640_000, Ends::KernelKernel, 1),
            outcome("tail", 20_000, Ends::OursKernel, 25_000_000),
            outcome("tail", 20_000, Ends::KernelOurs, 250_000_000),
            outcome("none", 20_000, Ends::OursOurs, 1),
        ];
        let verdicts = check(&outcomes);
        let told: Vec<_> = verdicts.iter().map(|v| (&*v.cell, v.figure, v.better, v.kept())).collect();
        assert_eq!(
            told,
            [
                ("tail, 20 KB, ours-kernel", "p50", 8.0, true),
                ("tail, 20 KB, ours-kernel", "p99", 8.0, false),
                ("tail, 20 KB, ours-kernel", "goodput", 1.0, true),
                ("tail, 20 KB, kernel-ours", "p50", 0.8, false),
                ("tail, 20 KB, kernel-ours", "p99", 0.8, false),
                ("tail, 20 KB, kernel-ours", "goodput", 1.0, true),
            ]
        );
    }
}
