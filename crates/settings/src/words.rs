//! Words that lack their quotes: `steer = yes`, `host = ntp.example`. They are not valid TOML. The
//! reader's error depends on a guess from the first letter: it calls `no` an invalid number.

use std::ops::Range;
use toml::de::DeTable;

/// The limit on such words: no file written by hand has more.
const MOST: usize = 64;

/// The text with quotes around its words that lack them, and the place of the first of them in the
/// original text. `None` if the reader finds no such word before it stops.
pub(crate) fn with_quotes(text: &str) -> Option<(Range<usize>, String)> {
    let (mut first, mut quoted) = (None, text.to_owned());
    for _ in 0..MOST {
        let Some(word) = DeTable::parse(&quoted).err().and_then(|error| error.span()) else { break };
        if !is_word(&quoted, &word) {
            break;
        }
        quoted.insert(word.end, '"');
        quoted.insert(word.start, '"');
        first.get_or_insert(word);
    }
    Some((first?, quoted))
}

/// Whether this is in the place of a value and would be text if it had quotes.
fn is_word(text: &str, place: &Range<usize>) -> bool {
    let (Some(before), Some(word)) = (text.get(..place.start), text.get(place.clone())) else { return false };
    let plain = |c: char| !c.is_control() && !"\"'\\".contains(c);
    word.starts_with(char::is_alphabetic) && word.chars().all(plain) && before.trim_end().ends_with(['=', '[', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_get_their_quotes_and_nothing_else_does() {
        let quoted = |text: &str| with_quotes(text).map(|(first, quoted)| (text[first].to_owned(), quoted));
        for (text, first, expected) in [
            ("a = yes", "yes", "a = \"yes\""),
            ("a = no\nb = [x.y, 3, z]\n", "no", "a = \"no\"\nb = [\"x.y\", 3, \"z\"]\n"),
            ("a = yes\nb = 'c", "yes", "a = \"yes\"\nb = 'c"),
        ] {
            assert_eq!(quoted(text), Some((first.to_owned(), expected.to_owned())));
        }
        for text in ["", "a = \"yes\"", "a = 1s", "a = ", "a = it's", "a b = 1", "= yes", "[a", "a = [[[", "\u{0}"] {
            assert_eq!(quoted(text), None, "{text:?}");
        }
        let many = format!("a = [{}]", "x,".repeat(10_000));
        assert!(quoted(&many).is_some(), "and it comes to an end");
    }
}
