//! Why a study, or one of its measurements, failed.

use serde::Serialize;
use thiserror::Error;

/// A measurement that this machine does not support, or that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsentMeasurement {
    /// Its name.
    pub name: String,
    /// The reason, and what would change it.
    pub why: String,
}

impl AbsentMeasurement {
    pub(crate) fn new(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), why: why.to_owned() }
    }
}

/// Why the study failed.
#[derive(Debug, Error)]
pub enum JitterStudyError {
    /// The options are invalid; nothing was started.
    #[error("{option}: {what}")]
    Usage {
        /// Which option.
        option: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The lab could not be created.
    #[error("{0:#}")]
    Lab(anyhow::Error),
    /// Nothing at all could be measured.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
}

impl JitterStudyError {
    pub(crate) fn usage(option: &'static str, what: impl ToString) -> Self {
        Self::Usage { option, what: what.to_string() }
    }
}
