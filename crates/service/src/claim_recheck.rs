//! Claims hold for as long as their sockets hold what was claimed with them. This is verified in
//! the background, since a program can make every system call on its socket block (see
//! [`crate::user_workers`]).

use crate::claims::Held;
use crate::port_proof::{Duty, is_connected, right};
use crate::registry::{ClaimId, Protocol};
use crate::service::Service;
use crate::user_workers::Foreign;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tickwire_link::control::{ClaimKind, Reason};
use tickwire_link::sys_socket;
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
type Look = (ClaimId, Duty, Endpoint, Right, Weak<Foreign>);

/// What a socket gives the right to: the address for which packets are diverted, and the interface
/// to which it is bound (0: to none).
type Right = (Address, u32);

/// A socket that gives another right than the one that is used.
type Finding = (ClaimId, Duty, Option<Right>);

/// What a claim's socket must continue to do.
fn duty(held: &Held) -> Duty {
    match (held.bound.protocol, held.kind) {
        (Protocol::Udp, _) => Duty::Datagrams,
        (Protocol::Tcp, ClaimKind::Flow | ClaimKind::Ephemeral) => Duty::Idle,
        (Protocol::Tcp, ClaimKind::Bound) if held.closed.is_some() => Duty::Port,
        (Protocol::Tcp, ClaimKind::Bound) => Duty::Listen,
    }
}

impl Service {
    /// Ends claims whose socket no longer holds what was claimed with it: the kernel may have given
    /// that to another socket, whose packets must not be diverted. Called every second; each call
    /// acts on what the one before it found.
    pub(crate) fn verify_claims(&mut self) {
        let mut found: Vec<Finding> = Vec::new();
        self.verifications.retain(|&user, verification| {
            found.extend(verification.found.try_iter());
            let done = verification.done.load(Relaxed);
            if done < verification.claims.len() && verification.begun.elapsed() < TIMEOUT {
                return true;
            }
            // The claim at which it is stuck; all that are left, if no job of this user's makes
            // progress.
            let left = verification.claims.get(done..).unwrap_or_default();
            let left = if self.offload.of(user).is_stuck() { left } else { left.get(..1).unwrap_or_default() };
            found.extend(left.iter().map(|&(claim, duty)| (claim, duty, None)));
            false
        });
        found.retain(|(claim, seen, _)| self.claims.get(claim).is_some_and(|held| duty(held) == *seen));
        for (claim, _, right) in found {
            let Some((address, interface)) = right else {
                self.lose_these([claim], Reason::NotBound);
                continue;
            };
            let before = self.claims.get(&claim).map(|held| (held.covered, held.interface));
            if before.is_some_and(|(covered, _)| covered != address) {
                self.cover(claim, address);
            }
            if before.is_some_and(|(_, device)| device != interface) {
                self.socket_names_device(claim, interface);
            }
        }
        let mut due: HashMap<u32, Vec<Look>> = HashMap::new();
        for (&claim, held) in &self.claims {
            if !self.verifications.contains_key(&held.user) {
                let socket = Arc::downgrade(&held.socket);
                let right = (held.covered, held.interface);
                due.entry(held.user).or_default().push((claim, duty(held), held.bound.local, right, socket));
            }
        }
        for (user, claims) in due {
            let (tell, found) = channel();
            let done = Arc::new(AtomicUsize::new(0));
            let listed = claims.iter().map(|&(claim, duty, ..)| (claim, duty)).collect();
            let verification = ClaimRecheck { claims: listed, done: Arc::clone(&done), found, begun: Instant::now() };
            self.verifications.insert(user, verification);
            self.offload.of(user).later(move || {
                for (claim, duty, local, used, socket) in claims {
                    if let Some(socket) = socket.upgrade() {
                        let right = socket.get().and_then(|fd| {
                            // The kernel binds a socket that is connected to a link-local peer to
                            // an interface: the program has not asked for that.
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
        }
    }
}
