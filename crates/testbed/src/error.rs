//! Why nothing could be measured, neither messages nor the clock.

use crate::pattern::PatternError;
use thiserror::Error;

/// Why nothing could be measured.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// The user's input is invalid, or a prerequisite is missing; nothing was sent. The text tells
    /// the user what to correct.
    #[error("{0}")]
    Refused(String),
    /// An internal failure.
    #[error(transparent)]
    Broken(#[from] anyhow::Error),
}

impl From<PatternError> for TestbedError {
    fn from(error: PatternError) -> Self {
        Self::Refused(error.to_string())
    }
}
