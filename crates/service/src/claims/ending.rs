//! The end of claims: of a listener that leaves connections behind, by request, or because what
//! they rest on is gone.

use super::reason_of_conflict;
use crate::answer::{Answer, refused};
use crate::claim::{Closed, HeldClaim};
use crate::connection::ConnectionId;
use crate::port_proof::local_name;
use crate::registry::{ClaimId, FlowKey, LaneId, Protocol};
use crate::service::Service;
use crate::user_workers::Foreign;
use nix::sys::socket::{Shutdown, SockaddrStorage, bind, setsockopt, shutdown, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use tickwire_lane::control::{Claim, Part, Parts, Push, Reason, Remotes, Reply};
use tickwire_link::sys_socket;
use tickwire_stack::addr::{Address, Endpoint};

/// So many sockets are closed in one job of a user's thread: a small part of the time for which the
/// service waits for a job.
const CLOSED_AT_ONCE: usize = 64;

/// A listener closes: the kernel's must not continue to accept without the program's knowledge. The
/// shutdown releases a port that the kernel chose, so that it is bound again.
fn close_kernels(socket: Arc<Foreign>, local: Endpoint) {
    let queue = socket.queue();
    queue.finish(move || {
        let Some(fd) = socket.get() else { return };
        let _ = shutdown(fd.as_raw_fd(), Shutdown::Both);
        if local_name(fd).is_some_and(|name| name.port == 0) {
            let _ = bind(fd.as_raw_fd(), &SockaddrStorage::from(socket_address(fd, local)));
        }
    });
}

impl Service {
    /// Answers [`tickwire_lane::control::Request::Convert`].
    pub(crate) fn convert(
        &mut self,
        id: ConnectionId,
        claim: ClaimId,
        remotes: &Remotes,
        (more, closes): (bool, bool),
    ) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else { return refused(Reason::BadRequest) };
        let limit = self.lanes.get(&lane).map_or(0, |lane| lane.limits.tcp as usize);
        // Once only: later connections to the port are the next listener's.
        let listens = |held: &&mut HeldClaim| held.closed.is_none() && held.has_tcp_port();
        let Some(held) = self.claims.get_mut(&claim).filter(|held| held.lane == lane).filter(listens) else {
            return refused(Reason::BadRequest);
        };
        held.converting.extend_from_slice(remotes.as_slice());
        if held.converting.len() > limit {
            held.converting.clear();
            return refused(Reason::LaneFull);
        }
        if more {
            return Reply::Done.into();
        }
        let remotes = std::mem::take(&mut held.converting);
        held.closed = Some(Closed::new(&remotes));
        let (bound, user) = (held.bound, held.user);
        if closes {
            close_kernels(Arc::clone(&held.socket), bound.local);
        }
        if remotes.is_empty() {
            self.remove_claims(lane, vec![claim]);
            return Reply::Done.into();
        }
        // A listener on "any" may have accepted on each of our addresses; the messages name only
        // the remote ends.
        let locals: Vec<Address> = if bound.local.address.is_unspecified() {
            self.nics.addresses().into_iter().collect()
        } else {
            vec![bound.local.address]
        };
        let flow = |local, remote| FlowKey { protocol: Protocol::Tcp, local, remote };
        let mut flows: Vec<FlowKey> = remotes
            .iter()
            .flat_map(|&remote| locals.iter().map(move |&local| flow(Endpoint::new(local, bound.local.port), remote)))
            .filter(|flow| flow.local.address.family() == flow.remote.address.family())
            .collect();
        if flows.len() > self.usage.room_for_flows(user) {
            tracing::warn!(
                lane,
                claim,
                connections = remotes.len(),
                "a closed listener keeps its port: limits.flows or flows_per_user is reached"
            );
            self.keep_port(claim);
            return Reply::Done.into();
        }
        flows.iter().for_each(|flow| self.forget_given(flow));
        self.leave_out_kernels(lane, bound.local.port, &mut flows);
        // What other listeners at the port have accepted is theirs, also what they accept while the
        // flows are entered.
        let others = self.connections_of_others(lane, bound);
        flows.retain(|flow| !others.contains(&(flow.local, flow.remote)));
        match self.registry.convert(lane, claim, &flows) {
            Ok(changes) => {
                self.programs.apply_best(changes);
                if let Some(held) = self.claims.get_mut(&claim) {
                    held.pinned.clear();
                    held.closed.iter_mut().for_each(|closed| closed.by_flows = true);
                }
                let others = self.connections_of_others(lane, bound);
                for flow in flows.iter().filter(|flow| others.contains(&(flow.local, flow.remote))) {
                    self.unpin(lane, claim, flow);
                }
                self.charge_known(claim);
                Reply::Done.into()
            }
            Err(conflict) => refused(reason_of_conflict(conflict)),
        }
    }

    /// The connections of a closed listener continue, but there is no room to divert each by
    /// itself: the whole port stays the lane's until the last is over. No other socket may listen
    /// there meanwhile: its packets would be diverted. But a socket that does not listen lets
    /// others do so if it has `SO_REUSEADDR`, which is therefore cleared.
    fn keep_port(&mut self, claim: ClaimId) {
        let Some(socket) = self.claims.get(&claim).map(|held| Arc::clone(&held.socket)) else { return };
        let queue = socket.queue();
        queue.finish(move || {
            let Some(fd) = socket.get() else { return };
            if let Err(error) = setsockopt(&fd, sockopt::ReuseAddr, &false) {
                tracing::warn!(%error, "the port of a closed listener may be taken");
            }
        });
    }

    /// Answers [`tickwire_lane::control::Request::Release`].
    pub(crate) fn release(&mut self, id: ConnectionId, parts: &Parts) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else { return refused(Reason::BadRequest) };
        let mut answer = Reply::Done.into();
        let mut whole = Vec::with_capacity(Parts::MAX);
        for &Part { claim: Claim(claim), remote } in parts.as_slice() {
            match self.claims.get(&claim).filter(|held| held.lane == lane) {
                Some(_) if remote.port == 0 => whole.push(claim),
                Some(held) if held.closed.is_some() => {
                    if self.connection_is_over(lane, claim, remote) {
                        whole.push(claim);
                    }
                }
                _ => answer = refused(Reason::BadRequest),
            }
        }
        self.remove_claims(lane, whole);
        answer
    }

    /// A connection of a closed listener has ended. Returns whether it was the last one, with which
    /// the claim ends.
    fn connection_is_over(&mut self, lane: LaneId, claim: ClaimId, remote: Endpoint) -> bool {
        let Some(closed) = self.claims.get_mut(&claim).and_then(|held| held.closed.as_mut()) else { return false };
        if !closed.ends(remote) {
            return false;
        }
        let (over, by_flows) = (closed.connections.is_empty(), closed.by_flows);
        if !over
            && by_flows
            && let Ok(changes) = self.registry.release_flows(lane, claim, remote)
        {
            self.programs.apply_best(changes);
            self.charge_known(claim);
        }
        over
    }

    /// Removes claims of a lane from the groups, the registry and the maps.
    pub(crate) fn remove_claims(&mut self, lane: LaneId, claims: Vec<ClaimId>) {
        for &claim in &claims {
            self.leave_groups(claim);
            if let Ok(changes) = self.registry.release(lane, claim) {
                self.programs.apply_best(changes);
            }
        }
        self.forget_claims(claims);
    }

    /// Closes the service's copies of claims' sockets, with which the program may continue on the
    /// kernel. Several of a user at a time, since each job of the user's threads is waited for.
    pub(crate) fn forget_claims(&mut self, claims: Vec<ClaimId>) {
        let mut gone = claims.into_iter().filter_map(|claim| self.claims.remove(&claim)).peekable();
        while let Some(first) = gone.next() {
            let (queue, user) = (first.socket.queue(), first.user);
            let mut some = vec![first];
            while some.len() < CLOSED_AT_ONCE
                && let Some(next) = gone.next_if(|next| next.user == user)
            {
                some.push(next);
            }
            // What is not closed yet still counts: a user may make the closing last.
            let returns = self.usage.returns();
            queue.finish(move || {
                for HeldClaim { socket, filtered, charged, .. } in some {
                    if filtered && let Some(fd) = socket.get() {
                        let _ = sys_socket::detach_filter(fd);
                    }
                    if let Some(socket) = Arc::into_inner(socket) {
                        socket.close();
                    }
                    returns.flows(user, 1 + charged);
                }
            });
        }
    }

    /// Ends the claims for which `gone` says that their address has left the host.
    pub(crate) fn lose_claims(&mut self, gone: impl Fn(&HeldClaim) -> bool, reason: Reason) {
        let lost: Vec<ClaimId> = self.claims.iter().filter(|(_, held)| gone(held)).map(|(&id, _)| id).collect();
        self.lose_these(lost, reason);
    }

    /// Ends these claims.
    pub(crate) fn lose_these(&mut self, lost: impl IntoIterator<Item = ClaimId>, reason: Reason) {
        for claim in lost {
            let Some(lane) = self.claims.get(&claim).map(|held| held.lane) else { continue };
            tracing::info!(lane, claim, %reason, "claim lost");
            self.remove_claims(lane, vec![claim]);
            self.push_to_lane(lane, || Push::ClaimLost { claim: Claim(claim), reason });
        }
    }
}

/// An address as a socket of this family wants it.
fn socket_address(socket: BorrowedFd<'_>, local: Endpoint) -> SocketAddr {
    let v6 = sys_socket::domain(socket).is_ok_and(|domain| domain == libc::AF_INET6);
    match local.address.to_v4() {
        Some(v4) if !v6 => SocketAddr::from((v4, local.port)),
        _ => SocketAddr::from((local.address.0, local.port)),
    }
}
