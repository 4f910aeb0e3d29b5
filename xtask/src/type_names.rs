//! One name stands for one type: part of `cargo xtask check`.
//!
//! A search for a type's name (`rg 'struct Name'`) must find one definition. The check reads the
//! public types of all crates; types that are private to a crate or a module, and tests, do not
//! count.

use crate::sources;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// What defines a type.
const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "union"];

/// Where each name is defined, as file and line.
#[derive(Default)]
struct Definitions(BTreeMap<String, Vec<String>>);

/// Checks every source that git knows.
///
/// # Errors
/// If two public types have one name, with all places; if git cannot be asked.
pub(crate) fn check() -> Result<()> {
    let mut definitions = Definitions::default();
    for (name, text) in sources::known_to_git(&["crates/*/src/*.rs", "xtask/src/*.rs"])? {
        definitions.file(&name, &text);
    }
    if definitions.0.is_empty() {
        bail!("git lists no sources with public types");
    }
    let faults = definitions.faults();
    if !faults.is_empty() {
        let number = faults.len();
        bail!("{number} names stand for several public types (xtask/src/type_names.rs):\n  {}", faults.join("\n  "));
    }
    println!("{} public types have a name each", definitions.0.len());
    Ok(())
}

impl Definitions {
    fn file(&mut self, name: &str, text: &str) {
        if name.split('/').any(sources::is_of_tests) {
            return;
        }
        for (number, line) in sources::without_tests(text) {
            if let Some(defined) = defined(line) {
                self.0.entry(defined.to_owned()).or_default().push(format!("{name}:{number}"));
            }
        }
    }

    /// The names with several definitions, and where these are.
    fn faults(&self) -> Vec<String> {
        let several = self.0.iter().filter(|(_, places)| places.len() > 1);
        several.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
    }
}

/// The public type that a line of code defines, if it does so at the level of a module.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split(' ').skip_while(|word| ["unsafe", "auto"].contains(word));
    words.next().filter(|keyword| KEYWORDS.contains(keyword))?;
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut definitions = Definitions::default();
        files.iter().for_each(|(name, text)| definitions.file(name, text));
        definitions.faults()
    }

    #[test]
    fn a_name_of_two_types_is_found_with_both_places() {
        let one = ("crates/a/src/lib.rs", "//! A.\n\npub struct Clock {\n}\npub enum Leap {}\n");
        let other = ("crates/b/src/clock.rs", "pub trait Clock: Sized {}\n");
        assert_eq!(faults(&[one, other]), ["Clock: crates/a/src/lib.rs:3, crates/b/src/clock.rs:1"]);
        assert_eq!(faults(&[one]), [""; 0]);
        let same_file = ("crates/c/src/lib.rs", "pub union Word {\n}\npub struct Word<'a>(&'a u8);\n");
        assert_eq!(faults(&[same_file]), ["Word: crates/c/src/lib.rs:1, crates/c/src/lib.rs:3"]);
    }

    #[test]
    fn types_that_are_not_public_and_those_of_tests_do_not_count() {
        let public = ("crates/a/src/lib.rs", "pub struct Clock;\n");
        let private = ("crates/b/src/lib.rs", "struct Clock;\npub(crate) struct Clock;\n// pub struct Clock;\n");
        let tests = ("crates/b/src/clock.rs", "#[cfg(test)]\nmod tests {\npub struct Clock;\n}\n");
        let beside = ("crates/c/src/clock/tests.rs", "pub struct Clock;\n");
        let folder = ("crates/c/src/testing/clock.rs", "pub struct Clock;\n");
        assert_eq!(faults(&[public, private, tests, beside, folder]), [""; 0]);
    }

    #[test]
    fn definitions_are_told_from_other_lines() {
        assert_eq!(defined("pub struct Row<'a, T: Copy> {"), Some("Row"));
        assert_eq!(defined("pub struct Nanos(pub i64);"), Some("Nanos"));
        assert_eq!(defined("pub unsafe trait Bytes: Sized {}"), Some("Bytes"));
        assert_eq!(defined("pub enum Left { A }"), Some("Left"));
        for line in ["pub fn structure() {}", "pub use clock::Clock;", "    pub struct Inner;", "pub struct $name;", ""]
        {
            assert_eq!(defined(line), None, "{line}");
        }
    }
}
