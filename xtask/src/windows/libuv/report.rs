//! The table and the JSON of libuv's tests.

use super::LibuvResults;
use super::judge::{JudgedTest, TestVerdict};
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::fmt::Write;

/// A verdict in a word.
pub(super) fn word(verdict: &TestVerdict) -> &'static str {
    match verdict {
        TestVerdict::Passed => "passed on both",
        TestVerdict::Same => "the same",
        TestVerdict::Known(_) => "differs, with a reason",
        TestVerdict::Differs => "DIFFERS",
    }
}

/// One line for each test, and below the table what was not passed on both.
pub(super) fn table(results: &LibuvResults) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["test", "kernel", "lane", "packets", "verdict"]);
    let mut text = String::new();
    for test in &results.tests {
        // Of `failed: WHY` the word; the rest is below the table.
        let short = |result: &str| result.split(':').next().unwrap_or_default().to_owned();
        table.add_row([
            test.name.clone(),
            short(&test.kernel),
            short(&test.lane),
            test.packets.to_string(),
            word(&test.verdict).to_owned(),
        ]);
        text += &below(test);
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for name in &results.outdated {
        let _ = writeln!(text, "{name}: does not differ any more");
    }
    format!("{table}\n{}", text.trim_end())
}

/// What is said of a test that was not passed on both, or of which no packet crossed the lane.
fn below(test: &JudgedTest) -> String {
    let mut text = match &test.verdict {
        TestVerdict::Passed => String::new(),
        TestVerdict::Same => format!("{}: both {}\n", test.name, test.lane),
        verdict => {
            let reason = if let TestVerdict::Known(reason) = verdict { reason } else { "without a reason" };
            format!("{}: differs: {reason}\n    kernel {}\n    lane   {}\n", test.name, test.kernel, test.lane)
        }
    };
    if test.refused > 0 {
        let _ = writeln!(text, "{}: guard has refused {} packets", test.name, test.refused);
    }
    if test.packets == 0 && !test.on_kernel.is_empty() {
        let _ = writeln!(text, "{}: stayed on the kernel: {}", test.name, test.on_kernel.join("; "));
    }
    text
}

/// How many tests there are of each kind.
pub(super) fn sentence(results: &LibuvResults) -> String {
    let tests = &results.tests;
    let count = |is: fn(&JudgedTest) -> bool| tests.iter().filter(|test| is(test)).count();
    format!(
        "{} tests: {} passed on both, {} not passed but the same, {} differ with a reason, {} differ without; \
         {} crossed the lane, with {} packets",
        tests.len(),
        count(|test| test.verdict == TestVerdict::Passed),
        count(|test| test.verdict == TestVerdict::Same),
        count(|test| matches!(test.verdict, TestVerdict::Known(_))),
        count(|test| test.verdict == TestVerdict::Differs),
        count(|test| test.packets > 0),
        tests.iter().map(|test| test.packets).sum::<u64>()
    )
}

/// The same for programs.
pub(super) fn json(results: &LibuvResults) -> Result<String> {
    let one = |test: &JudgedTest| -> Value {
        let (verdict, reason) = match &test.verdict {
            TestVerdict::Passed => ("passed", None),
            TestVerdict::Same => ("same", None),
            TestVerdict::Known(reason) => ("known", Some(reason)),
            TestVerdict::Differs => ("differs", None),
        };
        json!({
            "test": test.name,
            "kernel": test.kernel,
            "lane": test.lane,
            "lane_packets": test.packets,
            "refused_packets": test.refused,
            "on_kernel": test.on_kernel,
            "verdict": verdict,
            "reason": reason,
        })
    };
    let tests: Vec<Value> = results.tests.iter().map(one).collect();
    serde_json::to_string_pretty(&json!({"tests": tests, "outdated": results.outdated})).context("cannot write JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> LibuvResults {
        let test = |name: &str, kernel: &str, lane: &str, packets, verdict| JudgedTest {
            name: name.to_owned(),
            kernel: kernel.to_owned(),
            lane: lane.to_owned(),
            packets,
            refused: u64::from(name == "bad"),
            on_kernel: vec!["its peer is on this host".to_owned()],
            verdict,
        };
        LibuvResults {
            tests: vec![
                test("good", "ok", "ok", 12, TestVerdict::Passed),
                test("local", "ok", "ok", 0, TestVerdict::Passed),
                test("bad", "failed: timeout", "failed: timeout", 3, TestVerdict::Same),
                test("known", "ok", "failed: timeout", 5, TestVerdict::Known("Wine is early".to_owned())),
                test("worse", "ok", "failed: exit code 3", 2, TestVerdict::Differs),
            ],
            outdated: vec!["good".to_owned()],
        }
    }

    #[test]
    fn each_test_has_a_line_and_failures_their_text() {
        let text = table(&results());
        for part in [
            "bad: both failed: timeout",
            "known: differs: Wine is early\n    kernel ok\n    lane   failed: timeout",
            "worse: differs: without a reason",
            "bad: guard has refused 1 packets",
            "local: stayed on the kernel: its peer is on this host",
            "DIFFERS",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("good: stayed") && text.ends_with("good: does not differ any more"), "{text}");
        assert_eq!(
            sentence(&results()),
            "5 tests: 2 passed on both, 1 not passed but the same, 1 differ with a reason, 1 differ without; \
             4 crossed the lane, with 22 packets"
        );
    }

    #[test]
    fn json_says_the_same() {
        let all: Value = serde_json::from_str(&json(&results()).unwrap()).unwrap();
        let verdicts: Vec<&str> =
            all["tests"].as_array().unwrap().iter().map(|test| test["verdict"].as_str().unwrap()).collect();
        assert_eq!(verdicts, ["passed", "passed", "same", "known", "differs"]);
        assert_eq!((all["tests"][0]["lane_packets"].as_u64(), &all["outdated"][0]), (Some(12), &Value::from("good")));
    }
}
