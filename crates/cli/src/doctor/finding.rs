//! The result of a check.

use serde::Serialize;
use std::fmt;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Good,
    /// Works, but slower or less evenly than it could.
    Improve,
    /// Tickwire does not work without it.
    Missing,
    /// Only root can check it.
    Unknown,
}

/// One line of the doctor.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// The name of the check.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    /// What was found.
    pub(crate) found: String,
    /// What to change, and how much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn good(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Good, found: found.into(), advice: None }
    }

    pub(crate) fn improve(check: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Improve, found: found.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn unknown(check: impl Into<String>) -> Self {
        let found = "only root can try it: `sudo tickwire doctor`";
        Self { verdict: Verdict::Unknown, ..Self::good(check, found) }
    }

    pub(crate) fn missing(check: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Missing, ..Self::improve(check, found, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Good => "good   ",
            Verdict::Improve => "improve",
            Verdict::Missing => "MISSING",
            Verdict::Unknown => "unknown",
        };
        write!(f, "{verdict}  {}: {}", self.check, self.found)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}
