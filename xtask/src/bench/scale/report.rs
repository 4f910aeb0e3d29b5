//! Tables and JSON.

use super::instructions::Cost;
use super::rows::Row;
use super::topology::Measured;
use crate::bench::harness::medians::us;
use crate::bench::harness::{Bound, Outcome, Verdict, table, verdict};
use comfy_table::Table;
use serde_json::{Value, json};

/// One line for each row: medians over the rounds; the maximum is the worst of all rounds.
pub(super) fn table(outcomes: &[Outcome<&'static Row, Measured>]) -> Table {
    let mut table = table::with(["row", "who", "in a second", "", "packets", "p50 us", "p99 us", "max us"]);
    for outcome in outcomes {
        let row = outcome.cell;
        let mut cells = vec![row.name.to_owned(), row.ends.to_string()];
        match outcome.median() {
            Some(median) => {
                let rate =
                    if median.rate < 1000.0 { format!("{:.2}", median.rate) } else { format!("{:.0}", median.rate) };
                let packets = median.packets.map_or(String::new(), |packets| format!("{packets:.2}"));
                cells.extend([rate, row.unit.to_owned(), packets]);
                let figures = median.latency.iter().flat_map(|l| [l.p50_ns, l.p99_ns, l.max_ns]);
                cells.extend(figures.map(|ns| us(ns, 1)));
            }
            None => cells.push(outcome.failure_text(60)),
        }
        table.add_row(cells);
    }
    table::right(&mut table, [2, 4, 5, 6, 7]);
    table
}

/// The cost of a packet in the stack.
pub(super) fn costs(costs: &[Cost]) -> Table {
    let mut table =
        table::with(["connections", "active", "instructions a packet", "ns a packet", "bytes a connection"]);
    for cost in costs {
        let Cost { connections, active, instructions, ns, bytes } = cost;
        let numbers = [connections.to_string(), active.to_string(), format!("{instructions:.0}"), format!("{ns:.0}")];
        table.add_row(numbers.into_iter().chain([bytes.to_string()]));
    }
    table::right(&mut table, 0..5);
    table
}

/// One line for each promise, and for each figure without a promise.
pub(super) fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = table::with(["promise", "measured", "the kernel's", "bound", ""]);
    for verdict in verdicts {
        let bound = match verdict.bound {
            Some(Bound::AtMost(bound)) => format!("<= {bound:.2}"),
            Some(Bound::AtLeast(bound)) => format!(">= {bound:.2}"),
            None => String::new(),
        };
        let kernel = verdict.kernel.map_or(String::new(), |kernel| format!("{kernel:.2}"));
        let (measured, kept) = (format!("{:.2}", verdict.measured), verdict::word(verdict.kept()));
        table.add_row([&*verdict.promise, &measured, &kernel, &bound, kept]);
    }
    table::right(&mut table, 1..4);
    table
}

/// All rows, round by round.
pub(super) fn rows_json(outcomes: &[Outcome<&'static Row, Measured>]) -> Vec<Value> {
    let measured = |m: &Measured| json!({ "per_second": m.rate, "slower_over_faster": m.share, "latency": m.latency, "packets": m.packets });
    let row = |outcome: &Outcome<&'static Row, Measured>| {
        let Row { name, ends, unit, .. } = outcome.cell;
        let median = outcome.median().as_ref().map(measured);
        outcome.json(json!({ "row": name, "ends": ends.to_string(), "unit": unit, "median": median }), measured)
    };
    outcomes.iter().map(row).collect()
}

/// The cost of a packet in the stack.
pub(super) fn costs_json(costs: &[Cost]) -> Vec<Value> {
    let cost = |cost: &Cost| {
        json!({
            "connections": cost.connections,
            "active": cost.active,
            "instructions_a_packet": cost.instructions,
            "ns_a_packet": cost.ns,
            "bytes_a_connection": cost.bytes,
        })
    };
    costs.iter().map(cost).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::{self, ROWS};
    use super::*;
    use crate::bench::harness::host_pairs::Ends;

    /// A row with one round.
    pub(in super::super) fn outcome(name: &str, ends: Ends, rate: f64) -> Outcome<&'static Row, Measured> {
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
    fn the_file_has_every_row_and_every_cost() {
        let written = rows_json(&[outcome(rows::FEW, Ends::Kernel, 7.0)]);
        assert_eq!((&written[0]["median"]["per_second"], &written[0]["ends"]), (&json!(7.0), &json!("kernel")));
        let cost = Cost { connections: 10, active: 10, instructions: 900.5, ns: 300.0, bytes: 1400 };
        assert_eq!(costs_json(&[cost])[0]["bytes_a_connection"], 1400);
    }

    #[test]
    fn what_was_missed_and_what_was_only_stated_is_told_apart() {
        let verdict = |measured, bound| Verdict { promise: "one".into(), measured, kernel: Some(1.0), bound };
        let shown = verdicts(&[verdict(2.0, Some(Bound::AtMost(1.1))), verdict(2.0, None)]).to_string();
        assert!(shown.contains("MISSED") && shown.contains("stated") && shown.contains("<= 1.10"), "{shown}");
    }
}
