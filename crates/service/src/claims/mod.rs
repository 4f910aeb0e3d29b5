//! Claims: what a program may have diverted to its lane, and on what proof.
//!
//! | module | purpose |
//! |---|---|
//! | here | a program claims a bound port or a flow |
//! | `ephemeral` | ports that the service binds for a lane in advance |
//! | `memberships` | multicast groups that a claim's socket has joined |
//! | `kernels` | connections of the kernel's and of other lanes' under a claim |
//! | `connection_pinning` | connections of shared ports stay where they are |
//! | `recheck` | claims end when their sockets give up what was claimed |
//! | `lost_flows` | flows end when they are over, or when divert has given them away |
//! | `takeover` | the kernel continues a lane's connection |
//! | `ending` | the end of claims |

mod connection_pinning;
mod ending;
mod ephemeral;
mod kernels;
mod lost_flows;
mod memberships;
mod recheck;
mod takeover;

use crate::answer::{Answer, refused};
use crate::claim::HeldClaim;
use crate::connection::ConnectionId;
use crate::port_proof::{Flaw, PortProof};
use crate::registry::{Bound, Change, ClaimId, Conflict, FlowKey, LaneId, Protocol};
use crate::service::Service;
use crate::user_workers::Foreign;
use std::time::Instant;
use tickwire_host::Query;
use tickwire_lane::control::{Claim, ClaimKind, Reason, Reply};
use tickwire_stack::addr::{Address, Endpoint};

impl Service {
    /// Answers [`tickwire_lane::control::Request::Claim`].
    pub(crate) fn claim(&mut self, id: ConnectionId, kind: ClaimKind, remote: Endpoint, socket: Foreign) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else {
            return refused(Reason::BadRequest);
        };
        match self.try_claim(lane, kind, remote, socket) {
            Ok((claim, local)) => Reply::Claimed { claim: Claim(claim), local }.into(),
            Err(reason) => refused(reason),
        }
    }

    fn try_claim(
        &mut self,
        number: LaneId,
        kind: ClaimKind,
        remote: Endpoint,
        socket: Foreign,
    ) -> Result<(ClaimId, Endpoint), Reason> {
        let user = self.lanes.get(&number).map(|lane| lane.user).ok_or(Reason::LaneGone)?;
        let judge = self.judge;
        let (socket, proof) = socket
            .queue()
            .ask(move || {
                let proof = socket.get().ok_or(Flaw::NoSocket).and_then(|fd| judge.examine(fd));
                (socket, proof)
            })
            .ok_or(Reason::ServiceError)?;
        let mut proof = proof.map_err(reason_of_flaw)?;
        if kind == ClaimKind::Flow {
            self.choose_source(&mut proof, remote);
        }
        self.check(&proof, kind, remote)?;
        self.usage.take_flow(user)?;
        let bound = proof.bound;
        if kind == ClaimKind::Flow {
            self.forget_given(&FlowKey { protocol: bound.protocol, local: bound.local, remote });
        }
        let entered = match kind {
            ClaimKind::Bound | ClaimKind::Ephemeral => self.registry.claim_bound(number, bound),
            ClaimKind::Flow => self.registry.claim_flow(number, bound, remote),
        };
        let (claim, changes) = entered.map_err(reason_of_conflict).inspect_err(|_| self.usage.give_flow(user))?;
        let held =
            HeldClaim { interface: proof.interface, ..HeldClaim::new(number, user, kind, bound, remote, socket) };
        self.claims.insert(claim, held);
        self.enter(number, claim, changes).inspect_err(|_| self.remove_claims(number, vec![claim]))?;
        tracing::debug!(lane = number, claim, protocol = ?bound.protocol, local = %bound.local, ?kind, "claimed");
        Ok((claim, bound.local))
    }

    /// A flow from a port of any address begins at the address by which the host reaches the peer,
    /// as `connect` has it on Linux. The address stays unspecified, which is refused, if the socket
    /// has no right to that family: another socket may have the port there. It also stays
    /// unspecified for a link-local peer without an interface: several links may have such a peer,
    /// and the claim names none.
    fn choose_source(&mut self, proof: &mut PortProof, remote: Endpoint) {
        let Bound { local: Endpoint { address: local, .. }, dual, .. } = &mut proof.bound;
        let covered = *dual || local.family() == remote.address.family();
        let nowhere = remote.address.is_link_local() && proof.interface == 0;
        if !local.is_unspecified() || !covered || nowhere {
            return;
        }
        let [v4, v6] = proof.services;
        let service = if remote.address.to_v4().is_some() { v4 } else { v6 };
        let query = Query::to(remote.address).by(proof.interface).of_service(service);
        let nics = &self.nics;
        if let Ok(answer) = self.host.resolve(&query, |index, source| nics.path(index, source)) {
            (*local, *dual) = (answer.path.source, false);
        }
    }

    /// Makes the maps agree with a new claim, and leaves the kernel's connections to the kernel.
    fn enter(&mut self, lane: LaneId, claim: ClaimId, changes: Vec<Change>) -> Result<(), Reason> {
        let Some((kind, bound, remote)) = self.claims.get(&claim).map(|h| (h.kind, h.bound, h.remote)) else {
            return Err(Reason::ServiceError);
        };
        // Connections that the kernel has accepted stay with it, also those that it accepts while
        // the claim is entered. So do connections of other lanes.
        let first = match kind {
            ClaimKind::Bound => self.leave_to_kernel(lane, claim, bound),
            ClaimKind::Flow if self.others_have(lane, bound.local, remote) => Err(Reason::PortTaken),
            ClaimKind::Flow | ClaimKind::Ephemeral => Ok(Vec::new()),
        };
        let mut all = first.inspect_err(|_| self.take_back(lane, claim, &changes))?;
        let joined = connection_pinning::joined(&changes);
        self.pin(&joined, Some(lane));
        all.extend(changes);
        self.apply_claim(lane, claim, all)?;
        // Connections that were opened in the meantime, too.
        self.pin(&joined, None);
        // A later join of the same port replaces this one: its lanes include both.
        let until = Instant::now() + connection_pinning::SETTLE;
        self.joined.extend(joined.into_iter().map(|(key, lanes)| (key, (until, lanes))));
        match kind {
            ClaimKind::Bound => {
                let more = self.leave_to_kernel(lane, claim, bound)?;
                self.apply_claim(lane, claim, more)
            }
            // Now that it is entered, none can be established any more: its answers would come
            // here.
            ClaimKind::Flow if self.kernel_has(bound.local, remote) || self.others_have(lane, bound.local, remote) => {
                Err(Reason::PortTaken)
            }
            ClaimKind::Flow | ClaimKind::Ephemeral => Ok(()),
        }
    }

    /// Charges a claim's entries to its user and enters the changes into the maps. If there is no
    /// room for all of them, the claim is removed.
    fn apply_claim(&mut self, lane: LaneId, claim: ClaimId, changes: Vec<Change>) -> Result<(), Reason> {
        let entered = self.charge(claim).and_then(|()| {
            self.programs.apply(changes.clone()).map_err(|error| {
                tracing::error!(lane, %error, "a claim could not be entered");
                if error.is_full() { Reason::FlowLimit } else { Reason::ServiceError }
            })
        });
        entered.inspect_err(|_| self.take_back(lane, claim, &changes))
    }

    /// Removes a claim whose `not_entered` changes are not in the maps: these must not be undone
    /// there.
    fn take_back(&mut self, lane: LaneId, claim: ClaimId, not_entered: &[Change]) {
        let mut undo = self.registry.release(lane, claim).unwrap_or_default();
        undo.retain(|change| !not_entered.iter().any(|done| done.clone().inverse() == *change));
        self.programs.apply_best(undo);
    }

    /// Charges a claim's entries, beyond the first, to its user.
    pub(crate) fn charge(&mut self, claim: ClaimId) -> Result<(), Reason> {
        let Some(held) = self.claims.get(&claim) else { return Ok(()) };
        let entries = self.registry.entries_of(claim).saturating_sub(1);
        if entries.saturating_sub(held.charged) > self.usage.room_for_flows(held.user) {
            return Err(Reason::UserFlowLimit);
        }
        self.charge_known(claim);
        Ok(())
    }

    /// The same where there is known to be room, or where there are fewer entries.
    fn charge_known(&mut self, claim: ClaimId) {
        let Some(held) = self.claims.get_mut(&claim) else { return };
        let entries = self.registry.entries_of(claim).saturating_sub(1);
        self.usage.give_flows(held.user, held.charged.saturating_sub(entries));
        self.usage.take_flows(held.user, entries.saturating_sub(held.charged));
        held.charged = entries;
    }

    /// Whether the proof justifies that anything is diverted.
    fn check(&self, proof: &PortProof, kind: ClaimKind, remote: Endpoint) -> Result<(), Reason> {
        let Bound { protocol, local, .. } = proof.bound;
        if !self.nics.any() {
            return Err(self.nics.why_none());
        }
        if protocol == Protocol::Tcp && self.kernel_connections.is_none() {
            return Err(Reason::NoDiagnostics);
        }
        self.check_device(proof.interface, kind, protocol)?;
        if self.nics.is_left_out(local.address) {
            return Err(Reason::ServiceError);
        }
        let ours = self.nics.has_address(local.address);
        match kind {
            // The service binds such a port itself.
            ClaimKind::Ephemeral => Err(Reason::BadRequest),
            // A TCP socket that is bound but does not listen has no right to the packets to its
            // port: they may be for connections of other sockets.
            ClaimKind::Bound if protocol == Protocol::Tcp && !proof.listens => Err(Reason::NotBound),
            ClaimKind::Bound if local.address.is_loopback() => Err(Reason::BoundLoopback),
            ClaimKind::Bound if local.address.is_unspecified() || ours => Ok(()),
            ClaimKind::Bound if protocol == Protocol::Udp && local.address.is_multicast() => Ok(()),
            // A connection of the kernel's stays with the kernel; and its socket's port may be
            // shared with other connections.
            ClaimKind::Flow if !proof.idle => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.port == 0 || remote.address.is_unspecified() => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.address.family() != local.address.family() => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.address.is_loopback() => Err(Reason::Loopback),
            ClaimKind::Flow if local.address.is_unspecified() => Err(Reason::NotBound),
            ClaimKind::Flow if ours => Ok(()),
            _ => Err(Reason::Address),
        }
    }

    /// Whether a socket that is bound to an interface can have the packets to its port.
    fn check_device(&self, interface: u32, kind: ClaimKind, protocol: Protocol) -> Result<(), Reason> {
        match kind {
            _ if interface == 0 => Ok(()),
            _ if !self.nics.contains(interface) => Err(Reason::BoundDevice),
            // The stack sees by which interface a connection's packets arrive. Packets to the port
            // by another interface may be for another socket.
            ClaimKind::Flow if protocol == Protocol::Tcp => Ok(()),
            _ if self.nics.is_only(interface) => Ok(()),
            _ => Err(Reason::OneOfSeveral),
        }
    }

    /// Ends the claims of sockets that are bound to an interface and have lost the right to their
    /// ports, because the interfaces have changed.
    pub(crate) fn lose_bound_to_devices(&mut self) {
        for reason in [Reason::OneOfSeveral, Reason::BoundDevice] {
            let lost = |(_, held): &(&ClaimId, &HeldClaim)| {
                self.check_device(held.interface, held.kind, held.bound.protocol) == Err(reason)
            };
            let lost: Vec<ClaimId> = self.claims.iter().filter(lost).map(|(&claim, _)| claim).collect();
            self.lose_these(lost, reason);
        }
    }

    /// The socket of a claim is bound to another interface than before.
    pub(crate) fn socket_names_device(&mut self, claim: ClaimId, interface: u32) {
        let Some(held) = self.claims.get_mut(&claim) else { return };
        held.interface = interface;
        let (kind, protocol) = (held.kind, held.bound.protocol);
        if let Err(reason) = self.check_device(interface, kind, protocol) {
            self.lose_these([claim], reason);
        }
    }

    /// Diverts packets to this address to a claim: its socket receives no more from the kernel.
    pub(crate) fn cover(&mut self, claim: ClaimId, address: Address) {
        let Some(lane) = self.claims.get(&claim).map(|held| held.lane) else { return };
        let reason = match self.registry.cover(lane, claim, address) {
            Ok(changes) => {
                let entered = self.apply_claim(lane, claim, changes);
                if let (Ok(()), Some(held)) = (entered, self.claims.get_mut(&claim)) {
                    tracing::debug!(lane, claim, %address, "its socket has another address");
                    held.covered = address;
                }
                entered.err()
            }
            Err(conflict) => Some(reason_of_conflict(conflict)),
        };
        if let Some(reason) = reason {
            self.lose_these([claim], reason);
        }
    }
}

fn reason_of_flaw(flaw: Flaw) -> Reason {
    match flaw {
        Flaw::NoSocket => Reason::BadRequest,
        Flaw::Kind => Reason::Type,
        Flaw::Namespace => Reason::Namespace,
        Flaw::Unbound => Reason::NotBound,
    }
}

fn reason_of_conflict(conflict: Conflict) -> Reason {
    match conflict {
        Conflict::Port | Conflict::Flow => Reason::PortTaken,
        Conflict::TooManySharing => Reason::ShareLimit,
        Conflict::Unknown => Reason::BadRequest,
    }
}
