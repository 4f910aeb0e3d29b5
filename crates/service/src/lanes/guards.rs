//! The guards of lanes: in XDP where every interface takes what XDP redirects to it, else in tc.

use super::Lanes;
use super::lane_maker::{Blank, device};
use crate::paths::{Nics, mode_name};
use crate::programs::Programs;
use tickwire_lane::control::AttachMode;

/// The mode for guards now: XDP if every interface takes the frames that XDP redirects to it, and
/// losses there are counted; else a tc filter.
pub(super) fn guard_mode(nics: &mut Nics, programs: &mut Programs) -> AttachMode {
    let in_xdp = nics.all_take_redirects(programs) && programs.watch_redirects();
    if in_xdp { AttachMode::Native } else { AttachMode::Tc }
}

impl Lanes {
    /// Guards every lane in the mode for now: whether an interface takes redirected frames may
    /// change at any time.
    pub(crate) fn fit_guards(&mut self, nics: &mut Nics, programs: &mut Programs) {
        let mode = guard_mode(nics, programs);
        self.ready.iter_mut().for_each(|blank| fit_guard(blank, mode, programs));
        for (&id, lane) in self.all.iter_mut().filter(|(_, lane)| lane.guard.mode() != mode) {
            match programs.attach_guard(&lane.device(), id, mode) {
                Ok(guard) => {
                    tracing::info!(lane = id, guard = mode_name(mode), "guard changed");
                    // The new one is attached already, so that the lane is always guarded.
                    lane.guard = guard;
                }
                Err(error) => tracing::warn!(lane = id, %error, "the guard could not be changed"),
            }
        }
    }
}

/// Guards a lane that no program has in this mode.
fn fit_guard(blank: &mut Blank, mode: AttachMode, programs: &mut Programs) {
    if blank.guard.mode() == mode {
        return;
    }
    match programs.attach_guard(&device(blank.number), blank.number, mode) {
        Ok(guard) => blank.guard = guard,
        Err(error) => tracing::warn!(lane = blank.number, %error, "the guard could not be changed"),
    }
}
