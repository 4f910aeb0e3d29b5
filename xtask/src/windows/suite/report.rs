//! The table and the JSON of the suite.

use super::SuiteResults;
use super::compare::{ComparedCase, SuiteVerdict};
use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde_json::{Value, json};
use std::fmt::Write;

/// The groups, and below them the cases that differ, with both results.
pub(super) fn table(results: &SuiteResults, all: bool) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["group", "cases", "same", "with a reason", "differ", "packets", "sockets on the kernel"]);
    for run in &results.groups {
        let of_group = |case: &&ComparedCase| case.name.split('/').next() == Some(run.group.as_str());
        let cases: Vec<_> = results.cases.iter().filter(of_group).collect();
        let count = |is: fn(&SuiteVerdict) -> bool| cases.iter().filter(|case| is(&case.verdict)).count().to_string();
        table.add_row([
            run.group.clone(),
            cases.len().to_string(),
            count(|verdict| *verdict == SuiteVerdict::Same),
            count(|verdict| matches!(verdict, SuiteVerdict::Known(_))),
            count(|verdict| *verdict == SuiteVerdict::Differs),
            run.packets.to_string(),
            run.kernel.join("; "),
        ]);
    }
    let mut text = format!("{table}\n");
    for case in &results.cases {
        let word = match &case.verdict {
            SuiteVerdict::Same if all => "same".to_owned(),
            SuiteVerdict::Same => continue,
            SuiteVerdict::Known(reason) => format!("differs: {reason}"),
            SuiteVerdict::Differs => "DIFFERS".to_owned(),
        };
        let _ = writeln!(text, "{}: {word}", case.name);
        let _ = writeln!(text, "    kernel {}", case.kernel);
        if case.verdict != SuiteVerdict::Same {
            let _ = writeln!(text, "    lane   {}", case.lane);
        }
    }
    for name in &results.outdated {
        let _ = writeln!(text, "{name}: does not differ any more");
    }
    text.trim_end().to_owned()
}

/// How many cases there are of each kind.
pub(super) fn sentence(results: &SuiteResults) -> String {
    let count = |is: fn(&SuiteVerdict) -> bool| results.cases.iter().filter(|case| is(&case.verdict)).count();
    format!(
        "{} cases: {} the same, {} differ with a reason, {} differ without; {} known differences are outdated",
        results.cases.len(),
        count(|verdict| *verdict == SuiteVerdict::Same),
        count(|verdict| matches!(verdict, SuiteVerdict::Known(_))),
        count(|verdict| *verdict == SuiteVerdict::Differs),
        results.outdated.len()
    )
}

/// The same for programs.
pub(super) fn json(results: &SuiteResults) -> Result<String> {
    let one = |case: &ComparedCase| -> Value {
        let (verdict, reason) = match &case.verdict {
            SuiteVerdict::Same => ("same", None),
            SuiteVerdict::Known(reason) => ("known", Some(reason)),
            SuiteVerdict::Differs => ("differs", None),
        };
        json!({"case": case.name, "kernel": case.kernel, "lane": case.lane, "verdict": verdict, "reason": reason})
    };
    let cases: Vec<Value> = results.cases.iter().map(one).collect();
    let group = |run: &super::GroupRun| json!({"group": run.group, "packets": run.packets, "on_kernel": run.kernel});
    let groups: Vec<Value> = results.groups.iter().map(group).collect();
    serde_json::to_string_pretty(&json!({"cases": cases, "groups": groups, "outdated": results.outdated}))
        .context("cannot write JSON")
}

#[cfg(test)]
mod tests {
    use super::super::GroupRun;
    use super::*;

    fn results() -> SuiteResults {
        let case = |name: &str, lane: &str, verdict| ComparedCase {
            name: name.to_owned(),
            kernel: "recv=1".to_owned(),
            lane: lane.to_owned(),
            verdict,
        };
        SuiteResults {
            cases: vec![
                case("a/same", "recv=1", SuiteVerdict::Same),
                case("a/known", "recv=2", SuiteVerdict::Known("Wine is early".to_owned())),
                case("a/worse", "recv=3", SuiteVerdict::Differs),
            ],
            groups: vec![GroupRun {
                group: "a".to_owned(),
                packets: 77,
                kernel: vec!["bound to the loopback".to_owned()],
            }],
            outdated: vec!["a/same".to_owned()],
        }
    }

    #[test]
    fn differences_are_shown_with_both_results() {
        let text = table(&results(), false);
        for part in ["a/known: differs: Wine is early", "a/worse: DIFFERS", "lane   recv=3", "77", "the loopback"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.ends_with("a/same: does not differ any more"), "{text}");
        assert!(!text.contains("a/same: same") && table(&results(), true).contains("a/same: same"));
        assert_eq!(
            sentence(&results()),
            "3 cases: 1 the same, 1 differ with a reason, 1 differ without; 1 known differences are outdated"
        );
    }

    #[test]
    fn json_says_the_same() {
        let all: Value = serde_json::from_str(&json(&results()).unwrap()).unwrap();
        assert_eq!(all["cases"][1]["reason"], "Wine is early");
        assert_eq!(all["cases"][2]["verdict"], "differs");
        assert_eq!((all["groups"][0]["packets"].as_u64(), &all["outdated"][0]), (Some(77), &Value::from("a/same")));
    }
}
