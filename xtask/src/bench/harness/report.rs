//! Prints the tables, and writes the JSON file.

use super::rounds::Outcome;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;

/// The result of a measurement.
pub(crate) struct Report {
    /// What is printed: conditions, tables and verdicts.
    pub(crate) parts: Vec<String>,
    /// What is written, if a file is named.
    pub(crate) json: Value,
    /// What could not be measured, if anything.
    pub(crate) missing: Option<String>,
}

impl Report {
    /// Prints and writes all; fails if something is missing.
    pub(crate) fn emit(&self, json: Option<&Path>) -> Result<()> {
        self.parts.iter().for_each(|part| println!("{part}"));
        if let Some(path) = json {
            write(path, &serde_json::to_string_pretty(&self.json)?)?;
        }
        match &self.missing {
            Some(missing) => bail!("{missing} could not be measured"),
            None => Ok(()),
        }
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// How many of the outcomes have no figures.
pub(crate) fn missing<C, M>(outcomes: &[Outcome<C, M>]) -> usize {
    outcomes.iter().filter(|outcome| outcome.rounds.is_empty()).count()
}

/// The rows without figures, in words.
pub(crate) fn missing_rows<C, M>(outcomes: &[Outcome<C, M>]) -> Option<String> {
    let missing = missing(outcomes);
    (missing > 0).then(|| format!("{missing} rows"))
}

/// The same, where a row has several cells.
pub(crate) fn missing_cells<C, M>(outcomes: &[Outcome<C, M>]) -> Option<String> {
    let missing = missing(outcomes);
    (missing > 0).then(|| format!("{missing} of {} cells", outcomes.len()))
}

/// An object with the fields of both.
pub(crate) fn joined(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_counted_and_fails_after_the_file_is_written() {
        let measured = Outcome { rounds: vec![1], ..Outcome::new("a") };
        let outcomes = [measured, Outcome::new("b")];
        assert_eq!(missing_rows(&outcomes).as_deref(), Some("1 rows"));
        assert_eq!(missing_cells(&outcomes).as_deref(), Some("1 of 2 cells"));
        assert_eq!((missing_rows(&outcomes[..1]), missing_cells(&outcomes[..1])), (None, None));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("figures.json");
        let report = Report { parts: Vec::new(), json: json!({ "rows": [] }), missing: missing_rows(&outcomes) };
        assert_eq!(report.emit(Some(&file)).unwrap_err().to_string(), "1 rows could not be measured");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\n  \"rows\": []\n}");
        Report { missing: None, ..report }.emit(None).unwrap();
    }
}
