//! Tables and JSON.

use super::conditions::Conditions;
use super::figure::{Direction, Part};
use super::outcome::Outcome;
use super::promises::Verdict;
use super::ways::Way;
use crate::bench::harness::{table, verdict};
use comfy_table::Table;
use serde_json::{Value, json};

/// What is printed.
pub(super) fn parts(conditions: &Conditions, outcomes: &[Outcome], verdicts: &[Verdict]) -> Vec<String> {
    let legend = "medians of the rounds; in brackets how many times the kernel: larger is better; a latency's own figure is its p50";
    let mut parts = vec![conditions.to_string(), table(outcomes).to_string(), legend.to_owned()];
    parts.extend(failures(outcomes));
    parts.push(promises(verdicts).to_string());
    parts.extend(missed(verdicts));
    parts
}

/// One line for each figure that a program reports: medians of the rounds, and in brackets how many
/// times better than the kernel.
fn table(outcomes: &[Outcome]) -> Table {
    let mut table = table::with(["program", "figure", "kernel", "client", "server", "both"]);
    for outcome in outcomes {
        for (part, figure) in lines(outcome) {
            let first = if part == Part::Value { outcome.name } else { "" };
            let cells = Way::ALL.map(|way| cell(outcome, way, part));
            table.add_row([first.to_owned(), figure].into_iter().chain(cells));
        }
    }
    table::right(&mut table, 2..6);
    table
}

/// The program's own figure, and the latencies that it reports besides.
fn lines(outcome: &Outcome) -> Vec<(Part, String)> {
    let is_latency = outcome.direction == Direction::LowerIsBetter;
    let own = if is_latency { "p50 us".to_owned() } else { outcome.unit.to_owned() };
    let told = |part: Part| Way::ALL.iter().any(|way| outcome.median(*way, part).is_some());
    let more = [(Part::P50, "p50 us"), (Part::P99, "p99 us")].into_iter();
    let more = more.filter(|(part, _)| told(*part) && !(is_latency && *part == Part::P50));
    std::iter::once((Part::Value, own)).chain(more.map(|(part, name)| (part, name.to_owned()))).collect()
}

fn cell(outcome: &Outcome, way: Way, part: Part) -> String {
    let failed = if part == Part::Value { "FAILED" } else { "" };
    let Some(median) = outcome.median(way, part) else { return failed.to_owned() };
    match outcome.times(way, part) {
        _ if way == Way::Kernel => number(median),
        Some(times) => format!("{} ({times:.2}x)", number(median)),
        None => number(median),
    }
}

fn number(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The ways that were not measured, or not in every round, with the reasons.
fn failures(outcomes: &[Outcome]) -> Vec<String> {
    let mut lines = Vec::new();
    for outcome in outcomes {
        let whys = Way::ALL.map(|way| outcome.failure(way));
        if let [Some(why), ..] = whys
            && whys.iter().all(|other| *other == Some(why))
        {
            lines.push(format!("FAILED {}, in every way: {why}", outcome.name));
            continue;
        }
        for way in Way::ALL {
            let rounds = &outcome.ways[way.index()];
            let Some(why) = outcome.failure(way) else { continue };
            let (failed, all) = (rounds.failures.len(), rounds.failures.len() + rounds.measured.len());
            lines.push(format!("FAILED {}, {way}, {failed} of {all} rounds: {why}", outcome.name));
        }
    }
    lines
}

/// One line for each promise; [`missed`] names the programs.
fn promises(verdicts: &[Verdict]) -> Table {
    let mut table = table::with(["promise, times the kernel", "measured", "bound", ""]);
    for v in verdicts {
        let measured = v.measured.map_or_else(|| "-".into(), |measured| format!("{measured:.2}"));
        table.add_row([&*v.promise, &measured, &format!("{:.2}", v.bound), verdict::word(Some(v.kept()))]);
    }
    table
}

/// The programs that keep a promise from being kept, a line for each way.
fn missed(verdicts: &[Verdict]) -> Vec<String> {
    let missed = verdicts.iter().filter(|verdict| !verdict.missed_by.is_empty());
    missed.map(|verdict| format!("MISSED {}: {}", verdict.promise, verdict.missed_by.join(", "))).collect()
}

/// Everything, round by round.
pub(super) fn json(conditions: &Conditions, outcomes: &[Outcome], verdicts: &[Verdict]) -> Value {
    let promises: Vec<_> = verdicts
        .iter()
        .map(|v| json!({"promise": v.promise, "measured": v.measured, "bound": v.bound, "kept": v.kept(), "missed_by": v.missed_by}))
        .collect();
    let programs: Vec<_> = outcomes.iter().map(program).collect();
    json!({"conditions": conditions, "programs": programs, "promises": promises})
}

fn program(outcome: &Outcome) -> Value {
    let ways: serde_json::Map<String, Value> = Way::ALL
        .iter()
        .map(|way| {
            let rounds = &outcome.ways[way.index()];
            let measured: Vec<_> = rounds
                .measured
                .iter()
                .map(|m| {
                    let crossed: Vec<_> =
                        m.crossed.iter().map(|(end, n)| json!({"end": end.to_string(), "packets": n})).collect();
                    json!({"figure": m.figure, "crossed": crossed, "notes": m.notes})
                })
                .collect();
            let value = json!({
                "median": outcome.median(*way, Part::Value),
                "times_kernel": outcome.times(*way, Part::Value),
                "median_p50_us": outcome.median(*way, Part::P50),
                "median_p99_us": outcome.median(*way, Part::P99),
                "rounds": measured,
                "failures": rounds.failures,
            });
            (way.to_string(), value)
        })
        .collect();
    json!({"program": outcome.name, "about": outcome.about, "unit": outcome.unit, "direction": outcome.direction, "ways": ways})
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::outcome;
    use super::*;

    #[test]
    fn each_figure_has_a_line_with_its_ratios() {
        let outcomes = [outcome("echo", [Some(40.0), Some(20.0), None, Some(50.0)])];
        let text = table(&outcomes).to_string();
        let line =
            |words: &[&str]| text.lines().any(|l| l.trim_matches('│').split_whitespace().eq(words.iter().copied()));
        assert!(line(&["echo", "p50", "us", "40.0", "20.0", "(2.00x)", "FAILED", "50.0", "(0.80x)"]), "{text}");
        assert!(line(&["p99", "us", "80.0", "40.0", "(2.00x)", "100.0", "(0.80x)"]), "{text}");
        assert_eq!(failures(&outcomes), ["FAILED echo, server on Tickwire, 1 of 1 rounds: it hung"]);
    }

    #[test]
    fn what_fails_in_every_way_is_told_once() {
        let outcomes = [outcome("echo", [None; 4])];
        assert_eq!(failures(&outcomes), ["FAILED echo, in every way: it hung"]);
    }

    #[test]
    fn json_has_each_round() {
        let program = program(&outcome("echo", [Some(40.0), Some(20.0), None, Some(50.0)]));
        assert_eq!(program["ways"]["client on Tickwire"]["times_kernel"], json!(2.0));
        assert_eq!(program["ways"]["server on Tickwire"]["failures"][0], "it hung");
        assert_eq!(program["direction"], "lower_is_better");
    }
}
