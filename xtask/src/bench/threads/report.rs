//! Table and JSON.

use super::rows::Row;
use super::topology::Measured;
use crate::bench::harness::medians::us;
use crate::bench::harness::{Outcome, table};
use comfy_table::Table;
use serde_json::{Value, json};

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(super) fn table(outcomes: &[Outcome<&'static Row, Measured>]) -> Table {
    let mut table = table::with(["row", "ends", "trips a second", "p50 us", "p99 us", "p99.9 us", "max us"]);
    for outcome in outcomes {
        let mut cells = vec![outcome.cell.name.to_owned(), outcome.cell.ends.to_string()];
        match outcome.median() {
            Some(Measured { rate, latency: l }) => {
                cells.push(rate.map_or_else(String::new, |rate| format!("{rate:.0}")));
                cells.extend([l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(|ns| us(ns, 1)));
            }
            None => cells.push(outcome.failure_text(60)),
        }
        table.add_row(cells);
    }
    table::right(&mut table, 2..7);
    table
}

/// All rows, round by round.
pub(super) fn json(outcomes: &[Outcome<&'static Row, Measured>]) -> Vec<Value> {
    let measured = |m: &Measured| json!({ "per_second": m.rate, "latency": m.latency });
    let row = |outcome: &Outcome<&'static Row, Measured>| {
        let (row, median) = (outcome.cell, outcome.median().as_ref().map(measured));
        outcome.json(json!({ "row": row.name, "ends": row.ends.to_string(), "median": median }), measured)
    };
    outcomes.iter().map(row).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::{self, ROWS};
    use super::*;
    use crate::bench::harness::host_pairs::Ends;
    use tickwire_bench::latency::Latency;

    /// A row with one round.
    pub(in super::super) fn outcome(name: &str, ends: Ends, rate: f64, max_ns: u64) -> Outcome<&'static Row, Measured> {
        let row = ROWS.iter().find(|row| row.name == name && row.ends == ends).unwrap();
        let latency = Latency { count: 1, min_ns: 1, p50_ns: 1, p99_ns: 1, p999_ns: 1, max_ns, lost: 0 };
        Outcome { rounds: vec![Measured { rate: Some(rate), latency }], ..Outcome::new(row) }
    }

    #[test]
    fn a_line_has_the_figures_or_why_there_are_none() {
        let mut failed = outcome(rows::FOUR, Ends::Client, 1.0, 1);
        failed.rounds.clear();
        failed.failures.push("refused".into());
        let outcomes = [outcome(rows::ONE, Ends::Both, 34_567.8, 2_500), failed];
        let shown = table(&outcomes).to_string();
        let line = |word: &str| shown.lines().find(|line| line.contains(word)).unwrap();
        assert!(line("34568").contains("2.5") && line("4 threads").contains("failed: refused"), "{shown}");
        let written = json(&outcomes);
        assert_eq!(written[0]["median"]["latency"]["max_ns"], 2500);
        assert_eq!(written[1]["failures"][0], "refused");
    }
}
