//! Tables and JSON.

use super::instructions::Cost;
use super::judge::{Bound, Verdict};
use super::rows::Row;
use super::topology::{LANE_CONNECTIONS, Measured};
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

    /// The medians of the rounds.
    pub(super) fn median(&self) -> Option<Measured> {
        let latencies: Vec<Latency> = self.rounds.iter().filter_map(|round| round.latency).collect();
        Some(Measured {
            rate: median(self.rounds.iter().map(|round| round.rate))?,
            share: median(self.rounds.iter().filter_map(|round| round.share)),
            latency: Latency::of_rounds(&latencies),
            packets: median(self.rounds.iter().filter_map(|round| round.packets)),
        })
    }
}

fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// The conditions of the measurement.
pub(super) struct Conditions {
    /// From [`tickwire_report::machine`].
    pub(super) machine: String,
    pub(super) attach: String,
    pub(super) rounds: u32,
    pub(super) messages: u32,
    pub(super) seconds: u32,
    /// Memory of a lane, 0 if none was seen.
    pub(super) lane_bytes: u64,
    pub(super) took: Duration,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, attach, rounds, messages, seconds, lane_bytes, took } = self;
        writeln!(f, "{machine}")?;
        let took = took.as_secs();
        writeln!(f, "divert attached: {attach}; {rounds} rounds of {messages} messages or {seconds} s; took {took} s")?;
        if *lane_bytes > 0 {
            let mib = *lane_bytes as f64 / f64::from(1 << 20);
            writeln!(f, "a lane with room for {LANE_CONNECTIONS} connections: {mib:.1} MiB")?;
        }
        Ok(())
    }
}

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(super) fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["row", "who", "in a second", "", "packets", "p50 us", "p99 us", "max us"]);
    for outcome in outcomes {
        let mut cells = vec![outcome.row.name.to_owned(), outcome.row.ends.to_string()];
        match outcome.median() {
            Some(median) => {
                let rate =
                    if median.rate < 1000.0 { format!("{:.2}", median.rate) } else { format!("{:.0}", median.rate) };
                let packets = median.packets.map_or(String::new(), |packets| format!("{packets:.2}"));
                cells.extend([rate, outcome.row.unit.to_owned(), packets]);
                let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
                cells.extend(median.latency.iter().flat_map(|l| [us(l.p50_ns), us(l.p99_ns), us(l.max_ns)]));
            }
            None => cells.push(
                outcome.failures.last().map_or_else(|| "not measured".into(), |why| format!("failed: {why:.60}")),
            ),
        }
        table.add_row(cells);
    }
    right(&mut table, &[2, 4, 5, 6, 7]);
    table
}

/// The cost of a packet in the stack.
pub(super) fn costs(costs: &[Cost]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["connections", "active", "instructions a packet", "ns a packet", "bytes a connection"]);
    for cost in costs {
        let Cost { connections, active, instructions, ns, bytes } = cost;
        let numbers = [connections.to_string(), active.to_string(), format!("{instructions:.0}"), format!("{ns:.0}")];
        table.add_row(numbers.into_iter().chain([bytes.to_string()]));
    }
    right(&mut table, &[0, 1, 2, 3, 4]);
    table
}

/// One line for each promise, and for each figure without a promise.
pub(super) fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["promise", "measured", "the kernel's", "bound", ""]);
    for verdict in verdicts {
        let bound = match verdict.bound {
            Some(Bound::AtMost(bound)) => format!("<= {bound:.2}"),
            Some(Bound::AtLeast(bound)) => format!(">= {bound:.2}"),
            None => String::new(),
        };
        let kept = match verdict.kept() {
            Some(true) => "kept",
            Some(false) => "MISSED",
            None => "stated",
        };
        let kernel = verdict.kernel.map_or(String::new(), |kernel| format!("{kernel:.2}"));
        table.add_row([verdict.promise, &format!("{:.2}", verdict.measured), &kernel, &bound, kept]);
    }
    right(&mut table, &[1, 2, 3]);
    table
}

fn right(table: &mut Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Everything, round by round.
pub(super) fn json(conditions: &Conditions, outcomes: &[Outcome], costs: &[Cost]) -> Result<String> {
    let measured = |m: &Measured| json!({ "per_second": m.rate, "slower_over_faster": m.share, "latency": m.latency, "packets": m.packets });
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let Outcome { row, rounds, failures } = outcome;
            json!({
                "row": row.name,
                "ends": row.ends.to_string(),
                "unit": row.unit,
                "median": outcome.median().as_ref().map(measured),
                "rounds": rounds.iter().map(measured).collect::<Vec<_>>(),
                "failures": failures,
            })
        })
        .collect();
    let costs: Vec<_> = costs
        .iter()
        .map(|cost| {
            json!({
                "connections": cost.connections,
                "active": cost.active,
                "instructions_a_packet": cost.instructions,
                "ns_a_packet": cost.ns,
                "bytes_a_connection": cost.bytes,
            })
        })
        .collect();
    let Conditions { machine, attach, rounds, messages, seconds, lane_bytes, took } = conditions;
    Ok(serde_json::to_string_pretty(&json!({
        "machine": machine,
        "attach": attach,
        "rounds": rounds,
        "messages": messages,
        "seconds": seconds,
        "lane_bytes": lane_bytes,
        "took_seconds": took.as_secs_f64(),
        "rows": rows,
        "costs": costs,
    }))?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::{self, ROWS};
    use super::super::topology::Ends;
    use super::*;
    use serde_json::Value;

    /// A row with one round.
    pub(in super::super) fn outcome(name: &str, ends: Ends, rate: f64) -> Outcome {
        let row = ROWS.iter().find(|row| row.name == name && row.ends == ends).unwrap();
        Outcome { rounds: vec![Measured { rate, share: None, latency: None, packets: None }], ..Outcome::new(row) }
    }

    #[test]
    fn a_line_has_the_rate_with_its_unit_or_why_there_is_none() {
        let mut failed = outcome(rows::OPEN, Ends::Client, 1.0);
        failed.rounds.clear();
        failed.failures.push("refused".into());
        let shown = table(&[outcome(rows::ONE_STREAM, Ends::Both, 3.456), failed]).to_string();
        let line = |word: &str| shown.lines().find(|line| line.contains(word)).unwrap();
        assert!(line(rows::ONE_STREAM).contains("Tickwire") && line("3.46").contains("Gbit"), "{shown}");
        assert!(line(rows::OPEN).contains("failed: refused"), "{shown}");
    }

    #[test]
    fn the_figures_come_with_the_conditions_they_were_taken_under() {
        let conditions = Conditions {
            machine: "a machine".into(),
            attach: "native".into(),
            rounds: 5,
            messages: 1000,
            seconds: 2,
            lane_bytes: 34 << 20,
            took: Duration::from_millis(61_500),
        };
        let shown = conditions.to_string();
        assert!(shown.contains("took 61 s") && shown.ends_with("34.0 MiB\n"), "{shown}");
        let cost = Cost { connections: 10, active: 10, instructions: 900.5, ns: 300.0, bytes: 1400 };
        let text = json(&conditions, &[outcome(rows::FEW, Ends::Kernel, 7.0)], &[cost]).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(written["rows"][0]["median"]["per_second"], 7.0);
        assert_eq!(written["costs"][0]["bytes_a_connection"], 1400);
    }

    #[test]
    fn what_was_missed_and_what_was_only_stated_is_told_apart() {
        let verdict = |measured, bound| Verdict { promise: "one", measured, kernel: Some(1.0), bound };
        let shown = verdicts(&[verdict(2.0, Some(Bound::AtMost(1.1))), verdict(2.0, None)]).to_string();
        assert!(shown.contains("MISSED") && shown.contains("stated") && shown.contains("<= 1.10"), "{shown}");
    }
}
