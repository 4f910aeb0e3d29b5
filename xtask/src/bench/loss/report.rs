//! Tables and JSON.

use super::ends::Ends;
use super::judge::Verdict;
use super::rows::Cell;
use super::topology::Measured;
use crate::bench::harness::{Outcome, table, verdict};
use comfy_table::Table;
use serde_json::{Value, json};
use tickwire_lab::{Passed, Way};

/// Messages of one size: one line for each row, `p50 / p99 / max` in ms and goodput; medians over
/// the rounds, the maximum of all rounds.
pub(super) fn table(outcomes: &[Outcome<Cell, Measured>], size: u32) -> Table {
    let head = format!("{} KB: p50 / p99 / max ms, Mbit/s", size / 1000);
    let mut table = table::with([head].into_iter().chain(Ends::ALL.map(|ends| ends.to_string())));
    let of_size: Vec<_> = outcomes.iter().filter(|outcome| outcome.cell.size == size).collect();
    for row in of_size.chunks(Ends::ALL.len()) {
        let name = row.first().map_or(String::new(), |outcome| outcome.cell.row.name.to_owned());
        table.add_row([name].into_iter().chain(row.iter().map(|outcome| figures(outcome))));
    }
    table::right(&mut table, 1..=Ends::ALL.len());
    table
}

fn figures(outcome: &Outcome<Cell, Measured>) -> String {
    let Some(median) = outcome.median() else { return outcome.failure_text(40) };
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
    let mut table = table::with(["against kernel-kernel", "figure", "times better", "bound", ""]);
    let kept = verdicts.iter().filter(|verdict| verdict.kept()).count();
    // Promises with a number are always listed.
    for v in verdicts.iter().filter(|v| !v.kept() || v.bound > 1.0) {
        let kept = verdict::word(Some(v.kept()));
        table.add_row([&v.cell, v.figure, &format!("{:.2}", v.better), &format!("{:.1}", v.bound), kept]);
    }
    let near = verdicts.iter().filter(|verdict| !verdict.kept() && verdict.better >= NEAR * verdict.bound).count();
    let kept = format!("{kept} of {} comparisons kept, {near} missed by less than a tenth", verdicts.len());
    table.add_row([&kept, "", "", "", ""]);
    table::right(&mut table, 2..4);
    table
}

/// A cell, round by round.
pub(super) fn cell_json(outcome: &Outcome<Cell, Measured>) -> Value {
    let Cell { row, size, ends } = outcome.cell;
    let own = json!({ "row": row.name, "bytes": size, "ends": ends.to_string(), "median": outcome.median() });
    outcome.json(own, |m| json!({ "transfer": m.transfer, "relay": passed(&m.passed) }))
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
    use super::super::rows::ROWS;
    use super::super::topology::Added;
    use super::*;
    use std::time::Duration;
    use tickwire_bench::latency::Latency;
    use tickwire_bench::rate::RateFigures;
    use tickwire_bench::transfer::Transfer;

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
    pub(in super::super) fn outcome(row: &str, size: u32, ends: Ends, ns: u64) -> Outcome<Cell, Measured> {
        let row = ROWS.iter().find(|one| one.name == row).unwrap();
        let completion = Latency { p50_ns: ns, p99_ns: ns, max_ns: ns, ..LATENCY };
        let transfer = Transfer { completion, goodput: RateFigures::new(1_000_000, Duration::from_secs(1)) };
        let passed = Passed { forth: WAY, back: WAY, late_mean_ns: 1, late_max_ns: 2, processor_us: 3 };
        Outcome { rounds: vec![Measured { transfer, passed }], ..Outcome::new(Cell { row, size, ends }) }
    }

    #[test]
    fn a_line_has_every_kind_of_ends_side_by_side() {
        let mut outcomes: Vec<_> = Ends::ALL.map(|ends| outcome("burst", 20_000, ends, 45_600_000)).into();
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
    fn what_the_relay_adds_and_what_it_did_is_told() {
        let added = Added { relay: LATENCY, cable: Latency { p50_ns: 60_000, ..LATENCY } };
        let shown = added.to_string();
        assert!(shown.contains("between kernels: p50 230, ") && shown.contains("cable p50 60, "), "{shown}");
        let written = cell_json(&outcome("tail", 20_000, Ends::OursKernel, 5));
        assert_eq!((&written["row"], &written["ends"]), (&json!("tail"), &json!("ours-kernel")));
        assert_eq!(written["rounds"][0]["relay"]["forth"]["dropped"], 5);
    }
}
