//! A command line that cannot be meant, as far as that shows only beside the configuration.

use std::fmt;

/// Its exit status, as with what the command line's own definition refuses.
pub(crate) const STATUS: u8 = 2;

/// What is wrong with a command line, and what was expected.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// With this option.
    pub(crate) fn of(option: &str, what: impl fmt::Display) -> Self {
        Self(format!("{option}: {what}"))
    }

    /// With all of it.
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
