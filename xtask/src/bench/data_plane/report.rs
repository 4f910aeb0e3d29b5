//! Table and JSON.

use super::figures::Measured;
use crate::bench::harness::medians::us;
use crate::bench::harness::{Outcome, table};
use comfy_table::Table;
use serde_json::{Value, json};
use std::fmt::Display;

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(crate) fn table<C: Display>(outcomes: &[Outcome<C, Measured>]) -> Table {
    let mut table = table::with(["row", "rounds", "p50 us", "p99 us", "p99.9 us", "max us", "Gbit/s"]);
    for outcome in outcomes {
        let mut cells = vec![outcome.cell.to_string(), outcome.rounds.len().to_string()];
        match outcome.median() {
            Some(Measured::Latency(l)) => {
                cells.extend([l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(|ns| us(ns, 2)));
                cells.push(String::new());
            }
            Some(Measured::Rate(rate)) => {
                cells.extend([const { String::new() }; 4]);
                cells.push(format!("{rate:.2}"));
            }
            None => cells.push(outcome.failure_text(60)),
        }
        table.add_row(cells);
    }
    table::right(&mut table, 1..7);
    table
}

/// All rows, round by round.
pub(crate) fn json<C: Display>(outcomes: &[Outcome<C, Measured>]) -> Vec<Value> {
    let round = |measured: &Measured| match measured {
        Measured::Latency(latency) => json!({ "latency": latency }),
        Measured::Rate(gbit) => json!({ "gbit": gbit }),
    };
    let row = |outcome: &Outcome<C, Measured>| {
        let row = outcome.cell.to_string();
        let own = json!({ "row": row, "median": outcome.latency(), "median_gbit": outcome.rate() });
        outcome.json(own, round)
    };
    outcomes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::outcome;
    use super::*;

    #[test]
    fn a_line_has_the_figures_or_why_there_are_none() {
        let rate = Outcome { rounds: vec![Measured::Rate(3.456)], ..Outcome::new("stream") };
        let failed = Outcome { failures: vec!["no host".into()], ..Outcome::new("echo") };
        let outcomes = [outcome("ping", 12_340), rate, failed];
        let shown = table(&outcomes).to_string();
        let line = |word: &str| shown.lines().find(|line| line.contains(word)).unwrap();
        assert_eq!(line("ping").matches("12.34").count(), 4, "{shown}");
        assert!(line("stream").contains("3.46") && line("echo").contains("failed: no host"), "{shown}");
        let written = json(&outcomes);
        assert_eq!((&written[0]["median"]["p50_ns"], &written[1]["median_gbit"]), (&json!(12_340), &json!(3.456)));
        assert_eq!(
            (&written[0]["rounds"][0]["latency"]["p99_ns"], &written[2]["median"]),
            (&json!(12_340), &Value::Null)
        );
    }
}
