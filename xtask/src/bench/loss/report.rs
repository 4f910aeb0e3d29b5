//! Tables and JSON.

use super::judge::Verdict;
use super::topology::{Added, Beside, Ends, Measured};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tickwire_bench::transfer::Transfer;
use tickwire_lab::{Passed, Way};

/// One cell with all its rounds.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) row: &'static str,
    pub(super) size: u32,
    pub(super) ends: Ends,
    /// One entry for each round that succeeded.
    pub(super) rounds: Vec<Measured>,
    /// The errors of the rounds that failed.
    pub(super) failures: Vec<String>,
}

impl Outcome {
    pub(super) fn new(row: &'static str, size: u32, ends: Ends) -> Self {
        Self { row, size, ends, rounds: Vec::new(), failures: Vec::new() }
    }

    /// The medians of the rounds.
    pub(super) fn median(&self) -> Option<Transfer> {
        Transfer::of_rounds(&self.rounds.iter().map(|round| round.transfer).collect::<Vec<_>>())
    }
}

/// The conditions of the measurement.
pub(super) struct Conditions {
    /// From [`tickwire_report::machine`].
    pub(super) machine: String,
    pub(super) attach: String,
    /// The congestion control of the kernels.
    pub(super) congestion: String,
    pub(super) beside: Beside,
    pub(super) rounds: u32,
    pub(super) seconds: u32,
    pub(super) messages: u32,
    pub(super) seed: u32,
    pub(super) added: Added,
    pub(super) took: Duration,
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, attach, congestion, beside, rounds, seconds, messages, seed, added, took } = self;
        writeln!(f, "{machine}")?;
        writeln!(
            f,
            "divert attached: {attach}; the kernels use {congestion}; the cable beside the {beside}; {rounds} rounds of {seconds} s or {messages} messages a cell, seeds from {seed}; took {} s",
            took.as_secs()
        )?;
        let us = |ns: u64| ns as f64 / 1000.0;
        let (relay, cable) = (added.relay, added.cable);
        write!(
            f,
            "the relay by itself, a 64-byte round trip between kernels: p50 {:.0}, p99 {:.0} us; on a plain cable p50 {:.0}, p99 {:.0} us",
            us(relay.p50_ns),
            us(relay.p99_ns),
            us(cable.p50_ns),
            us(cable.p99_ns)
        )
    }
}

/// Messages of one size: one line for each row, `p50 / p99 / max` in ms and goodput; medians over
/// the rounds, the maximum of all rounds.
pub(super) fn table(outcomes: &[Outcome], size: u32) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let head = format!("{} KB: p50 / p99 / max ms, Mbit/s", size / 1000);
    table.set_header([head].into_iter().chain(Ends::ALL.map(|ends| ends.to_string())));
    let of_size: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.size == size).collect();
    for row in of_size.chunks(Ends::ALL.len()) {
        let name = row.first().map_or(String::new(), |outcome| outcome.row.to_owned());
        table.add_row([name].into_iter().chain(row.iter().map(|outcome| cell(outcome))));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cell(outcome: &Outcome) -> String {
    let Some(median) = outcome.median() else {
        return outcome.failures.last().map_or_else(|| "not measured".into(), |why| format!("failed: {why:.40}"));
    };
    let [p50, p99, max] =
        [median.completion.p50_ns, median.completion.p99_ns, median.completion.max_ns].map(milliseconds);
    format!("{p50} / {p99} / {max}, {:.0}", median.goodput.bits_per_second / 1e6)
}

/// Milliseconds with three significant digits.
fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ms {
        ..10.0 => format!("{ms:.2}"),
        ..100.0 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// Two equal columns differ by this much in short runs on a shared machine.
const NEAR: f64 = 0.9;

/// The verdicts that were not kept, line by line, and the number that were.
pub(super) fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["against kernel-kernel", "figure", "times better", "bound", ""]);
    let kept = verdicts.iter().filter(|verdict| verdict.kept()).count();
    // Promises with a number are always listed.
    for v in verdicts.iter().filter(|v| !v.kept() || v.bound > 1.0) {
        let kept = if v.kept() { "kept" } else { "MISSED" };
        table.add_row([&v.cell, v.figure, &format!("{:.2}", v.better), &format!("{:.1}", v.bound), kept]);
    }
    let near = verdicts.iter().filter(|verdict| !verdict.kept() && verdict.better >= NEAR * verdict.bound).count();
    let kept = format!("{kept} of {} comparisons kept, {near} missed by less than a tenth", verdicts.len());
    table.add_row([&kept, "", "", "", ""]);
    for column in table.column_iter_mut().skip(2).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Everything, round by round.
pub(super) fn json(conditions: &Conditions, outcomes: &[Outcome]) -> Result<String> {
    let cells: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            let Outcome { row, size, ends, rounds, failures } = outcome;
            let rounds: Vec<_> =
                rounds.iter().map(|m| json!({ "transfer": m.transfer, "relay": passed(&m.passed) })).collect();
            json!({
                "row": row,
                "bytes": size,
                "ends": ends.to_string(),
                "median": outcome.median(),
                "rounds": rounds,
                "failures": failures,
            })
        })
        .collect();
    let Conditions { machine, attach, congestion, beside, rounds, seconds, messages, seed, added, took } = conditions;
    Ok(serde_json::to_string_pretty(&json!({
        "machine": machine,
        "attach": attach,
        "congestion": congestion,
        "cable_beside": beside.to_string(),
        "rounds": rounds,
        "seconds": seconds,
        "messages": messages,
        "seed": seed,
        "round_trip": { "relay": added.relay, "cable": added.cable },
        "took_seconds": took.as_secs_f64(),
        "cells": cells,
    }))?)
}

fn passed(passed: &Passed) -> Value {
    let way = |way: &Way| {
        json!({
            "sent": way.sent,
            "delivered": way.delivered,
            "dropped": way.dropped(),
            "marked": way.marked,
            "duplicated": way.duplicated,
            "reordered": way.reordered,
        })
    };
    json!({
        "forth": way(&passed.forth),
        "back": way(&passed.back),
        "late_mean_ns": passed.late_mean_ns,
        "late_max_ns": passed.late_max_ns,
        "processor_us": passed.processor_us,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tickwire_bench::latency::Latency;
    use tickwire_bench::rate::Rate;

    const LATENCY: Latency = Latency {
        count: 9,
        min_ns: 1,
        p50_ns: 230_000,
        p99_ns: 45_600_000,
        p999_ns: 1,
        max_ns: 1_234_000_000,
        lost: 0,
    };
    const WAY: Way = Way {
        sent: 100,
        delivered: 95,
        lost: 4,
        tails: 1,
        dark: 0,
        marked: 0,
        duplicated: 0,
        reordered: 0,
        too_big: 0,
        overflowed: 0,
        refused: 0,
    };

    /// A cell with one round in which every message took `ns`.
    pub(in super::super) fn outcome(row: &'static str, size: u32, ends: Ends, ns: u64) -> Outcome {
        let completion = Latency { p50_ns: ns, p99_ns: ns, max_ns: ns, ..LATENCY };
        let transfer = Transfer { completion, goodput: Rate::new(1_000_000, Duration::from_secs(1)) };
        let passed = Passed { forth: WAY, back: WAY, late_mean_ns: 1, late_max_ns: 2, processor_us: 3 };
        Outcome { rounds: vec![Measured { transfer, passed }], ..Outcome::new(row, size, ends) }
    }

    #[test]
    fn a_line_has_every_kind_of_ends_side_by_side() {
        let mut outcomes: Vec<Outcome> = Ends::ALL.map(|ends| outcome("burst", 20_000, ends, 45_600_000)).into();
        outcomes[3].rounds.clear();
        outcomes[3].failures.push("the relay failed".into());
        outcomes.extend(Ends::ALL.map(|ends| outcome("burst", 640_000, ends, 1_234_000_000)));
        let shown = table(&outcomes, 20_000).to_string();
        let line = shown.lines().find(|line| line.contains("burst")).unwrap();
        assert_eq!(line.matches("45.6 / 45.6 / 45.6, 8").count(), 3, "{shown}");
        assert!(line.contains("failed: the relay failed") && !shown.contains("1234"), "{shown}");
    }

    #[test]
    fn what_was_not_kept_is_named() {
        let verdict = |cell: &str, better, bound| Verdict { cell: cell.into(), figure: "p99", better, bound };
        let shown = verdicts(&[verdict("one", 0.9, 1.0), verdict("two", 12.0, 10.0), verdict("three", 1.0, 1.0)]);
        let shown = shown.to_string();
        assert!(shown.contains("one") && shown.contains("two") && !shown.contains("three"), "{shown}");
        assert!(shown.contains("MISSED") && shown.contains("2 of 3 comparisons kept"), "{shown}");
    }

    #[test]
    fn the_figures_come_with_the_conditions_they_were_taken_under() {
        let conditions = Conditions {
            machine: "a machine".into(),
            attach: "native".into(),
            congestion: "cubic".into(),
            beside: Beside::Sender,
            rounds: 3,
            seconds: 2,
            messages: 10,
            seed: 1,
            added: Added { relay: LATENCY, cable: Latency { p50_ns: 60_000, ..LATENCY } },
            took: Duration::from_millis(61_500),
        };
        let shown = conditions.to_string();
        assert!(shown.contains("took 61 s") && shown.contains("p50 230") && shown.contains("p50 60,"), "{shown}");
        let cells = [outcome("tail", 20_000, Ends::OursKernel, 5)];
        let written: Value = serde_json::from_str(&json(&conditions, &cells).unwrap()).unwrap();
        assert_eq!(written["round_trip"]["cable"]["p50_ns"], 60_000);
        assert_eq!(written["cells"][0]["ends"], "ours-kernel");
        assert_eq!(written["cells"][0]["rounds"][0]["relay"]["forth"]["dropped"], 5);
    }
}
