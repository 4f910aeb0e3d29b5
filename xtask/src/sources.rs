//! The sources of the project, for the checks that read them.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Files and folders of modules that only tests use.
const OF_TESTS: [&str; 4] = ["tests.rs", "testing.rs", "tests", "testing"];

/// The files that git knows by these patterns: name, relative to the root, and text.
///
/// # Errors
/// If git cannot be asked.
pub(crate) fn known_to_git(patterns: &[&str]) -> Result<Vec<(String, String)>> {
    let listed = Command::new("git")
        .current_dir(workspace::root())
        .args(["ls-files", "-z", "--"])
        .args(patterns)
        .output()
        .context("cannot run git ls-files")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    let names = names.split('\0').filter(|name| !name.is_empty());
    // It may be deleted and not committed yet.
    let text = |name: &str| std::fs::read_to_string(workspace::root().join(name)).ok();
    Ok(names.filter_map(|name| Some((name.to_owned(), text(name)?))).collect())
}

/// Whether only tests use the modules in a file or folder of this name.
pub(crate) fn is_of_tests(name: &str) -> bool {
    OF_TESTS.contains(&name)
}

/// The lines of a source, with their numbers, without its modules of tests. Such a module ends with
/// the next brace at the begin of a line: rustfmt indents what is inside.
pub(crate) fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut tests_next, mut in_tests) = (false, false);
    (1..).zip(text.lines()).filter(move |&(_, line)| {
        let begins = tests_next && line.starts_with("mod ") && line.ends_with('{');
        tests_next = line.starts_with("#[cfg(test)]") || tests_next && line.starts_with("#[");
        let is_tests = in_tests || begins;
        in_tests = is_tests && line != "}";
        !is_tests
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_tests_are_left_out_and_what_follows_them_is_not() {
        let text = "a\n#[cfg(test)]\nmod testing;\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    b {\n    }\n}\nc\n";
        let read: Vec<_> = without_tests(text).collect();
        let before = [(1, "a"), (2, "#[cfg(test)]"), (3, "mod testing;"), (4, "#[cfg(test)]"), (5, "#[rustfmt::skip]")];
        assert_eq!(read, [&before[..], &[(10, "c")]].concat());
    }
}
