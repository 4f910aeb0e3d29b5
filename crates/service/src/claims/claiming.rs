//! A program claims a bound port or a flow.

use super::port_proof::{Flaw, PortProof};
use super::{Claims, HeldClaim, connection_pinning};
use crate::clients::Foreign;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::paths::{Nics, Paths};
use std::time::Instant;
use tickwire_host::Query;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_registry::{Bound, ClaimId, LaneId, TableChange, justifies};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{FlowKey, Protocol};

/// What a program wants to claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: ClaimKind,
    /// The remote end of a flow.
    pub(crate) remote: Endpoint,
}

impl Claims {
    /// Claims for a lane what a socket proves. Returns the claim, and its address and port.
    pub(crate) fn claim(
        &mut self,
        number: LaneId,
        wanted: Wanted,
        socket: Foreign,
        lanes: &Lanes,
        paths: &mut Paths,
        ledger: &mut Ledger,
    ) -> Result<(ClaimId, Endpoint), Reason> {
        let Wanted { kind, remote } = wanted;
        let user = lanes.get(number).map(|lane| lane.user).ok_or(Reason::LaneGone)?;
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
            choose_source(&mut proof, remote, paths);
        }
        self.check(&proof, wanted, &paths.nics)?;
        ledger.usage.take_flow(user)?;
        let bound = proof.bound;
        if kind == ClaimKind::Flow {
            self.forget_given(&FlowKey { protocol: bound.protocol, local: bound.local, remote }, ledger);
        }
        let entered = match kind {
            ClaimKind::Bound | ClaimKind::Ephemeral => self.registry.claim_bound(number, bound),
            ClaimKind::Flow => self.registry.claim_flow(number, bound, remote),
        };
        let (claim, changes) = entered.map_err(Reason::from).inspect_err(|_| ledger.usage.give_flow(user))?;
        let held =
            HeldClaim { interface: proof.interface, ..HeldClaim::new(number, user, kind, bound, remote, socket) };
        self.held.insert(claim, held);
        self.enter(claim, changes, lanes, &paths.nics, ledger)
            .inspect_err(|_| self.remove(number, vec![claim], ledger))?;
        tracing::debug!(lane = number, claim, protocol = ?bound.protocol, local = %bound.local, ?kind, "claimed");
        Ok((claim, bound.local))
    }

    /// Makes the maps agree with a new claim, and leaves the kernel's connections to the kernel.
    fn enter(
        &mut self,
        claim: ClaimId,
        changes: Vec<TableChange>,
        lanes: &Lanes,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let Some((lane, kind, bound, remote)) = self.held.get(&claim).map(|h| (h.lane, h.kind, h.bound, h.remote))
        else {
            return Err(Reason::ServiceError);
        };
        // Connections that the kernel has accepted stay with it, also those that it accepts while
        // the claim is entered. So do connections of other lanes.
        let first = match kind {
            ClaimKind::Bound => self.leave_to_kernel(lane, claim, bound, nics, ledger),
            ClaimKind::Flow if self.others_have(lane, bound.local, remote, lanes) => Err(Reason::PortTaken),
            ClaimKind::Flow | ClaimKind::Ephemeral => Ok(Vec::new()),
        };
        let mut all = first.inspect_err(|_| self.take_back(lane, claim, &changes, &mut ledger.programs))?;
        let joined = connection_pinning::joined(&changes);
        self.pin(&joined, Some(lane), lanes, nics, ledger);
        all.extend(changes);
        self.apply(lane, claim, all, ledger)?;
        // Connections that were opened in the meantime, too.
        self.pin(&joined, None, lanes, nics, ledger);
        // A later join of the same port replaces this one: its lanes include both.
        let until = Instant::now() + connection_pinning::SETTLE;
        self.joined.extend(joined.into_iter().map(|(key, lanes)| (key, (until, lanes))));
        match kind {
            ClaimKind::Bound => {
                let more = self.leave_to_kernel(lane, claim, bound, nics, ledger)?;
                self.apply(lane, claim, more, ledger)
            }
            // Now that it is entered, none can be established any more: its answers would come
            // here.
            ClaimKind::Flow
                if self.kernel_has(bound.local, remote, nics) || self.others_have(lane, bound.local, remote, lanes) =>
            {
                Err(Reason::PortTaken)
            }
            ClaimKind::Flow | ClaimKind::Ephemeral => Ok(()),
        }
    }

    /// Whether the proof justifies that anything is diverted.
    fn check(&self, proof: &PortProof, Wanted { kind, remote }: Wanted, nics: &Nics) -> Result<(), Reason> {
        let Bound { protocol, local, .. } = proof.bound;
        if !nics.any() {
            return Err(nics.why_none());
        }
        if protocol == Protocol::Tcp && self.kernel_connections.is_none() {
            return Err(Reason::NoDiagnostics);
        }
        check_device(proof.interface, kind, protocol, nics)?;
        if nics.is_left_out(local.address) {
            return Err(Reason::ServiceError);
        }
        let ours = nics.has_address(local.address);
        justifies(&proof.socket(), kind, remote, ours)
    }

    /// Ends the claims of sockets that are bound to an interface and have lost the right to their
    /// ports, because the interfaces have changed.
    pub(crate) fn lose_bound_to_devices(&mut self, nics: &Nics, ledger: &mut Ledger) {
        for reason in [Reason::OneOfSeveral, Reason::BoundDevice] {
            let lost =
                |held: &HeldClaim| check_device(held.interface, held.kind, held.bound.protocol, nics) == Err(reason);
            self.lose_where(lost, reason, ledger);
        }
    }

    /// The socket of a claim is bound to another interface than before.
    pub(super) fn socket_names_device(&mut self, claim: ClaimId, interface: u32, nics: &Nics, ledger: &mut Ledger) {
        let Some(held) = self.held.get_mut(&claim) else { return };
        held.interface = interface;
        if let Err(reason) = check_device(interface, held.kind, held.bound.protocol, nics) {
            self.lose([claim], reason, ledger);
        }
    }

    /// Diverts packets to this address to a claim: its socket receives no more from the kernel.
    pub(super) fn cover(&mut self, claim: ClaimId, address: Address, ledger: &mut Ledger) {
        let Some(lane) = self.held.get(&claim).map(|held| held.lane) else { return };
        let reason = match self.registry.cover(lane, claim, address) {
            Ok(changes) => {
                let entered = self.apply(lane, claim, changes, ledger);
                if let (Ok(()), Some(held)) = (entered, self.held.get_mut(&claim)) {
                    tracing::debug!(lane, claim, %address, "its socket has another address");
                    held.covered = address;
                }
                entered.err()
            }
            Err(conflict) => Some(Reason::from(conflict)),
        };
        if let Some(reason) = reason {
            self.lose([claim], reason, ledger);
        }
    }
}

/// A flow from a port of any address begins at the address by which the host reaches the peer, as
/// `connect` has it on Linux. The address stays unspecified, which is refused, if the socket has no
/// right to that family: another socket may have the port there. It also stays unspecified for a
/// link-local peer without an interface: several links may have such a peer, and the claim names
/// none.
fn choose_source(proof: &mut PortProof, remote: Endpoint, paths: &mut Paths) {
    let Bound { local: Endpoint { address: local, .. }, dual, .. } = &mut proof.bound;
    let covered = *dual || local.family() == remote.address.family();
    let nowhere = remote.address.is_link_local() && proof.interface == 0;
    if !local.is_unspecified() || !covered || nowhere {
        return;
    }
    let [v4, v6] = proof.services;
    let service = if remote.address.to_v4().is_some() { v4 } else { v6 };
    let query = Query::to(remote.address).by(proof.interface).of_service(service);
    if let Ok(answer) = paths.resolve(&query) {
        (*local, *dual) = (answer.path.source, false);
    }
}

/// Whether a socket that is bound to an interface can have the packets to its port.
fn check_device(interface: u32, kind: ClaimKind, protocol: Protocol, nics: &Nics) -> Result<(), Reason> {
    match kind {
        _ if interface == 0 => Ok(()),
        _ if !nics.contains(interface) => Err(Reason::BoundDevice),
        // The stack sees by which interface a connection's packets arrive. Packets to the port by
        // another interface may be for another socket.
        ClaimKind::Flow if protocol == Protocol::Tcp => Ok(()),
        _ if nics.is_only(interface) => Ok(()),
        _ => Err(Reason::OneOfSeveral),
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
