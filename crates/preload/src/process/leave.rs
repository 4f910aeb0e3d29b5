//! Leaving the lane because the service is about to end: the connections of this process are handed
//! over to the kernel, and its other sockets become kernel sockets.

use crate::lane::{Access, Lane};
use crate::socket::{kernel, leaving, pending};
use crate::sys;
use crate::sys::errno::Result;
use tickwire_lane::control::Reason;
use tickwire_stack::time::Span;

/// When no connection was handed over for this long, the remaining ones are given up. The service
/// waits a little longer.
const NO_PROGRESS: Span = Span::from_millis(1500);
/// The pause between two attempts, doubled each time.
const FIRST_PAUSE: Span = Span::from_millis(2);
const LAST_PAUSE: Span = Span::from_millis(64);

/// Leaves the lane. `sleep` lets other threads fork meanwhile.
pub(crate) fn leave(lane: &'static Lane, mut sleep: impl FnMut(Span)) {
    let mut progress = sys::now();
    let mut pause = FIRST_PAUSE;
    let mut is_first = true;
    // By the time a list shows the sockets, a new service runs.
    let reason = Reason::Restarted;
    // After an error each of the others would wait for the service just as long, and be lost.
    while let Ok(moved) = leaving::own_to_kernel(lane, reason, |_| true) {
        if moved + leaving::closed_to_kernel(lane) > 0 {
            (progress, pause) = (sys::now(), FIRST_PAUSE);
        }
        // After the connections, which alone can be lost. This includes sockets that other
        // processes share, because the whole lane is left.
        if core::mem::take(&mut is_first) {
            kernel::give_each_to_kernel(lane, reason, true, |_| true);
            continue;
        }
        if lane.with_quietly(is_anything_left) != Ok(true) || sys::now().since(progress) > NO_PROGRESS {
            break;
        }
        sleep(pause);
        pause = pause.times(2).min(LAST_PAUSE);
    }
    lane.end(Reason::Stopping);
}

/// Whether a connection is still to be handed over, or one that the program has closed still has
/// data to send.
fn is_anything_left(access: &mut Access<'_>) -> Result<bool> {
    Ok(pending::unfinished(access) || leaving::any_left(access))
}
