//! What a run of a case has shown.

use super::lane_log::LoggedLane;
use anyhow::Error;
use std::fmt;

/// A figure of a run, if it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::windows) enum CaseFigure {
    /// The median round trip in microseconds.
    RoundTrip(f64),
    /// Megabits per second of payload.
    Rate(f64),
    /// It was only looked at whether it works.
    Works,
}

impl fmt::Display for CaseFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundTrip(us) => write!(f, "{us:.1} us"),
            Self::Rate(rate) => write!(f, "{rate:.0} Mbit/s"),
            Self::Works => f.write_str("works"),
        }
    }
}

/// Where the packets of a run on the lane went.
#[derive(Debug)]
pub(in crate::windows) enum LaneOutcome {
    /// On the lane, as its counters prove: this many packets of both directions.
    OnLane(CaseFigure, u64),
    /// It works, but on the kernel: why.
    OnKernel(CaseFigure, String),
    /// It does not work.
    Failed(Error),
}

impl LaneOutcome {
    /// Judges by the counters of the lanes. At least this many packets cross the lane if the case
    /// runs on it.
    pub(in crate::windows) fn of(figure: CaseFigure, lanes: &[LoggedLane], least: u64) -> Self {
        let packets = lanes.iter().map(|lane| lane.packets).sum();
        if packets >= least {
            return Self::OnLane(figure, packets);
        }
        let mut reasons: Vec<&str> = lanes.iter().flat_map(|lane| &lane.kernel).map(String::as_str).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if lanes.is_empty() {
            return Self::OnKernel(figure, "the program has asked for no lane".to_owned());
        }
        let reasons = if reasons.is_empty() { "no socket has a reason".to_owned() } else { reasons.join("; ") };
        let reason = format!("its lane had {packets} of at least {least} packets: {reasons}");
        Self::OnKernel(figure, reason)
    }

    /// In a few words, for the table.
    pub(in crate::windows) fn word(&self) -> &'static str {
        match self {
            Self::OnLane(..) => "on the lane",
            Self::OnKernel(..) => "stayed on the kernel",
            Self::Failed(_) => "failed",
        }
    }

    pub(in crate::windows) fn figure(&self) -> Option<CaseFigure> {
        match self {
            Self::OnLane(figure, _) | Self::OnKernel(figure, _) => Some(*figure),
            Self::Failed(_) => None,
        }
    }

    /// The reason why it is not on the lane, in one line.
    pub(in crate::windows) fn reason(&self) -> Option<String> {
        match self {
            Self::OnLane(..) => None,
            Self::OnKernel(_, reason) => Some(reason.clone()),
            Self::Failed(error) => Some(one_line(error)),
        }
    }
}

/// The longest message of an error that is shown whole, and how much of its begin is kept else.
const LONGEST: usize = 600;
const BEGIN: usize = 150;

/// An error's message without line breaks, and not too long: the end has the reason.
pub(in crate::windows) fn one_line(error: &Error) -> String {
    let words = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
    let letters: Vec<char> = words.chars().collect();
    if letters.len() <= LONGEST {
        return words;
    }
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{} ... {}", text(&letters[..BEGIN]), text(&letters[letters.len() - (LONGEST - BEGIN)..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(packets: u64, kernel: &[&str]) -> LoggedLane {
        LoggedLane { packets, kernel: kernel.iter().map(|r| (*r).to_owned()).collect(), ..LoggedLane::default() }
    }

    #[test]
    fn only_counters_prove_the_lane() {
        let of = |lanes: &[LoggedLane]| LaneOutcome::of(CaseFigure::Works, lanes, 10);
        assert_eq!(of(&[lane(4, &[]), lane(6, &["a"])]).word(), "on the lane");
        assert_eq!(of(&[]).reason().unwrap(), "the program has asked for no lane");
        assert_eq!(
            of(&[lane(9, &["b", "a"]), lane(0, &["a"])]).reason().unwrap(),
            "its lane had 9 of at least 10 packets: a; b"
        );
        assert!(of(&[lane(9, &[])]).reason().unwrap().contains("9 of at least 10 packets"));
    }

    #[test]
    fn long_errors_are_cut() {
        let error = anyhow::anyhow!("first\n  second {} last", "x".repeat(700));
        let line = one_line(&error);
        assert!(line.starts_with("first second x") && line.ends_with("x last") && line.len() < 620, "{line}");
    }
}
