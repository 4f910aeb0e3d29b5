//! Table and JSON.

use super::rows::Row;
use crate::bench::harness::medians::{Figures, us};
use crate::bench::harness::{Outcome, table};
use comfy_table::Table;
use serde_json::{Value, json};
use tickwire_bench::latency::Latency;

impl Figures for Latency {
    type Median = Self;

    fn of_rounds(rounds: &[Self]) -> Option<Self> {
        Self::of_rounds(rounds)
    }
}

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(super) fn table(outcomes: &[Outcome<&'static Row, Latency>]) -> Table {
    let mut table = table::with(["row", "stack", "the program", "p50 us", "p99 us", "p99.9 us", "max us", "lost"]);
    for outcome in outcomes {
        let Row { name, stack, wait, .. } = outcome.cell;
        let mut cells = vec![(*name).to_owned(), stack.to_string(), wait.to_string()];
        match outcome.median() {
            Some(l) => {
                cells.extend([l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(|ns| us(ns, 1)));
                cells.push(l.lost.to_string());
            }
            None => cells.push(outcome.failure_text(60)),
        }
        table.add_row(cells);
    }
    table::right(&mut table, 3..8);
    table
}

/// All rows, round by round.
pub(super) fn json(outcomes: &[Outcome<&'static Row, Latency>]) -> Vec<Value> {
    let row = |outcome: &Outcome<&'static Row, Latency>| {
        let Row { name, stack, wait, .. } = outcome.cell;
        let own =
            json!({ "row": name, "stack": stack.to_string(), "program": wait.to_string(), "median": outcome.median() });
        outcome.json(own, |latency| json!(latency))
    };
    outcomes.iter().map(row).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::ROWS;
    use super::*;

    /// A row, by its number, with one round.
    pub(in super::super) fn outcome(row: usize, p50_ns: u64, p999_ns: u64) -> Outcome<&'static Row, Latency> {
        let latency = Latency { count: 1, min_ns: 1, p50_ns, p99_ns: 1, p999_ns, max_ns: 70_000, lost: 0 };
        Outcome { rounds: vec![latency], ..Outcome::new(&ROWS[row]) }
    }

    #[test]
    fn a_line_has_the_figures_or_why_there_are_none() {
        let mut failed = outcome(1, 1, 1);
        failed.rounds.clear();
        failed.failures.push("no lane".into());
        let outcomes = [outcome(0, 12_345, 50_000), failed];
        let shown = table(&outcomes).to_string();
        let line = |word: &str| shown.lines().find(|line| line.contains(word)).unwrap();
        assert!(line("kernel").contains("12.3") && line("lane").contains("failed: no lane"), "{shown}");
        let written = json(&outcomes);
        assert_eq!((&written[0]["median"]["p50_ns"], &written[0]["stack"]), (&json!(12_345), &json!("kernel")));
        assert_eq!(written[1]["failures"][0], "no lane");
    }
}
