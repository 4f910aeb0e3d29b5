//! A claim that the service has ended: its packets come to the kernel from now on.

use super::{Socket, State};
use crate::lane::lane_if_begun;
use crate::real;
use tickwire_lane::control::{Claim, Reason};

impl Socket {
    /// If the claim was the socket's, the kernel has the socket from now on. A connection cannot go
    /// on there: it ends, and so does one that a listener has accepted under this claim.
    pub(super) fn lose(&self, lost: Claim, reason: Reason) {
        let Some(lane) = lane_if_begun() else { return };
        match self.state() {
            State::Udp { id, claim } if claim == lost => {
                let peer = lane.enter(|access| access.stack.udp_names(id)).ok().and_then(|(_, peer)| peer);
                // The kernel's socket has had no peer.
                if let (true, Some(peer)) = (self.leave_lane(reason), peer) {
                    let _ = real::connect(self.handle, self.family, peer);
                }
            }
            // One with requests stays: its half of the kernel goes on to receive.
            State::Listener { claim, .. } if claim == lost => drop(self.leave_lane(reason)),
            State::Tcp { id, claim } if claim.or_else(|| self.port().listeners.get().copied()) == Some(lost) => {
                let _ = lane.enter(|access| access.stack.tcp_abort(id, access.now));
            }
            _ => return,
        }
        lane.wake_all();
        self.look_again();
    }

    /// Whether the kernel has the socket now: a call that was under way on the lane is to be the
    /// kernel's.
    pub(super) fn has_left(&self) -> bool {
        matches!(self.state(), State::Kernel { .. })
    }
}
