//! Errors of the command line that the parser cannot find.

use std::fmt;

/// Its exit status, the same as for errors of the parser.
pub const STATUS: u8 = 2;

/// What is wrong with a command line, and what was expected.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// An error of this option.
    #[must_use]
    pub fn of(option: &str, what: impl fmt::Display) -> Self {
        Self(format!("{option}: {what}"))
    }

    /// An error of the whole command line.
    #[must_use]
    pub fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
