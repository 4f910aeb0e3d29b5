//! The result of a check of `tickwire doctor`.

use serde::Serialize;
use std::fmt;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Works, but slower or less evenly than it could.
    Improve,
    /// Tickwire does not work without it.
    Missing,
    /// This user cannot check it.
    Unknown,
}

/// One line of the doctor.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to change, and how much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn good(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Good, found: found.into(), advice: None }
    }

    /// It could be better: what to change, and how much it matters.
    pub fn improve(check: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Improve, found: found.into(), advice: Some(advice.into()) }
    }

    /// It is not known, because only `found` can try it.
    pub fn unknown(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, ..Self::good(check, found) }
    }

    /// Tickwire does not work so: what to do.
    pub fn missing(check: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
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

/// Whether nothing is missing.
#[must_use]
pub fn is_ready(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict != Verdict::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_advice() {
        let finding = Finding::improve("eth0 coalescing", "50 us", "turn it off");
        assert_eq!(finding.to_string(), "improve  eth0 coalescing: 50 us; turn it off");
        let good = Finding::good("kernel", "6.18");
        assert_eq!(good.to_string(), "good     kernel: 6.18");
        assert!(is_ready(&[finding, good]) && !is_ready(&[Finding::missing("driver", "none", "install it")]));
    }
}
