//! Which sockets of the lane are ready, and waiting for that.

use super::{Socket, State};
use crate::lane::{Waited, lane};
use std::time::{Duration, Instant};
use tickwire_stack::{Ready, SocketId};

/// Where sockets of the kernel are waited for, too, they are looked at so often.
const SLICE: Duration = Duration::from_millis(1);

impl Socket {
    /// The socket in the stack; `None` if the kernel has it.
    pub(crate) fn on_lane(&self) -> Option<SocketId> {
        match self.state() {
            State::Idle | State::Kernel { .. } => None,
            State::Udp { id, .. } => Some(id.into()),
            State::Listener { id, .. } => Some(id.into()),
            State::Tcp { id, .. } => Some(id.into()),
        }
    }
}

/// The readiness of sockets of the lane, in their order. One that is not there any more has an
/// error.
pub(crate) fn readiness(sockets: &[SocketId]) -> Vec<Ready> {
    let Ok(lane) = lane() else { return vec![Ready::ERR; sockets.len()] };
    lane.enter(|access| sockets.iter().map(|id| access.stack.readiness(*id).unwrap_or(Ready::ERR)).collect())
}

/// Waits until one of these sockets of the lane has one of its bits, or `kernel` says that one of
/// the kernel is ready, or a time is over. `kernel` is `None` if there is none of the kernel.
pub(crate) fn wait_until_ready(
    sockets: &[(SocketId, Ready)],
    kernel: Option<&mut dyn FnMut() -> bool>,
    until: Option<Instant>,
) {
    let Ok(lane) = lane() else { return };
    let mut kernel = kernel;
    loop {
        let slice = kernel.as_ref().map(|_| Instant::now() + SLICE);
        let next = [slice, until].into_iter().flatten().min();
        let waited = lane.wait(next, |access| {
            let is_ready = sockets.iter().any(|(id, wanted)| {
                let ready = access.stack.readiness(*id).unwrap_or(Ready::ERR);
                ready.0 & wanted.0 != 0
            });
            is_ready.then_some(())
        });
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        let of_kernel = kernel.as_mut().is_some_and(|is_ready| is_ready());
        if waited != Waited::TimedOut || is_over || of_kernel {
            return;
        }
    }
}
