//! The rules for words that can be counted: part of `cargo xtask check`.
//!
//! A comment line ends before column 100, except in tables, code and addresses that cannot be
//! broken. No comment calls a thing by a word for persons. A sentence of the documentation has at
//! most 40 words, a table cell of the README at most 200 characters, and the files that a page
//! names exist.

use crate::{sources, workspace};
use anyhow::{Result, bail};
use std::fmt::Write as _;
use std::path::Path;

/// Columns of a comment line, tabs counted as eight.
const COLUMNS: usize = 100;
/// Words of a sentence.
const SENTENCE: usize = 40;
/// Characters of a table cell in the README.
const CELL: usize = 200;
/// Faults shown of one kind.
const SHOWN: usize = 20;

/// Words for persons.
const PERSONS: [&str; 11] =
    ["who", "whom", "whoever", "he", "him", "his", "somebody", "someone", "nobody", "anybody", "everybody"];

/// What was looked at, and what is wrong.
#[derive(Default)]
struct Count {
    comments: usize,
    sentences: usize,
    faults: Vec<String>,
}

/// Checks every file that git knows.
///
/// # Errors
/// If a rule is broken, with each place; if git cannot be asked.
pub(crate) fn check() -> Result<()> {
    let mut count = Count::default();
    for (name, text) in sources::known_to_git(&["*.rs", "*.c", "*.h", "*.py", "*.sh", "*.md"])? {
        count.file(&name, &text);
    }
    if count.comments == 0 || count.sentences == 0 {
        bail!("git lists no sources");
    }
    if !count.faults.is_empty() {
        let mut told = String::new();
        for fault in count.faults.iter().take(SHOWN) {
            let _ = write!(told, "\n  {fault}");
        }
        if count.faults.len() > SHOWN {
            let _ = write!(told, "\n  and {} more", count.faults.len() - SHOWN);
        }
        bail!("{} places break the rules for words (xtask/src/words.rs):{told}", count.faults.len());
    }
    println!("{} comment lines and {} sentences keep the rules for words", count.comments, count.sentences);
    Ok(())
}

impl Count {
    fn file(&mut self, name: &str, text: &str) {
        match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some("md") => self.page(name, text),
            Some(extension) => self.source(name, extension, text),
            None => {}
        }
    }

    fn source(&mut self, name: &str, extension: &str, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = comment(extension, line) else { continue };
            self.comments += 1;
            let columns = columns(line);
            if columns > COLUMNS && !is_unbroken(comment) {
                self.faults.push(format!("{name}:{number}: a comment of {columns} columns"));
            }
            for person in persons(comment) {
                self.faults.push(format!("{name}:{number}: {person:?} in a comment"));
            }
        }
    }

    fn page(&mut self, name: &str, text: &str) {
        if !name.starts_with("docs/results/") {
            let gone = paths(text).filter(|path| !workspace::root().join(path).exists());
            self.faults.extend(gone.map(|path| format!("{name}: {path} does not exist")));
        }
        for sentence in sentences(text) {
            self.sentences += 1;
            let words = sentence.split_whitespace().count();
            if words > SENTENCE {
                let begin: String = sentence.chars().take(60).collect();
                self.faults.push(format!("{name}: a sentence of {words} words: {begin}..."));
            }
        }
        if name == "README.md" {
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| line.starts_with('|')) {
                if let Some(cell) = line.split('|').find(|cell| cell.trim().chars().count() > CELL) {
                    let length = cell.trim().chars().count();
                    self.faults.push(format!("{name}:{number}: a table cell of {length} characters"));
                }
            }
        }
    }
}

/// What a line says if it is a comment and nothing else.
fn comment<'a>(extension: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim();
    let marks: &[&str] = match extension {
        "py" | "sh" => &["#"],
        _ => &["//", "/*", "* "],
    };
    marks.iter().any(|mark| line.starts_with(mark)).then(|| line.trim_start_matches(['/', '!', '*', '#', ' ']))
}

fn columns(line: &str) -> usize {
    line.chars().fold(0, |at, c| if c == '\t' { at / 8 * 8 + 8 } else { at + 1 })
}

/// Whether a comment line cannot be broken: a row of a table, a line of a macro, or one word that
/// is longer than what a line has room for.
fn is_unbroken(comment: &str) -> bool {
    comment.starts_with('|')
        || comment.ends_with('\\')
        || comment.split_whitespace().any(|word| word.len() > COLUMNS - 30)
}

/// The words for persons in a text.
fn persons(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| PERSONS.iter().any(|person| person.eq_ignore_ascii_case(word)))
}

/// The files and folders of the project that a page names in code spans.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let spans = page.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let top = span.split_once('/').map(|(top, _)| top);
        top.is_some_and(|top| ["crates", "xtask", "packaging", "docs", "fuzz", "examples"].contains(&top))
            && !span.contains([' ', '*', '<', '{'])
    })
}

/// The sentences of a page's paragraphs and lists; not those of code, tables, pictures, headings.
fn sentences(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in page.lines().chain([""]) {
        let is_fence = line.trim_start().starts_with("```");
        let trimmed = line.trim_start();
        let is_item = trimmed.starts_with("- ") || trimmed.starts_with("* ");
        let is_skipped = is_code || is_fence || line.starts_with("    ") || trimmed.starts_with(['|', '#', '┌', '│']);
        if trimmed.is_empty() || is_skipped || is_item {
            found.extend(split(&paragraph));
            paragraph.clear();
        }
        if !is_skipped {
            paragraph.push_str(trimmed);
            paragraph.push(' ');
        }
        is_code ^= is_fence;
    }
    found
}

/// A paragraph cut behind `.`, `!` and `?` where a space follows.
fn split(paragraph: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    let mut ended = false;
    for c in paragraph.chars() {
        if ended && c.is_whitespace() && !sentence.trim().is_empty() {
            found.push(core::mem::take(&mut sentence));
        }
        ended = matches!(c, '.' | '!' | '?');
        sentence.push(c);
    }
    found.push(sentence);
    found.retain(|sentence| !sentence.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut count = Count::default();
        count.file(name, text);
        count.faults
    }

    #[test]
    fn wide_comments_and_words_for_persons_are_found_with_their_places() {
        let wide = format!("fn f() {{}}\n/// {}\n", "word ".repeat(20));
        assert_eq!(faults("a.rs", &wide), ["a.rs:2: a comment of 104 columns"]);
        assert_eq!(faults("a.rs", &wide.replace("/// ", "//! | ")), [""; 0]);
        assert_eq!(faults("a.c", "\t * Nobody waits.\n"), ["a.c:1: \"Nobody\" in a comment"]);
        assert_eq!(faults("a.sh", "# what he says\n"), ["a.sh:1: \"he\" in a comment"]);
        assert_eq!(faults("a.rs", "let who = 1; // whole\n// here, the_who\n"), [""; 0]);
        let tab = format!("\t/* {} */\n", "x ".repeat(44));
        assert_eq!(faults("a.h", &tab).len(), 1);
    }

    #[test]
    fn files_that_a_page_names_exist() {
        let page = "`xtask/src/words.rs`, `crates/*.rs`, `cargo xtask` and `docs/no such`, `xtask/src/gone.rs`";
        assert_eq!(faults("docs/a.md", page), ["docs/a.md: xtask/src/gone.rs does not exist"]);
        assert_eq!(faults("docs/results/a.md", page), [""; 0]);
    }

    #[test]
    fn long_sentences_and_cells_are_found_but_not_in_code_and_tables() {
        let long = "word ".repeat(41);
        assert_eq!(faults("a.md", &format!("Short. {long}. Short.\n")).len(), 1);
        assert_eq!(faults("a.md", &format!("- {long}\n- short\n")).len(), 1);
        assert_eq!(faults("a.md", &format!("```\n{long}\n```\n| {long} |\n    {long}\n# {long}\n")), [""; 0]);
        let cell = format!("| a | {} |\n", "x".repeat(201));
        assert_eq!(faults("README.md", &cell), ["README.md:1: a table cell of 201 characters"]);
        assert_eq!(faults("b.md", &cell), [""; 0]);
        assert_eq!(split("One. Two? 1.5 three!"), ["One.", " Two?", " 1.5 three!"]);
    }
}
