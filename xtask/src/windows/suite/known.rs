//! The differences that have a reason. They are in the documentation, in tables whose rows begin
//! with the cases: `` | `GROUP/NAME`, `GROUP/NAME` | reason | ``.

use super::groups::CaseNames;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// Where they are.
pub(in crate::windows) const FILE: &str = "docs/winsock-suite.md";

/// The reason of each case that is known to differ, by `GROUP/NAME`.
pub(super) type KnownDifferences = BTreeMap<String, String>;

/// Reads them. Each names a case that there is.
pub(super) fn read(all: &CaseNames) -> Result<KnownDifferences> {
    let file = workspace::root().join(FILE);
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text, all)
}

fn parse(text: &str, all: &CaseNames) -> Result<KnownDifferences> {
    let mut known = KnownDifferences::new();
    for (name, reason) in rows(text) {
        let Some((group, short)) = name.split_once('/') else { continue };
        let is_there = all.get(group).is_some_and(|names| names.iter().any(|known| known == short));
        ensure!(is_there, "{FILE} names a case that there is not: {name}");
        ensure!(!reason.is_empty(), "{FILE} has no reason for {name}");
        let before = known.insert(name.to_owned(), reason.to_owned());
        ensure!(before.is_none(), "{FILE} names a case twice: {name}");
    }
    Ok(known)
}

/// The names in the first cells of tables of two columns, each with the second cell of its row.
pub(in crate::windows) fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let cells = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (names, reason) = (cells.next()?, cells.next()?);
        cells.next().is_none().then_some((names, reason))
    });
    cells.flat_map(|(names, reason)| names.split(',').map(move |name| (name.trim().trim_matches('`'), reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<KnownDifferences> {
        let all = CaseNames::from([("a".to_owned(), vec!["one".to_owned(), "two".to_owned()])]);
        parse(text, &all)
    }

    #[test]
    fn rows_of_cases_are_read() {
        let known =
            parsed("| cases | reason |\n|---|---|\n| `a/one`, `a/two` | why |\n| `option` | other |\n").unwrap();
        assert_eq!(known.len(), 2);
        assert_eq!(known["a/two"], "why");
    }

    #[test]
    fn rows_that_are_wrong_are_refused() {
        for (text, words) in [
            ("| `a/three` | why |", "that there is not: a/three"),
            ("| `a/one` | |", "no reason for a/one"),
            ("| `a/one` | why |\n| `a/one` | why |", "twice: a/one"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
