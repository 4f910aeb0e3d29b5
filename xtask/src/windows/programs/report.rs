//! The table and the JSON of the cases.

use super::judge::CaseResult;
use super::outcome::{CaseFigure, LaneOutcome, one_line};
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// One line for each case, and below the table why some are not on the lane.
pub(in crate::windows) fn table(results: &[CaseResult]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["program", "kernel", "lane", "ratio", "packets", "outcome"]);
    let mut reasons = String::new();
    for result in results {
        table.add_row(match result {
            CaseResult::Skipped { case, reason } => {
                reasons += &format!("{}: skipped: {reason}\n", case.name);
                [case.name.to_owned(), String::new(), String::new(), String::new(), String::new(), "skipped".to_owned()]
            }
            CaseResult::Ran { case, kernel, lane } => {
                if let Err(error) = kernel {
                    reasons += &format!("{}, on the kernel: failed: {}\n", case.name, one_line(error));
                }
                if let Some(reason) = lane.reason() {
                    reasons += &format!("{}: {}: {reason}\n", case.name, lane.word());
                }
                let shown =
                    |figure: Option<CaseFigure>| figure.map_or("failed".to_owned(), |figure| figure.to_string());
                let packets = match lane {
                    LaneOutcome::OnLane(_, packets) => packets.to_string(),
                    _ => String::new(),
                };
                let figures = (kernel.as_ref().ok().copied(), lane.figure());
                [
                    case.name.to_owned(),
                    shown(figures.0),
                    shown(figures.1),
                    ratio(lane, figures),
                    packets,
                    lane.word().to_owned(),
                ]
            }
        });
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{reasons}")
}

/// How many times better the lane is, if the program was on it.
fn ratio(lane: &LaneOutcome, figures: (Option<CaseFigure>, Option<CaseFigure>)) -> String {
    let ratio = match figures {
        (Some(CaseFigure::RoundTrip(kernel)), Some(CaseFigure::RoundTrip(ours))) if ours > 0.0 => kernel / ours,
        (Some(CaseFigure::Rate(kernel)), Some(CaseFigure::Rate(ours))) if kernel > 0.0 => ours / kernel,
        _ => return String::new(),
    };
    match lane {
        LaneOutcome::OnLane(..) => format!("{ratio:.2}"),
        _ => String::new(),
    }
}

/// The same for programs.
pub(in crate::windows) fn json(results: &[CaseResult]) -> Result<String> {
    let figure = |figure: CaseFigure| match figure {
        CaseFigure::RoundTrip(us) => json!({"round_trip_us": us}),
        CaseFigure::Rate(rate) => json!({"mbit_per_s": rate}),
        CaseFigure::Works => json!({}),
    };
    let one = |result: &CaseResult| -> Value {
        match result {
            CaseResult::Skipped { case, reason } => {
                json!({"program": case.name, "outcome": "skipped", "reason": reason})
            }
            CaseResult::Ran { case, kernel, lane } => {
                let packets = match lane {
                    LaneOutcome::OnLane(_, packets) => Some(*packets),
                    _ => None,
                };
                json!({
                    "program": case.name,
                    "calls": case.calls,
                    "kernel": kernel.as_ref().ok().map(|of| figure(*of)),
                    "kernel_error": kernel.as_ref().err().map(one_line),
                    "lane": lane.figure().map(figure),
                    "outcome": lane.word(),
                    "reason": lane.reason(),
                    "lane_packets": packets,
                })
            }
        }
    };
    let all: Vec<Value> = results.iter().map(one).collect();
    serde_json::to_string_pretty(&json!({ "programs": all })).context("cannot write JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::programs::cases::CASES;
    use anyhow::anyhow;

    fn results() -> Vec<CaseResult> {
        let ran = |place: usize, kernel, lane| CaseResult::Ran { case: &CASES[place], kernel, lane };
        vec![
            ran(0, Ok(CaseFigure::RoundTrip(60.0)), LaneOutcome::OnLane(CaseFigure::RoundTrip(15.0), 4000)),
            ran(1, Ok(CaseFigure::Rate(900.0)), LaneOutcome::OnKernel(CaseFigure::Rate(900.0), "events".into())),
            ran(2, Err(anyhow!("no\nanswer")), LaneOutcome::Failed(anyhow!("error 10045"))),
            CaseResult::Skipped { case: &CASES[3], reason: "it cannot be had".into() },
        ]
    }

    #[test]
    fn each_outcome_has_a_line_and_a_reason() {
        let text = table(&results());
        for part in ["60.0 us", "15.0 us", "4.00", "4000", "stayed on the kernel: events", "failed: error 10045"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.contains("on the kernel: failed: no answer") && text.contains("skipped: it cannot be had"),
            "{text}"
        );
    }

    #[test]
    fn json_says_the_same() {
        let all: Value = serde_json::from_str(&json(&results()).unwrap()).unwrap();
        let outcomes: Vec<&str> =
            all["programs"].as_array().unwrap().iter().map(|p| p["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["on the lane", "stayed on the kernel", "failed", "skipped"]);
        assert_eq!(all["programs"][0]["lane"]["round_trip_us"], 15.0);
        assert_eq!(all["programs"][2]["kernel_error"], "no answer");
    }
}
