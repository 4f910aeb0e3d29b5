//! Table and JSON.

use super::keeper::Keeper;
use super::reading::Costs;
use super::scenario::Scenario;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use tickwire_bench::error::ClockError;

/// What one clock did in one scenario.
pub(super) struct Outcome {
    pub(super) scenario: &'static Scenario,
    pub(super) keeper: Keeper,
    pub(super) seconds: u32,
    pub(super) measured: Result<ClockError, String>,
}

/// One line for each outcome; times in us.
pub(super) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "scenario",
        "clock",
        "median us",
        "IQR us",
        "p99 us",
        "max us",
        "bound us",
        "truth inside",
        "below 10 us after",
        "promise",
    ]);
    for outcome in outcomes {
        let mut cells = vec![outcome.scenario.name.to_owned(), outcome.keeper.name().to_owned()];
        match &outcome.measured {
            Ok(figures) => {
                cells.extend([figures.median_ns, figures.iqr_ns, figures.p99_ns, figures.max_ns].map(us));
                cells.push(if figures.bounded > 0 { us(figures.bound_ns) } else { String::new() });
                cells.push(inside(figures));
                cells.push(figures.converged_s.map_or("never".into(), |seconds| format!("{seconds:.2} s")));
                cells.push(outcome.scenario.promise.to_owned());
            }
            Err(why) => cells.push(format!("failed: {why:.100}")),
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2).take(7) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn us(ns: i64) -> String {
    format!("{:.2}", ns as f64 / 1e3)
}

/// For how many reads truth was inside the bound.
fn inside(figures: &ClockError) -> String {
    match (figures.bounded, figures.outside) {
        (0, _) => String::new(),
        (bounded, 0) => format!("all of {bounded}"),
        (bounded, outside) => format!("not in {outside} of {bounded}"),
    }
}

/// All of it.
pub(super) fn json(machine: &str, outcomes: &[Outcome], reading: Option<&Costs>) -> Result<String> {
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let (scenario, clock, seconds) = (outcome.scenario.name, outcome.keeper.name(), outcome.seconds);
            match &outcome.measured {
                Ok(figures) => json!({"scenario": scenario, "clock": clock, "seconds": seconds, "error": figures}),
                Err(why) => json!({"scenario": scenario, "clock": clock, "seconds": seconds, "failure": why}),
            }
        })
        .collect();
    let reading = reading.map(|costs| json!({"clocks": costs.costs, "system_calls": costs.system_calls}));
    Ok(serde_json::to_string_pretty(&json!({"machine": machine, "outcomes": outcomes, "reading": reading}))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::clock::scenario::SCENARIOS;

    #[test]
    fn the_table_says_what_was_measured_and_what_was_not() {
        let outcome = |keeper, measured| Outcome { scenario: &SCENARIOS[0], keeper, seconds: 9, measured };
        let figures = ClockError {
            median_ns: -1_234,
            max_ns: 4_567,
            bounded: 10,
            outside: 2,
            converged_s: Some(1.5),
            ..ClockError::default()
        };
        let outcomes = [outcome(Keeper::Tickwire, Ok(figures)), outcome(Keeper::Chronyd, Err("no server".into()))];
        let shown = table(&outcomes).to_string();
        for word in ["-1.23", "4.57", "not in 2 of 10", "1.50 s", "failed: no server"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        let read: serde_json::Value = serde_json::from_str(&json("a machine", &outcomes, None).unwrap()).unwrap();
        assert_eq!(read["outcomes"][0]["error"]["median_ns"], -1_234);
        assert_eq!(read["outcomes"][1]["failure"], "no server");
    }
}
