//! Comparing the results of cases.

use super::groups::CaseLines;
use super::known::KnownDifferences;

/// What is said of a case that has printed no result.
const MISSING: &str = "(no result: the program has ended)";

/// How a case compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SuiteVerdict {
    /// The same on both.
    Same,
    /// Different, with a reason.
    Known(String),
    /// Different.
    Differs,
}

/// A case, and what it has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComparedCase {
    /// `GROUP/NAME`.
    pub(super) name: String,
    pub(super) kernel: String,
    pub(super) lane: String,
    pub(super) verdict: SuiteVerdict,
}

/// Compares the results of a group.
pub(super) fn compare(
    group: &str,
    names: &[String],
    on_kernel: &CaseLines,
    on_lane: &CaseLines,
    known: &KnownDifferences,
) -> Vec<ComparedCase> {
    let one = |short: &String| {
        let name = format!("{group}/{short}");
        let of = |lines: &CaseLines| lines.get(short).map_or(MISSING, String::as_str).to_owned();
        let (kernel, lane) = (of(on_kernel), of(on_lane));
        // A case that does not run is never as it should be.
        let verdict = match known.get(&name) {
            _ if lane == MISSING => SuiteVerdict::Differs,
            _ if kernel == lane => SuiteVerdict::Same,
            Some(reason) => SuiteVerdict::Known(reason.clone()),
            None => SuiteVerdict::Differs,
        };
        ComparedCase { name, kernel, lane, verdict }
    };
    names.iter().map(one).collect()
}

/// The known differences of these cases that there are no longer.
pub(super) fn outdated(cases: &[ComparedCase], known: &KnownDifferences) -> Vec<String> {
    let same = cases.iter().filter(|case| case.verdict == SuiteVerdict::Same);
    same.filter(|case| known.contains_key(&case.name)).map(|case| case.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_need_a_reason_and_reasons_a_difference() {
        let lines = |list: &[(&str, &str)]| -> CaseLines {
            list.iter().map(|(name, line)| ((*name).to_owned(), (*line).to_owned())).collect()
        };
        let on_kernel = lines(&[("same", "1"), ("worse", "1"), ("known", "1"), ("outdated", "1"), ("gone", "1")]);
        let on_lane = lines(&[("same", "1"), ("worse", "2"), ("known", "2"), ("outdated", "1")]);
        let known: KnownDifferences =
            ["g/known", "g/outdated", "g/gone"].map(|n| (n.to_owned(), "why".to_owned())).into();
        let names = ["same", "worse", "known", "outdated", "gone"].map(str::to_owned);
        let cases = compare("g", &names, &on_kernel, &on_lane, &known);
        let verdicts: Vec<_> = cases.iter().map(|case| case.verdict.clone()).collect();
        let (same, differs) = (SuiteVerdict::Same, SuiteVerdict::Differs);
        let expected = [same.clone(), differs.clone(), SuiteVerdict::Known("why".to_owned()), same, differs];
        assert_eq!(verdicts, expected);
        assert_eq!(outdated(&cases, &known), ["g/outdated"]);
    }
}
