//! Table and JSON.

use super::rows::Row;
use super::topology::Measured;
use crate::bench::host_state::HostState;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::fmt;
use std::time::Duration;
use tickwire_bench::latency::Latency;

/// One row with all its rounds.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) row: &'static Row,
    /// One entry for each round that succeeded.
    pub(super) rounds: Vec<Measured>,
    /// The errors of the rounds that failed.
    pub(super) failures: Vec<String>,
}

impl Outcome {
    pub(super) fn new(row: &'static Row) -> Self {
        Self { row, rounds: Vec::new(), failures: Vec::new() }
    }

    /// The medians of the rounds; the maximum is the worst of all.
    pub(super) fn median(&self) -> Option<Measured> {
        let latencies: Vec<Latency> = self.rounds.iter().map(|round| round.latency).collect();
        let mut rates: Vec<f64> = self.rounds.iter().filter_map(|round| round.rate).collect();
        rates.sort_by(f64::total_cmp);
        Some(Measured { rate: rates.get(rates.len() / 2).copied(), latency: Latency::of_rounds(&latencies)? })
    }
}

/// The conditions of the measurement.
pub(super) struct Conditions {
    pub(super) state: HostState,
    /// From [`tickwire_report::machine`].
    pub(super) machine: String,
    pub(super) attach: String,
    pub(super) rounds: u32,
    pub(super) trips: u32,
    pub(super) sends: u32,
    pub(super) took: Duration,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, machine, attach, rounds, trips, sends, took } = self;
        writeln!(f, "{state}\n{machine}")?;
        let took = took.as_secs();
        write!(f, "divert attached: {attach}; {rounds} rounds of {trips} round trips or {sends} calls; took {took} s")
    }
}

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(super) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["row", "ends", "trips a second", "p50 us", "p99 us", "p99.9 us", "max us"]);
    for outcome in outcomes {
        let mut cells = vec![outcome.row.name.to_owned(), outcome.row.ends.to_string()];
        match outcome.median() {
            Some(Measured { rate, latency: l }) => {
                let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
                cells.push(rate.map_or_else(String::new, |rate| format!("{rate:.0}")));
                cells.extend([l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns].map(us));
            }
            None => cells.push(
                outcome.failures.last().map_or_else(|| "not measured".into(), |why| format!("failed: {why:.60}")),
            ),
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Everything, round by round.
pub(super) fn json(conditions: &Conditions, outcomes: &[Outcome]) -> Result<String> {
    let measured = |m: &Measured| json!({ "per_second": m.rate, "latency": m.latency });
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let Outcome { row, rounds, failures } = outcome;
            json!({
                "row": row.name,
                "ends": row.ends.to_string(),
                "median": outcome.median().as_ref().map(measured),
                "rounds": rounds.iter().map(measured).collect::<Vec<_>>(),
                "failures": failures,
            })
        })
        .collect();
    let Conditions { state, machine, attach, rounds, trips, sends, took } = conditions;
    Ok(serde_json::to_string_pretty(&json!({
        "host": state,
        "machine": machine,
        "attach": attach,
        "rounds": rounds,
        "trips": trips,
        "sends": sends,
        "took_seconds": took.as_secs_f64(),
        "rows": rows,
    }))?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::{self, ROWS};
    use super::*;
    use crate::bench::rivals::Ends;

    /// A row with one round.
    pub(in super::super) fn outcome(name: &str, ends: Ends, rate: f64, max_ns: u64) -> Outcome {
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
        let conditions = Conditions {
            state: HostState { wakeup_us: None, load_before: None, stolen_percent: None },
            machine: "a machine".into(),
            attach: "tc".into(),
            rounds: 1,
            trips: 1000,
            sends: 100,
            took: Duration::from_millis(1_500),
        };
        assert!(conditions.to_string().ends_with("1 rounds of 1000 round trips or 100 calls; took 1 s"));
        let written: serde_json::Value = serde_json::from_str(&json(&conditions, &outcomes).unwrap()).unwrap();
        assert_eq!(written["rows"][0]["median"]["latency"]["max_ns"], 2500);
        assert_eq!(written["rows"][1]["failures"][0], "refused");
    }
}
