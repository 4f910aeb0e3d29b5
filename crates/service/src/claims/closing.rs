//! A listener closes: the connections that it leaves behind continue, each by a flow of its own.

use super::held_claim::Closed;
use super::port_proof::local_name;
use super::{Claims, HeldClaim};
use crate::clients::Foreign;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::paths::Nics;
use nix::sys::socket::{Shutdown, SockaddrStorage, bind, setsockopt, shutdown, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use tickwire_lane::control::{Claim, ClaimPart, Parts, Reason, Remotes};
use tickwire_lane_linux::sys_socket;
use tickwire_registry::{Bound, ClaimId, LaneId};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{FlowKey, Protocol};

/// What a program reports of a listener that closes, in one of several messages.
pub(crate) struct Closing<'a> {
    /// The remote ends of connections that it leaves behind.
    pub(crate) remotes: &'a Remotes,
    /// Whether further messages follow.
    pub(crate) more: bool,
    /// Whether the kernel's listener is to be closed, too.
    pub(crate) closes: bool,
}

impl Claims {
    /// Answers [`tickwire_lane::control::Request::Convert`].
    pub(crate) fn convert(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        Closing { remotes, more, closes }: Closing<'_>,
        lanes: &Lanes,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let limit = lanes.get(lane).map_or(0, |lane| lane.limits.tcp as usize);
        // Once only: later connections to the port are the next listener's.
        let listens = |held: &&mut HeldClaim| held.closed.is_none() && held.has_tcp_port();
        let its = self.held.get_mut(&claim).filter(|held| held.lane == lane).filter(listens);
        let held = its.ok_or(Reason::BadRequest)?;
        // Its program knows it, also if no row shows it any more (see `unnoted`).
        held.asker = None;
        held.converting.extend_from_slice(remotes.as_slice());
        if held.converting.len() > limit {
            held.converting.clear();
            return Err(Reason::LaneFull);
        }
        if more {
            return Ok(());
        }
        let remotes = std::mem::take(&mut held.converting);
        held.closed = Some(Closed::new(&remotes));
        let (bound, user) = (held.bound, held.user);
        if closes {
            close_kernels(Arc::clone(&held.socket), bound.local);
        }
        if remotes.is_empty() {
            self.remove(lane, vec![claim], ledger);
            return Ok(());
        }
        let flows = flows_of(bound, &remotes, nics);
        if flows.len() > ledger.usage.room_for_flows(user) {
            tracing::warn!(
                lane,
                claim,
                connections = remotes.len(),
                "a closed listener keeps its port: limits.flows or flows_per_user is reached"
            );
            self.keep_port(claim);
            return Ok(());
        }
        self.divert_each((lane, claim, bound), flows, lanes, nics, ledger)
    }

    /// Diverts these flows in place of the whole port.
    fn divert_each(
        &mut self,
        (lane, claim, bound): (LaneId, ClaimId, Bound),
        mut flows: Vec<FlowKey>,
        lanes: &Lanes,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        flows.iter().for_each(|flow| self.forget_given(flow, ledger));
        self.leave_out_kernels(lane, bound.local.port, &mut flows, nics);
        // What other listeners at the port have accepted is theirs, also what they accept while the
        // flows are entered.
        let others = self.connections_of_others(lane, bound, lanes, nics);
        flows.retain(|flow| !others.contains(&(flow.local, flow.remote)));
        let changes = self.registry.convert(lane, claim, &flows).map_err(Reason::from)?;
        ledger.programs.apply_best(changes);
        if let Some(held) = self.held.get_mut(&claim) {
            held.pinned.clear();
            held.closed.iter_mut().for_each(|closed| closed.by_flows = true);
        }
        let others = self.connections_of_others(lane, bound, lanes, nics);
        for flow in flows.iter().filter(|flow| others.contains(&(flow.local, flow.remote))) {
            self.unpin(lane, claim, flow, ledger);
        }
        self.charge_known(claim, &mut ledger.usage);
        Ok(())
    }

    /// The connections of a closed listener continue, but there is no room to divert each by
    /// itself: the whole port stays the lane's until the last is over. No other socket may listen
    /// there meanwhile: its packets would be diverted. But a socket that does not listen lets
    /// others do so if it has `SO_REUSEADDR`, which is therefore cleared.
    fn keep_port(&self, claim: ClaimId) {
        let Some(socket) = self.held.get(&claim).map(|held| Arc::clone(&held.socket)) else { return };
        let queue = socket.queue();
        queue.finish(move || {
            let Some(fd) = socket.get() else { return };
            if let Err(error) = setsockopt(&fd, sockopt::ReuseAddr, &false) {
                tracing::warn!(%error, "the port of a closed listener may be taken");
            }
        });
    }

    /// Answers [`tickwire_lane::control::Request::Release`].
    pub(crate) fn release(&mut self, lane: LaneId, parts: &Parts, ledger: &mut Ledger) -> Result<(), Reason> {
        let mut outcome = Ok(());
        let mut whole = Vec::with_capacity(Parts::MAX);
        for &ClaimPart { claim: Claim(claim), remote } in parts.as_slice() {
            match self.held.get(&claim).filter(|held| held.lane == lane) {
                Some(_) if remote.port == 0 => whole.push(claim),
                Some(held) if held.closed.is_some() => {
                    if self.connection_is_over(lane, claim, remote, ledger) {
                        whole.push(claim);
                    }
                }
                _ => outcome = Err(Reason::BadRequest),
            }
        }
        self.remove(lane, whole, ledger);
        outcome
    }

    /// A connection of a closed listener has ended. Returns whether it was the last one, with which
    /// the claim ends.
    fn connection_is_over(&mut self, lane: LaneId, claim: ClaimId, remote: Endpoint, ledger: &mut Ledger) -> bool {
        let Some(closed) = self.held.get_mut(&claim).and_then(|held| held.closed.as_mut()) else { return false };
        if !closed.ends(remote) {
            return false;
        }
        let (over, by_flows) = (closed.connections.is_empty(), closed.by_flows);
        if !over
            && by_flows
            && let Ok(changes) = self.registry.release_flows(lane, claim, remote)
        {
            ledger.programs.apply_best(changes);
            self.charge_known(claim, &mut ledger.usage);
        }
        over
    }
}

/// The connections that a listener may have with these remote ends. One on "any" may have accepted
/// them on each of our addresses.
fn flows_of(bound: Bound, remotes: &[Endpoint], nics: &Nics) -> Vec<FlowKey> {
    let locals: Vec<Address> = if bound.local.address.is_unspecified() {
        nics.addresses().into_iter().collect()
    } else {
        vec![bound.local.address]
    };
    let flow = |local, remote| FlowKey { protocol: Protocol::Tcp, local, remote };
    remotes
        .iter()
        .flat_map(|&remote| locals.iter().map(move |&local| flow(Endpoint::new(local, bound.local.port), remote)))
        .filter(|flow| flow.local.address.family() == flow.remote.address.family())
        .collect()
}

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

/// An address as a socket of this family wants it.
fn socket_address(socket: BorrowedFd<'_>, local: Endpoint) -> SocketAddr {
    let v6 = sys_socket::domain(socket).is_ok_and(|domain| domain == libc::AF_INET6);
    match local.address.to_v4() {
        Some(v4) if !v6 => SocketAddr::from((v4, local.port)),
        _ => SocketAddr::from((local.address.0, local.port)),
    }
}
