//! Tables and JSON.

use super::figures::{Measured, Outcome};
use super::host_state::HostState;
use super::targets::Verdict;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::fmt;
use std::time::Duration;

/// The conditions of the measurement: figures without them cannot be compared with others.
pub(crate) struct Conditions {
    /// The state of the machine meanwhile.
    pub(crate) state: HostState,
    /// From [`tickwire_report::machine`].
    pub(crate) machine: String,
    /// How divert was attached.
    pub(crate) attach: String,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Round trips of a row in each round.
    pub(crate) trips: u32,
    /// Seconds of a stream in each round.
    pub(crate) stream_seconds: u32,
    /// The wall-clock time of the whole run.
    pub(crate) took: Duration,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, machine, attach, rounds, trips, stream_seconds, took } = self;
        writeln!(f, "{state}")?;
        writeln!(f, "{machine}")?;
        write!(
            f,
            "divert attached: {attach}; {rounds} rounds of {trips} round trips and {stream_seconds} s of stream; took {} s",
            took.as_secs()
        )
    }
}

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["row", "rounds", "p50 us", "p99 us", "p99.9 us", "max us", "Gbit/s"]);
    for outcome in outcomes {
        let us = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
        let mut cells = vec![outcome.name.to_owned(), outcome.rounds.len().to_string()];
        match (outcome.latency(), outcome.rate()) {
            (Some(l), _) => cells.extend([us(l.p50_ns), us(l.p99_ns), us(l.p999_ns), us(l.max_ns), String::new()]),
            (_, Some(rate)) => {
                cells.extend([String::new(), String::new(), String::new(), String::new(), format!("{rate:.2}")])
            }
            _ => cells.push(
                outcome.failures.last().map_or_else(|| "not measured".into(), |why| format!("failed: {why:.60}")),
            ),
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// One line for each promise.
pub(crate) fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["promise", "measured", "bound", ""]);
    for v in verdicts {
        let kept = if v.kept { "kept" } else { "MISSED" };
        table.add_row([v.promise.clone(), format!("{:.2}", v.measured), format!("{:.2}", v.bound), kept.into()]);
    }
    table
}

/// Everything, round by round.
pub(crate) fn json(conditions: &Conditions, outcomes: &[Outcome]) -> Result<String> {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|o| {
            let rounds: Vec<_> = o
                .rounds
                .iter()
                .map(|m| match m {
                    Measured::Latency(latency) => json!({ "latency": latency }),
                    Measured::Rate(gbit) => json!({ "gbit": gbit }),
                })
                .collect();
            json!({ "row": o.name, "median": o.latency(), "median_gbit": o.rate(), "rounds": rounds, "failures": o.failures })
        })
        .collect();
    let Conditions { state, machine, attach, rounds, trips, stream_seconds, took } = conditions;
    Ok(serde_json::to_string_pretty(&json!({
        "host": state,
        "machine": machine,
        "attach": attach,
        "rounds": rounds,
        "trips": trips,
        "stream_seconds": stream_seconds,
        "took_seconds": took.as_secs_f64(),
        "rows": rows,
    }))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_come_with_the_conditions_they_were_taken_under() {
        let conditions = Conditions {
            state: HostState { wakeup_us: Some(5.0), load_before: None, stolen_percent: None },
            machine: "a machine".into(),
            attach: "native".into(),
            rounds: 5,
            trips: 20_000,
            stream_seconds: 1,
            took: Duration::from_millis(61_500),
        };
        let shown = conditions.to_string();
        assert!(shown.contains("a machine\n") && shown.contains("native") && shown.ends_with("took 61 s"), "{shown}");
        let written: serde_json::Value = serde_json::from_str(&json(&conditions, &[]).unwrap()).unwrap();
        assert_eq!((&written["machine"], &written["took_seconds"]), (&json!("a machine"), &json!(61.5)));
    }
}
