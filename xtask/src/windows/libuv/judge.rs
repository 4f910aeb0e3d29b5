//! What differs, and what is known to differ.

use super::hosts::TestRun;
use crate::windows::suite::known;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// Where the differences are that have a reason, and below which heading: in a table whose rows
/// begin with the tests.
pub(super) use crate::windows::suite::known::FILE;
const HEADING: &str = "\n## libuv's tests\n";

/// The reason of each test that is known to differ.
pub(super) type KnownTests = BTreeMap<String, String>;

/// How the results of a test compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TestVerdict {
    /// Passed on both.
    Passed,
    /// The same on both, but not passed: it was skipped or has failed.
    Same,
    /// Different, with a reason.
    Known(String),
    /// Different.
    Differs,
}

/// A test, and its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JudgedTest {
    pub(super) name: String,
    pub(super) kernel: String,
    pub(super) lane: String,
    /// Packets that crossed the lane.
    pub(super) packets: u64,
    /// Those that guard has refused.
    pub(super) refused: u64,
    /// Why sockets stayed on the kernel.
    pub(super) on_kernel: Vec<String>,
    pub(super) verdict: TestVerdict,
}

/// Reads the known differences. Each names a test that there is.
pub(super) fn known(all: &[String]) -> Result<KnownTests> {
    let file = workspace::root().join(FILE);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text, all)
}

fn parse(text: &str, all: &[String]) -> Result<KnownTests> {
    let (_, section) = text.split_once(HEADING).with_context(|| format!("{FILE} has no section on libuv's tests"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut known = KnownTests::new();
    for (name, reason) in known::rows(section) {
        ensure!(all.iter().any(|test| test == name), "{FILE} names a test that there is not: {name}");
        ensure!(!reason.is_empty(), "{FILE} has no reason for {name}");
        ensure!(known.insert(name.to_owned(), reason.to_owned()).is_none(), "{FILE} names a test twice: {name}");
    }
    Ok(known)
}

/// Compares the results of a test.
pub(super) fn judge(name: &str, kernel: TestRun, lane: TestRun, known: &KnownTests) -> JudgedTest {
    let verdict = match known.get(name) {
        _ if kernel.result == lane.result && lane.result == "ok" => TestVerdict::Passed,
        _ if kernel.result == lane.result => TestVerdict::Same,
        Some(reason) => TestVerdict::Known(reason.clone()),
        None => TestVerdict::Differs,
    };
    JudgedTest {
        name: name.to_owned(),
        kernel: kernel.result,
        lane: lane.result,
        packets: lane.packets,
        refused: lane.refused,
        on_kernel: lane.kernel,
        verdict,
    }
}

/// The known differences of these tests that there are no longer.
pub(super) fn outdated(tests: &[JudgedTest], known: &KnownTests) -> Vec<String> {
    let same = tests.iter().filter(|test| matches!(test.verdict, TestVerdict::Passed | TestVerdict::Same));
    same.filter(|test| known.contains_key(&test.name)).map(|test| test.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Suite\n| `a/case` | other |\n\n## libuv's tests\n\n| tests | reason |\n|---|---|\n\
                        | `known`, `gone` | why |\n\n## More\n| `more` | other |\n";

    fn all() -> Vec<String> {
        ["known", "gone", "new", "passed", "skipped"].map(str::to_owned).into()
    }

    #[test]
    fn differences_need_a_reason_and_reasons_a_difference() {
        let known = parse(TEXT, &all()).unwrap();
        let run = |result: &str| TestRun { result: result.to_owned(), ..TestRun::default() };
        let judge = |name: &str, kernel: &str, lane: &str| judge(name, run(kernel), run(lane), &known);
        let tests = [
            judge("known", "ok", "failed"),
            judge("gone", "ok", "ok"),
            judge("new", "failed: 1", "failed: 2"),
            judge("skipped", "skipped: why", "skipped: why"),
        ];
        let verdicts: Vec<_> = tests.iter().map(|test| test.verdict.clone()).collect();
        let expected =
            [TestVerdict::Known("why".to_owned()), TestVerdict::Passed, TestVerdict::Differs, TestVerdict::Same];
        assert_eq!(verdicts, expected);
        assert_eq!(outdated(&tests, &known), ["gone"]);
    }

    #[test]
    fn rows_that_are_wrong_are_refused() {
        for (row, words) in [
            ("| `other` | why |", "that there is not: other"),
            ("| `new` | |", "no reason for new"),
            ("| `new`, `new` | why |", "twice: new"),
        ] {
            let error = parse(&format!("{HEADING}{row}\n"), &all()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(parse("# Suite\n", &all()).is_err());
    }
}
