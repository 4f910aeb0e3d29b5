//! Texts of others as they may be shown to a person.

/// A text of at most so many characters, and without those that a terminal obeys or that change the
/// direction of what follows.
#[must_use]
pub fn legible(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (number, c) in text.chars().enumerate() {
        if number == most {
            shown.push('…');
            break;
        }
        if is_obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character does something else than to be seen.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out_and_no_text_is_endless() {
        assert_eq!(legible("a\x1b[2J\u{202e}\u{9b}z", 100), "a\\u{1b}[2J\\u{202e}\\u{9b}z");
        assert_eq!(legible("日本語", 2), "日本…");
        assert_eq!(legible("日本", 2), "日本");
    }
}
