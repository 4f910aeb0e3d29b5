//! Claims: what a program may have diverted to its lane, and on what proof.

use crate::connection::{Answer, ConnectionId};
use crate::groups::{GroupKey, Member, filter};
use crate::offload::Foreign;
use crate::pins;
use crate::proof::{Flaw, Proof, local_name};
use crate::registry::{Bound, Change, ClaimId, Conflict, FlowKey, LaneId, Protocol};
use crate::requests::refused;
use crate::service::Service;
use nix::sys::socket::{Shutdown, SockaddrStorage, bind, shutdown};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;
use tickwire_host::{Ends, RouteQuery};
use tickwire_link::control::{Claim, ClaimKind, Membership, Push, Reason, Remotes, Reply};
use tickwire_link::sys_socket;
use tickwire_stack::addr::{Address, Endpoint};

/// A claim as the service holds it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lane: LaneId,
    pub(crate) user: u32,
    pub(crate) kind: ClaimKind,
    pub(crate) bound: Bound,
    /// The address for which packets are diverted now: the bound one, or, while a UDP socket bound to any is connected, one.
    pub(crate) covered: Address,
    pub(crate) remote: Endpoint,
    /// The program's kernel socket: as long as it is held, the port stays taken in the kernel's registry.
    pub(crate) socket: Arc<Foreign>,
    /// Whether our filter is on it (see [`crate::groups`]); one that the program attached itself is none of our business.
    filtered: bool,
    /// Remotes collected so far for a conversion that takes several messages.
    converting: Vec<Endpoint>,
    /// It is a closed listener's, for the connections that were left.
    pub(crate) converted: bool,
    /// Entries of the flow map that are booked on the user beyond the claim itself.
    charged: usize,
    /// Connections of a shared port that stay with this lane (see [`crate::pins`]).
    pub(crate) pinned: Vec<FlowKey>,
}

impl Service {
    /// Answers [`tickwire_link::control::Request::Claim`].
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
        let proof = proof.map_err(reason_of_flaw)?;
        self.check(&proof, kind, remote)?;
        self.usage.take_flow(user)?;
        let bound = proof.bound;
        let entered = match kind {
            ClaimKind::Bound => self.registry.claim_bound(number, bound),
            ClaimKind::Flow => self.registry.claim_flow(number, bound, remote),
        };
        let (claim, changes) = entered.map_err(reason_of_conflict).inspect_err(|_| self.usage.give_flow(user))?;
        let socket = Arc::new(socket);
        let held = Held {
            lane: number,
            user,
            kind,
            bound,
            covered: bound.local.address,
            remote,
            socket,
            filtered: false,
            converting: Vec::new(),
            converted: false,
            charged: 0,
            pinned: Vec::new(),
        };
        self.claims.insert(claim, held);
        self.enter(number, claim, changes).inspect_err(|_| self.remove_claim(number, claim))?;
        tracing::debug!(lane = number, claim, protocol = ?bound.protocol, local = %bound.local, ?kind, "claimed");
        Ok((claim, bound.local))
    }

    /// Makes the maps agree with a new claim, and leaves to the kernel what is the kernel's.
    fn enter(&mut self, lane: LaneId, claim: ClaimId, changes: Vec<Change>) -> Result<(), Reason> {
        let Some((kind, bound, remote)) = self.claims.get(&claim).map(|h| (h.kind, h.bound, h.remote)) else {
            return Err(Reason::ServiceError);
        };
        // What the kernel has accepted already stays with it, also what it accepts while the claim is entered.
        let mut all = match kind {
            ClaimKind::Bound => {
                self.kernel_connections(lane, claim, bound).inspect_err(|_| self.take_back(lane, claim, &changes))?
            }
            ClaimKind::Flow => Vec::new(),
        };
        let joined = pins::joined(&changes);
        self.pin(&joined);
        all.extend(changes);
        self.apply_claim(lane, claim, all)?;
        // Those that came about in the meantime, too.
        self.pin(&joined);
        self.joined.extend(joined.into_iter().map(|joined| (Instant::now() + pins::SETTLE, joined)));
        match kind {
            ClaimKind::Bound => {
                let more = self.kernel_connections(lane, claim, bound)?;
                self.apply_claim(lane, claim, more)?;
            }
            // Now that it is entered no new one can come into being: its answers would come here.
            ClaimKind::Flow if self.kernel_has(bound.local, remote) => return Err(Reason::PortTaken),
            ClaimKind::Flow => {}
        }
        self.charge(claim)
    }

    /// Enters changes of a claim into the maps; if they do not take all of them, the claim is gone.
    fn apply_claim(&mut self, lane: LaneId, claim: ClaimId, changes: Vec<Change>) -> Result<(), Reason> {
        let Err(error) = self.programs.apply(changes.clone()) else { return Ok(()) };
        tracing::error!(lane, %error, "a claim could not be entered");
        self.take_back(lane, claim, &changes);
        Err(if error.is_full() { Reason::FlowLimit } else { Reason::ServiceError })
    }

    /// Takes a claim out again of which these changes have not been entered: they must not be taken out.
    fn take_back(&mut self, lane: LaneId, claim: ClaimId, not_entered: &[Change]) {
        let mut undo = self.registry.release(lane, claim).unwrap_or_default();
        undo.retain(|change| !not_entered.iter().any(|done| done.clone().inverse() == *change));
        self.programs.apply_best(undo);
    }

    /// Whether the kernel's own stack has a live connection between these ends. One local port may have connections of several
    /// programs, so that a socket of that port proves no right to each of them.
    fn kernel_has(&mut self, local: Endpoint, remote: Endpoint) -> bool {
        let Some(connections) = &mut self.kernel_connections else { return true };
        self.nics.indices().into_iter().any(|nic| {
            connections.has(&(local, remote), nic).unwrap_or_else(|error| {
                tracing::warn!(%error, "the kernel does not say whether it has a connection that is claimed");
                true
            })
        })
    }

    /// Books the entries that stand behind a claim, beyond the first, on its user.
    pub(crate) fn charge(&mut self, claim: ClaimId) -> Result<(), Reason> {
        let Some(held) = self.claims.get_mut(&claim) else { return Ok(()) };
        let entries = self.registry.entries_of(claim).saturating_sub(1);
        if entries <= held.charged {
            self.usage.give_flows(held.user, held.charged - entries);
        } else if entries - held.charged > self.usage.room_for_flows(held.user) {
            return Err(Reason::UserFlowLimit);
        } else {
            self.usage.take_flows(held.user, entries - held.charged);
        }
        held.charged = entries;
        Ok(())
    }

    /// What leaves the kernel's own connections on a claimed port to the kernel.
    fn kernel_connections(&mut self, lane: LaneId, claim: ClaimId, bound: Bound) -> Result<Vec<Change>, Reason> {
        if bound.protocol != Protocol::Tcp {
            return Ok(Vec::new());
        }
        let Some(connections) = &mut self.kernel_connections else { return Err(Reason::NoDiagnostics) };
        let ends = connections.of_port(bound.local.port).map_err(|error| {
            tracing::error!(lane, %error, "the kernel's connections on a claimed port are not known");
            Reason::ServiceError
        })?;
        Ok(self.registry.except(lane, claim, &ends).unwrap_or_default())
    }

    /// Forgets exceptions for connections of the kernel's that are over.
    pub(crate) fn verify_exceptions(&mut self) {
        let mut live: BTreeMap<u16, Vec<Ends>> = BTreeMap::new();
        for (claim, lane, key) in self.registry.exceptions() {
            let Some(connections) = &mut self.kernel_connections else { return };
            let port = key.local.port;
            let ends = live.entry(port).or_insert_with(|| connections.of_port(port).unwrap_or_default());
            if !ends.contains(&(key.local, key.remote))
                && let Ok(changes) = self.registry.release_flows(lane, claim, key.remote)
            {
                self.programs.apply_best(changes);
                let _ = self.charge(claim);
            }
        }
    }

    /// Whether what was proved is a reason to divert anything.
    fn check(&self, proof: &Proof, kind: ClaimKind, remote: Endpoint) -> Result<(), Reason> {
        let Bound { protocol, local, .. } = proof.bound;
        if !self.nics.any() {
            return Err(self.nics.why_none());
        }
        if protocol == Protocol::Tcp && self.kernel_connections.is_none() {
            return Err(Reason::NoDiagnostics);
        }
        // Divert does not know by which interface a packet may come to a socket that accepts only one of several.
        if proof.interface != 0 && !self.nics.is_only(proof.interface) {
            return Err(Reason::BoundDevice);
        }
        let ours = self.nics.has_address(local.address);
        match kind {
            // A TCP socket that is bound but does not listen has no right to what comes to the port: connections of others may.
            ClaimKind::Bound if protocol == Protocol::Tcp && !proof.listens => Err(Reason::NotBound),
            ClaimKind::Bound if local.address.is_loopback() => Err(Reason::Loopback),
            ClaimKind::Bound if local.address.is_unspecified() || ours => Ok(()),
            ClaimKind::Bound if protocol == Protocol::Udp && local.address.is_multicast() => Ok(()),
            // A connection of the kernel's has its own way; and its socket's port may be shared with others'.
            ClaimKind::Flow if !proof.idle => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.port == 0 || remote.address.is_unspecified() => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.address.family() != local.address.family() => Err(Reason::BadRequest),
            ClaimKind::Flow if remote.address.is_loopback() => Err(Reason::Loopback),
            ClaimKind::Flow if local.address.is_unspecified() => Err(Reason::NotBound),
            ClaimKind::Flow if ours => Ok(()),
            _ => Err(Reason::Address),
        }
    }

    /// Answers [`tickwire_link::control::Request::Convert`].
    pub(crate) fn convert(&mut self, id: ConnectionId, claim: ClaimId, remotes: &Remotes, more: bool) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else { return refused(Reason::BadRequest) };
        let limit = self.lanes.get(&lane).map_or(0, |lane| lane.limits.tcp as usize);
        let Some(held) = self.claims.get_mut(&claim).filter(|held| held.lane == lane) else {
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
        held.converted = true;
        let (socket, bound, user) = (Arc::clone(&held.socket), held.bound, held.user);
        let queue = socket.queue();
        // The listener closes: the kernel's must not go on accepting behind the program's back. A port that the kernel chose it would
        // let go of with that.
        queue.finish(move || {
            let Some(fd) = socket.get() else { return };
            let _ = shutdown(fd.as_raw_fd(), Shutdown::Both);
            if local_name(fd).is_some_and(|name| name.port == 0) {
                let _ = bind(fd.as_raw_fd(), &SockaddrStorage::from(socket_address(fd, bound.local)));
            }
        });
        // What the kernel had accepted by now is its own.
        if let Ok(changes) = self.kernel_connections(lane, claim, bound) {
            self.programs.apply_best(changes);
        }
        // A listener on "any" may have accepted on each of our addresses; the messages name only the remote ends.
        let locals: Vec<Address> = if bound.local.address.is_unspecified() {
            self.nics.addresses().into_iter().collect()
        } else {
            vec![bound.local.address]
        };
        let flows: Vec<(Address, Endpoint)> = remotes
            .iter()
            .flat_map(|&remote| locals.iter().map(move |&local| (local, remote)))
            .filter(|(local, remote)| local.family() == remote.address.family())
            .take(self.usage.room_for_flows(user))
            .collect();
        match self.registry.convert(lane, claim, &flows) {
            Ok(changes) => {
                self.programs.apply_unproven(changes);
                let pinned = self.claims.get_mut(&claim).map(|held| std::mem::take(&mut held.pinned));
                for flow in pinned.unwrap_or_default() {
                    self.unpin(lane, claim, &flow);
                }
                let _ = self.charge(claim);
                Reply::Done.into()
            }
            Err(conflict) => refused(reason_of_conflict(conflict)),
        }
    }

    /// Answers [`tickwire_link::control::Request::Release`].
    pub(crate) fn release(&mut self, id: ConnectionId, claim: ClaimId, remote: Endpoint) -> Answer {
        let Some(lane) = self.connections.get(&id).and_then(|c| c.lane) else { return refused(Reason::BadRequest) };
        if self.claims.get(&claim).is_none_or(|held| held.lane != lane) {
            return refused(Reason::BadRequest);
        }
        if remote.port == 0 {
            self.remove_claim(lane, claim);
        } else if let Ok(changes) = self.registry.release_flows(lane, claim, remote) {
            self.programs.apply_best(changes);
            let _ = self.charge(claim);
        }
        Reply::Done.into()
    }

    /// Takes a claim out of everything.
    pub(crate) fn remove_claim(&mut self, lane: LaneId, claim: ClaimId) {
        self.leave_groups(claim);
        if let Ok(changes) = self.registry.release(lane, claim) {
            self.programs.apply_best(changes);
        }
        self.forget_claim(claim);
    }

    /// Closes the service's copy of a claim's socket, with which the program may go on on the kernel.
    pub(crate) fn forget_claim(&mut self, claim: ClaimId) {
        if let Some(held) = self.claims.remove(&claim) {
            let Held { socket, filtered, user, charged, .. } = held;
            // What is not closed yet counts: a user may make that last.
            let returns = self.usage.returns();
            socket.queue().finish(move || {
                if filtered && let Some(fd) = socket.get() {
                    let _ = sys_socket::detach_filter(fd);
                }
                if let Some(socket) = Arc::into_inner(socket) {
                    socket.close();
                }
                returns.flows(user, 1 + charged);
            });
        }
    }

    /// Answers [`tickwire_link::control::Request::Join`].
    pub(crate) fn join(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Answer {
        match self.try_join(id, claim, membership) {
            Ok(()) => Reply::Done.into(),
            Err(reason) => refused(reason),
        }
    }

    fn try_join(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Result<(), Reason> {
        let (lane, key) = self.group_of(id, claim, membership)?;
        let user = self.claims.get(&claim).map(|held| held.user).ok_or(Reason::BadRequest)?;
        let member = (lane, claim, membership.source);
        if self.groups.of_claim(claim).contains(&(key, member)) {
            return Ok(());
        }
        self.usage.take_membership(user, self.groups.of_lane(lane))?;
        let Some(members) = self.groups.join(key, member) else {
            self.usage.give_membership(user);
            return Err(Reason::ShareLimit);
        };
        let entered = self.programs.set_members(&members).map_err(|error| {
            tracing::error!(lane, %error, "a group could not be entered");
            if error.is_full() { Reason::MembershipLimit } else { Reason::ServiceError }
        });
        // Without the filter the kernel would deliver each datagram a second time.
        entered.and_then(|()| self.filter_kernel_copies(claim)).inspect_err(|_| self.leave_group(key, claim, member))
    }

    fn leave_group(&mut self, key: GroupKey, claim: ClaimId, member: Member) {
        let Some(members) = self.groups.leave(key, member) else { return };
        if let Some(held) = self.claims.get(&claim) {
            self.usage.give_membership(held.user);
        }
        if let Err(error) = self.programs.set_members(&members) {
            tracing::debug!(%error, "leaving a group");
        }
    }

    /// Leaves all groups of a claim.
    pub(crate) fn leave_groups(&mut self, claim: ClaimId) {
        for (key, member) in self.groups.of_claim(claim).to_vec() {
            self.leave_group(key, claim, member);
        }
    }

    /// Answers [`tickwire_link::control::Request::Leave`].
    pub(crate) fn leave(&mut self, id: ConnectionId, claim: ClaimId, membership: &Membership) -> Answer {
        match self.group_of(id, claim, membership) {
            Ok((lane, key)) => {
                self.leave_group(key, claim, (lane, claim, membership.source));
                let _ = self.filter_kernel_copies(claim);
                Reply::Done.into()
            }
            Err(reason) => refused(reason),
        }
    }

    /// Which group on which interface a membership of a claim means.
    fn group_of(
        &mut self,
        id: ConnectionId,
        claim: ClaimId,
        membership: &Membership,
    ) -> Result<(LaneId, GroupKey), Reason> {
        let lane = self.connections.get(&id).and_then(|c| c.lane).ok_or(Reason::BadRequest)?;
        let held = self.claims.get(&claim).filter(|held| held.lane == lane).ok_or(Reason::BadRequest)?;
        if held.bound.protocol != Protocol::Udp || held.kind != ClaimKind::Bound || !membership.group.is_multicast() {
            return Err(Reason::Group);
        }
        let port = held.bound.local.port;
        let mut interface = membership.interface;
        if interface == 0 {
            let query = RouteQuery { destination: membership.group, source: None, interface: 0, mark: 0 };
            interface = self.host.route(&query).map_err(|_| Reason::ServiceError)?.interface;
        }
        if !self.nics.contains(interface) {
            return Err(Reason::Interface);
        }
        Ok((lane, GroupKey { group: Endpoint::new(membership.group, port), interface }))
    }

    /// Keeps the kernel from delivering what the lane gets already (see [`crate::groups`]).
    fn filter_kernel_copies(&mut self, claim: ClaimId) -> Result<(), Reason> {
        let Some(held) = self.claims.get_mut(&claim) else { return Err(Reason::BadRequest) };
        let mut joined: Vec<Address> = self.groups.of_claim(claim).iter().map(|(key, _)| key.group.address).collect();
        joined.sort_unstable();
        joined.dedup();
        let program = if joined.is_empty() {
            None
        } else {
            Some(filter(&joined, &self.nics.indices()).ok_or(Reason::ShareLimit)?)
        };
        held.filtered = program.is_some();
        let socket = Arc::clone(&held.socket);
        let done = socket.queue().ask(move || {
            let Some(fd) = socket.get() else { return Ok(()) };
            match program {
                Some(program) => sys_socket::attach_filter(fd, &program),
                None => sys_socket::detach_filter(fd),
            }
        });
        done.ok_or(Reason::ServiceError)?.map_err(|error| {
            tracing::warn!(lane = held.lane, %error, "cannot filter a socket that joined a group");
            Reason::Group
        })
    }

    /// Makes the filters anew after interfaces came or went.
    pub(crate) fn refresh_filters(&mut self) {
        let claims: Vec<ClaimId> = self.claims.keys().copied().collect();
        for claim in claims {
            if !self.groups.of_claim(claim).is_empty() {
                let _ = self.filter_kernel_copies(claim);
            }
        }
    }

    /// Diverts to a claim what comes to this address: its socket gets no more from the kernel.
    pub(crate) fn cover(&mut self, claim: ClaimId, address: Address) {
        let Some(lane) = self.claims.get(&claim).map(|held| held.lane) else { return };
        let reason = match self.registry.cover(lane, claim, address) {
            Ok(changes) => {
                let entered = self.apply_claim(lane, claim, changes).and_then(|()| self.charge(claim));
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

    /// Ends the claims for which `gone` says that their address has left the host.
    pub(crate) fn lose_claims(&mut self, gone: impl Fn(&Held) -> bool, reason: Reason) {
        let lost: Vec<ClaimId> = self.claims.iter().filter(|(_, held)| gone(held)).map(|(&id, _)| id).collect();
        self.lose_these(lost, reason);
    }

    /// Ends these claims.
    pub(crate) fn lose_these(&mut self, lost: impl IntoIterator<Item = ClaimId>, reason: Reason) {
        for claim in lost {
            let Some(lane) = self.claims.get(&claim).map(|held| held.lane) else { continue };
            tracing::info!(lane, claim, %reason, "claim lost");
            self.remove_claim(lane, claim);
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
