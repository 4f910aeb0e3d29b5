//! Looks in the background at the sockets of all claims of a user. A program can make every system
//! call on its socket block (see `clients::user_workers`).

use super::port_proof::{Duty, is_connected, right};
use crate::clients::{Foreign, Queue};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tickwire_lane_linux::sys_socket;
use tickwire_registry::ClaimId;
use tickwire_stack::addr::{Address, Endpoint};

/// A socket that does not answer for so long proves nothing.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One verification of all claims of a user.
#[derive(Debug)]
pub(crate) struct ClaimRecheck {
    claims: Vec<(ClaimId, Duty)>,
    /// How many have been verified.
    done: Arc<AtomicUsize>,
    found: Receiver<Finding>,
    begun: Instant,
}

/// What is verified: a claim's socket, what is expected of it, and the right that is used now.
pub(crate) type Look = (ClaimId, Duty, Endpoint, Right, Weak<Foreign>);

/// What a socket gives the right to: the address for which packets are diverted, and the interface
/// to which it is bound (0: to none).
type Right = (Address, u32);

/// A socket that gives another right than the one that is used.
pub(crate) type Finding = (ClaimId, Duty, Option<Right>);

impl ClaimRecheck {
    /// Begins to verify the claims of the user whose queue this is.
    pub(crate) fn begin(claims: Vec<Look>, queue: &Arc<Queue>) -> Self {
        let (tell, found) = channel();
        let done = Arc::new(AtomicUsize::new(0));
        let listed = claims.iter().map(|&(claim, duty, ..)| (claim, duty)).collect();
        let verification = Self { claims: listed, done: Arc::clone(&done), found, begun: Instant::now() };
        queue.later(move || {
            for (claim, duty, local, used, socket) in claims {
                if let Some(socket) = socket.upgrade() {
                    let right = socket.get().and_then(|fd| {
                        // The kernel binds a socket that is connected to a link-local peer to an
                        // interface: the program has not asked for that.
                        let connected = duty == Duty::Datagrams && is_connected(fd);
                        let device = if connected { used.1 } else { sys_socket::bound_interface(fd).unwrap_or(0) };
                        Some((right(fd, local, duty)?, device))
                    });
                    if right != Some(used) && tell.send((claim, duty, right)).is_err() {
                        return;
                    }
                }
                done.fetch_add(1, Relaxed);
            }
        });
        verification
    }

    /// Adds what was found since the last call. Returns whether the verification is still running;
    /// it is given up if it takes too long. `is_stuck` says whether no job of the user's makes
    /// progress.
    pub(crate) fn poll(&self, is_stuck: impl FnOnce() -> bool, found: &mut Vec<Finding>) -> bool {
        found.extend(self.found.try_iter());
        let done = self.done.load(Relaxed);
        if done < self.claims.len() && self.begun.elapsed() < TIMEOUT {
            return true;
        }
        // The claim at which it is stuck; all that are left, if no job of this user's makes
        // progress.
        let left = self.claims.get(done..).unwrap_or_default();
        let left = if is_stuck() { left } else { left.get(..1).unwrap_or_default() };
        found.extend(left.iter().map(|&(claim, duty)| (claim, duty, None)));
        false
    }
}
