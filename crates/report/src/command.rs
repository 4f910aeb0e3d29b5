//! A command, to be typed again.

use crate::ReportPage;
use crate::page::escape;

impl ReportPage {
    /// A command as it is typed: words that a shell would split or expand are quoted.
    pub fn command<T: AsRef<str>>(&mut self, words: &[T]) {
        let line = words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ");
        self.push(&format!("<pre>{}</pre>\n", escape(&line)));
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_as_it_stands() {
        let words = ["tickwire", "--pattern", "a b.csv", "it's", "", "$HOME"];
        let line = words.map(quoted).join(" ");
        assert_eq!(line, r"tickwire --pattern 'a b.csv' 'it'\''s' '' '$HOME'");
        let mut page = ReportPage::new("page");
        page.command(&words[..3]);
        assert!(page.finish().contains("<pre>tickwire --pattern &#39;a b.csv&#39;</pre>"));
    }
}
