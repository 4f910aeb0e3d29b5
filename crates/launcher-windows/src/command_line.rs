//! The command line of a new process. Windows passes one text, which programs split into arguments
//! by the rules of `CommandLineToArgvW` and of the C runtime.

use crate::error::TextError;

/// The most characters of a command line, with the zero at its end (`CreateProcessW`).
pub const MAX_COMMAND_LINE: usize = 32_767;

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;
const SPACE: u16 = b' ' as u16;

/// The command line for these arguments, which ends with a zero. The program's name is its first
/// part.
///
/// # Errors
/// If a text contains a zero, or the program's name a quote; if it is too long.
pub fn command_line<'a>(
    program: &[u16],
    arguments: impl IntoIterator<Item = &'a [u16]>,
) -> Result<Vec<u16>, TextError> {
    if program.contains(&QUOTE) {
        return Err(TextError::Quote);
    }
    // In the first part a backslash is a backslash, wherever it is.
    let mut line = vec![QUOTE];
    append(&mut line, program)?;
    line.push(QUOTE);
    for argument in arguments {
        line.push(SPACE);
        append_argument(&mut line, argument)?;
    }
    line.push(0);
    if line.len() > MAX_COMMAND_LINE {
        return Err(TextError::TooLong);
    }
    Ok(line)
}

fn append(line: &mut Vec<u16>, text: &[u16]) -> Result<(), TextError> {
    if text.contains(&0) {
        return Err(TextError::Zero);
    }
    line.extend_from_slice(text);
    Ok(())
}

/// Appends an argument so that it is read as one. Backslashes count only in front of a quote, where
/// two stand for one; a quote with an odd number of them is a character.
fn append_argument(line: &mut Vec<u16>, argument: &[u16]) -> Result<(), TextError> {
    let separates = |unit: &u16| [b' ', b'\t', b'\n', 0x0b].contains(&u8::try_from(*unit).unwrap_or(0));
    if !argument.is_empty() && !argument.iter().any(|unit| separates(unit) || *unit == QUOTE) {
        return append(line, argument);
    }
    line.push(QUOTE);
    let mut backslashes = 0;
    for &unit in argument {
        match unit {
            0 => return Err(TextError::Zero),
            BACKSLASH => backslashes += 1,
            QUOTE => {
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(unit);
    }
    // The quote that follows is the end.
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn line(program: &str, arguments: &[&str]) -> Result<String, TextError> {
        let arguments: Vec<_> = arguments.iter().map(|argument| wide(argument)).collect();
        let line = command_line(&wide(program), arguments.iter().map(Vec::as_slice))?;
        Ok(String::from_utf16(line.strip_suffix(&[0]).unwrap()).unwrap())
    }

    /// `CommandLineToArgvW`, as its documentation describes it.
    fn split(line: &[u16]) -> Vec<Vec<u16>> {
        let mut found = Vec::new();
        let end = line[1..].iter().position(|unit| *unit == QUOTE).unwrap() + 1;
        found.push(line[1..end].to_vec());
        let mut rest = line[end + 1..].iter().copied().peekable();
        loop {
            while rest.next_if(|unit| [SPACE, u16::from(b'\t')].contains(unit)).is_some() {}
            if rest.peek().is_none() {
                return found;
            }
            let (mut argument, mut is_quoted) = (Vec::new(), false);
            while let Some(unit) = rest.next_if(|unit| is_quoted || ![SPACE, u16::from(b'\t')].contains(unit)) {
                let mut backslashes = usize::from(unit == BACKSLASH);
                if unit == BACKSLASH {
                    while rest.next_if_eq(&BACKSLASH).is_some() {
                        backslashes += 1;
                    }
                }
                let is_quote = if backslashes > 0 { rest.next_if_eq(&QUOTE).is_some() } else { unit == QUOTE };
                if is_quote {
                    argument.extend(std::iter::repeat_n(BACKSLASH, backslashes / 2));
                    if backslashes % 2 == 1 {
                        argument.push(QUOTE);
                    } else {
                        is_quoted = !is_quoted;
                    }
                } else if backslashes > 0 {
                    argument.extend(std::iter::repeat_n(BACKSLASH, backslashes));
                } else {
                    argument.push(unit);
                }
            }
            found.push(argument);
        }
    }

    #[test]
    fn arguments_are_quoted_if_they_need_it() {
        assert_eq!(line("a b.exe", &[]).unwrap(), r#""a b.exe""#);
        assert_eq!(line(r"c:\", &["x", "", "a b"]).unwrap(), r#""c:\" x "" "a b""#);
        assert_eq!(line("p", &[r"a\b\", r"a b\", r#"""#, r#"\""#]).unwrap(), r#""p" a\b\ "a b\\" "\"" "\\\"""#);
    }

    #[test]
    fn what_windows_cannot_pass_is_an_error() {
        assert_eq!(line("a\0b", &[]), Err(TextError::Zero));
        assert_eq!(line("p", &["a\0b"]), Err(TextError::Zero));
        assert_eq!(line("p", &[" \0b"]), Err(TextError::Zero));
        assert_eq!(line("\"p", &[]), Err(TextError::Quote));
        let most = "x".repeat(MAX_COMMAND_LINE - r#""p" "#.len() - 1);
        assert!(line("p", &[&most]).is_ok());
        assert_eq!(line("p", &[&most, ""]), Err(TextError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_as_it_was(arguments in prop::collection::vec(r#"[a\\" \t\n\u{b}ä😀]{0,12}"#, 0..6)) {
            let arguments: Vec<_> = arguments.iter().map(|argument| wide(argument)).collect();
            let line = command_line(&wide(r"c:\p p\"), arguments.iter().map(Vec::as_slice)).unwrap();
            let found = split(line.strip_suffix(&[0]).unwrap());
            prop_assert_eq!(&found[0], &wide(r"c:\p p\"));
            prop_assert_eq!(&found[1..], &arguments[..]);
        }
    }
}
