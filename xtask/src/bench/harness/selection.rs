//! Which rows are measured, and what is checked before a build that takes minutes.

use crate::prepare;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// How a service may attach its divert programs.
pub(crate) const ATTACH: [&str; 4] = ["auto", "native", "generic", "tc"];

/// Measures if this process is prepared for it. Otherwise checks that the figures can be written,
/// and prepares.
pub(crate) fn prepared(
    json: Option<&Path>,
    prepare: impl FnOnce() -> Result<()>,
    measure: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if prepare::is_done() {
        return measure();
    }
    will_be_written(json)?;
    prepare()
}

/// The rows whose name contains `only`, or all; without a match, the error lists the names.
pub(crate) fn chosen<'a, R>(rows: &'a [R], name: fn(&R) -> &'static str, only: Option<&str>) -> Result<Vec<&'a R>> {
    let chosen: Vec<&R> = rows.iter().filter(|row| only.is_none_or(|only| name(row).contains(only))).collect();
    if chosen.is_empty() {
        let mut names: Vec<_> = rows.iter().map(name).collect();
        // A measurement may have a row for each stack.
        names.dedup();
        bail!("no row's name contains {:?}; there are: {}", only.unwrap_or_default(), names.join("; "));
    }
    Ok(chosen)
}

/// Checks that a file can be written, before minutes of building and measuring. An existing file
/// keeps its content until then.
pub(crate) fn will_be_written(path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let there = path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if !there {
        // It may have been a dangling symbolic link: the link stays.
        let made = path.canonicalize();
        made.and_then(std::fs::remove_file).with_context(|| format!("cannot remove {} again", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_row_is_answered_with_all_names_once() {
        let rows = ["one", "two", "two", "three"];
        let names = |only| chosen(&rows, |row| *row, only).map(|rows| rows.into_iter().copied().collect::<Vec<_>>());
        assert_eq!(names(Some("t")).unwrap(), ["two", "two", "three"]);
        assert_eq!(names(None).unwrap(), rows);
        let refused = names(Some("four")).unwrap_err().to_string();
        assert_eq!(refused, "no row's name contains \"four\"; there are: one; two; three");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_found_before_and_one_that_can_is_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("figures.json");
        will_be_written(Some(&file)).unwrap();
        assert!(!file.exists());
        std::fs::write(&file, "of yesterday").unwrap();
        will_be_written(Some(&file)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "of yesterday");
        let refused = will_be_written(Some(&file.join("below"))).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write ") && refused.contains("below"), "{refused}");
        let (link, behind) = (directory.path().join("link"), directory.path().join("behind"));
        std::os::unix::fs::symlink(&behind, &link).unwrap();
        will_be_written(Some(&link)).unwrap();
        assert!(link.is_symlink() && !behind.exists());
        will_be_written(None).unwrap();
    }
}
