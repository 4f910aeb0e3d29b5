//! An error as one sentence.

use crate::sanitize_terminal::sanitized;

/// The error and its causes as one sentence. Some errors include their cause, which is not
/// repeated. File names and text from other machines are in it, so control characters are escaped.
#[must_use]
pub fn sentence(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).fold(String::new(), |said, reason| match said.as_str() {
        "" => reason,
        text if text.ends_with(&reason) => said,
        text => format!("{text}: {reason}"),
    });
    said.split('\n').map(|line| sanitized(line, usize::MAX)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::sentence;
    use anyhow::{Context, anyhow};

    #[test]
    fn no_reason_is_said_twice() {
        let missing = || std::io::Error::other("no such file");
        let inner = Err::<(), _>(missing()).context("cannot read x: no such file");
        let outer = inner.context("the study failed").unwrap_err();
        assert_eq!(sentence(&outer), "the study failed: cannot read x: no such file");
        assert_eq!(sentence(&anyhow!("one")), "one");
        assert_eq!(sentence(&anyhow!("a\u{1b}[2J\nb\u{202e}")), "a\\u{1b}[2J\nb\\u{202e}");
        let plain = Err::<(), _>(missing()).context("cannot read x").unwrap_err();
        assert_eq!(sentence(&plain), "cannot read x: no such file");
    }
}
