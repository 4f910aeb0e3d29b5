//! Sanitizes untrusted text for display.

/// Truncates a text to `most` characters, and escapes those that a terminal interprets or that
/// change the direction of the following text.
#[must_use]
pub fn sanitized(text: &str, most: usize) -> String {
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

/// Whether a character is not just displayed: a control, zero-width or bidirectional one.
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
        assert_eq!(sanitized("a\x1b[2J\u{202e}\u{9b}z", 100), "a\\u{1b}[2J\\u{202e}\\u{9b}z");
        assert_eq!(sanitized("日本語", 2), "日本…");
        assert_eq!(sanitized("日本", 2), "日本");
    }
}
