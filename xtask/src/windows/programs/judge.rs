//! Runs a case on the kernel's sockets and then on the lane, and judges.

use super::cases::ProgramCase;
use super::hosts::{ProgramHosts, ProgramRun, Sockets};
use super::outcome::{CaseFigure, LaneOutcome};
use anyhow::{Error, Result};

/// What has become of a case.
pub(in crate::windows) enum CaseResult {
    /// It could not be run here.
    Skipped { case: &'static ProgramCase, reason: String },
    /// It ran.
    Ran { case: &'static ProgramCase, kernel: Result<CaseFigure>, lane: LaneOutcome },
}

impl CaseResult {
    /// Whether something does not work.
    pub(in crate::windows) fn has_failed(&self) -> bool {
        matches!(self, Self::Ran { kernel, lane, .. } if kernel.is_err() || matches!(lane, LaneOutcome::Failed(_)))
    }

    /// Whether the case was on the lane.
    pub(in crate::windows) fn is_on_lane(&self) -> bool {
        matches!(self, Self::Ran { kernel: Ok(_), lane: LaneOutcome::OnLane(..), .. })
    }
}

/// Runs a case on hosts of its own, so that what one leaves behind does not disturb the next.
/// `step` hears what is run.
pub(in crate::windows) fn judge(case: &'static ProgramCase, mut step: impl FnMut(Sockets)) -> Result<CaseResult> {
    if let Some(reason) = missing(case) {
        return Ok(CaseResult::Skipped { case, reason });
    }
    let hosts = ProgramHosts::new()?;
    step(Sockets::Kernel);
    let kernel = on_kernel(case, &hosts);
    step(Sockets::Lane);
    let lane = on_lane(case, &hosts).unwrap_or_else(LaneOutcome::Failed);
    tickwire_lab::wait_if_interrupted();
    Ok(CaseResult::Ran { case, kernel, lane })
}

/// Why a case cannot be run here.
fn missing(case: &ProgramCase) -> Option<String> {
    if let Some(error) = case.packages.iter().find_map(|package| package.check().err()) {
        return Some(one_sentence(&error));
    }
    let need = case.needs.iter().find(|need| !need.is_there())?;
    Some(format!("Debian's package {} is not installed", need.package()))
}

fn one_sentence(error: &Error) -> String {
    super::outcome::one_line(error)
}

fn on_kernel(case: &ProgramCase, hosts: &ProgramHosts) -> Result<CaseFigure> {
    let run = ProgramRun::new(hosts, Sockets::Kernel);
    let figure = (case.run)(&run);
    let lanes = run.end()?;
    anyhow::ensure!(lanes.is_empty(), "a program without the library has got a lane");
    figure
}

fn on_lane(case: &ProgramCase, hosts: &ProgramHosts) -> Result<LaneOutcome> {
    let run = ProgramRun::new(hosts, Sockets::Lane);
    let figure = (case.run)(&run);
    let lanes = run.end();
    // What the program says comes first: the lanes of one that hangs may not end.
    let figure = figure?;
    Ok(LaneOutcome::of(figure, &lanes?, case.least))
}
