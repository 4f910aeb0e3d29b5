//! The claims of all lanes, and the sockets that justify them.

use std::collections::{BTreeMap, BTreeSet};
use tickwire_lane::control::{Claim, ClaimInfo, ClaimKind, Parts, Reason};
use tickwire_registry::{Bound, ClaimId, LaneId, ProvenSocket, Registry, TableChange, justifies};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::Protocol;

/// At most so many claims at a time for one lane.
const MOST_OF_LANE: usize = 16_384;

/// A claim, and the socket that justifies it. While the service has a copy of the socket, the port
/// is no other program's, even if the program that has the lane has been killed.
#[derive(Debug)]
struct HeldClaim<S> {
    lane: LaneId,
    kind: ClaimKind,
    bound: Bound,
    remote: Endpoint,
    socket: S,
}

/// A claim of all packets for a port.
#[derive(Clone, Copy, Debug)]
pub struct PortClaim {
    /// Its lane.
    pub lane: LaneId,
    /// Its number.
    pub claim: Claim,
    /// Where its socket is bound.
    pub bound: Bound,
}

/// All claims. `S`: a socket, which is closed when its claim ends.
#[derive(Debug)]
pub struct Claims<S> {
    registry: Registry,
    held: BTreeMap<ClaimId, HeldClaim<S>>,
    /// How many each lane has.
    counts: BTreeMap<LaneId, usize>,
    /// How many each port has.
    taken: BTreeMap<u16, usize>,
}

impl<S> Default for Claims<S> {
    fn default() -> Self {
        let (held, counts, taken) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { registry: Registry::default(), held, counts, taken }
    }
}

/// A new claim: to be [forgotten](Claims::end) if its changes cannot be applied.
#[derive(Debug)]
pub struct NewClaim {
    /// Its number.
    pub claim: Claim,
    /// What is to change in the tables.
    pub changes: Vec<TableChange>,
}

impl<S> Claims<S> {
    /// Claims for a lane what a socket justifies. `is_ours`: whether an address is one of the
    /// accelerated network cards.
    ///
    /// # Errors
    /// Why the socket stays on the kernel.
    pub fn claim(
        &mut self,
        lane: LaneId,
        (kind, remote): (ClaimKind, Endpoint),
        (socket, proven): (S, ProvenSocket),
        is_ours: impl Fn(Address) -> bool,
    ) -> Result<NewClaim, Reason> {
        let bound = proven.bound;
        justifies(&proven, kind, remote, is_ours(bound.local.address))?;
        if self.count(lane) >= MOST_OF_LANE {
            return Err(Reason::LaneFull);
        }
        let (id, changes) = match kind {
            ClaimKind::Flow => self.registry.claim_flow(lane, bound, remote)?,
            ClaimKind::Bound | ClaimKind::Ephemeral => self.registry.claim_bound(lane, bound)?,
        };
        let held = HeldClaim { lane, kind, bound, remote, socket };
        self.held.insert(id, held);
        *self.counts.entry(lane).or_default() += 1;
        *self.taken.entry(bound.local.port).or_default() += 1;
        Ok(NewClaim { claim: Claim(id), changes })
    }

    /// Ends a lane's claims. Returns what is to change in the tables, and the sockets, which are to
    /// be closed after that.
    ///
    /// # Errors
    /// [`Reason::BadRequest`] if one was not the lane's; the others are ended even so.
    pub fn release(&mut self, lane: LaneId, parts: &Parts) -> (Vec<TableChange>, Vec<S>, Result<(), Reason>) {
        let (mut changes, mut sockets, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
        for part in parts.as_slice() {
            let released = if part.remote.port == 0 {
                self.end(lane, part.claim).map(|(changes, socket)| {
                    sockets.extend(socket);
                    changes
                })
            } else {
                self.registry.release_flows(lane, part.claim.0, part.remote).map_err(Reason::from)
            };
            match released {
                Ok(more) => changes.extend(more),
                Err(reason) => outcome = Err(reason),
            }
        }
        (changes, sockets, outcome)
    }

    /// Ends one claim of a lane.
    ///
    /// # Errors
    /// [`Reason::BadRequest`] if it is not the lane's.
    pub fn end(&mut self, lane: LaneId, Claim(claim): Claim) -> Result<(Vec<TableChange>, Option<S>), Reason> {
        let changes = self.registry.release(lane, claim)?;
        one_less(&mut self.counts, lane);
        let held = self.held.remove(&claim);
        if let Some(held) = &held {
            one_less(&mut self.taken, held.bound.local.port);
        }
        Ok((changes, held.map(|held| held.socket)))
    }

    /// Ends all claims of a lane.
    pub fn end_lane(&mut self, lane: LaneId) -> (Vec<TableChange>, Vec<S>) {
        let (mut changes, mut sockets) = (Vec::new(), Vec::new());
        for claim in self.registry.of_lane(lane) {
            if let Ok((more, socket)) = self.end(lane, Claim(claim)) {
                changes.extend(more);
                sockets.extend(socket);
            }
        }
        (changes, sockets)
    }

    /// Whether a lane may send from one end of a TCP connection to the other.
    #[must_use]
    pub fn owns(&self, lane: LaneId, local: Endpoint, remote: Endpoint) -> bool {
        self.registry.owns(lane, Protocol::Tcp, local, remote)
    }

    /// How many claims a lane has.
    #[must_use]
    pub fn count(&self, lane: LaneId) -> usize {
        self.counts.get(&lane).copied().unwrap_or(0)
    }

    /// The claim of a lane that comes after another.
    #[must_use]
    pub fn next(&self, lane: LaneId, Claim(after): Claim) -> Option<ClaimInfo> {
        let claim = self.registry.next_of_lane(lane, after)?;
        let held = self.held.get(&claim)?;
        let HeldClaim { kind, bound, remote, .. } = *held;
        let (protocol, local) = (bound.protocol.number(), bound.local);
        Some(ClaimInfo { claim: Claim(claim), kind, protocol, local, remote })
    }

    /// Whether a claim is that of a listener, which may have accepted connections.
    #[must_use]
    pub fn is_listeners(&self, Claim(claim): Claim) -> bool {
        let is_it = |held: &HeldClaim<S>| held.kind != ClaimKind::Flow && held.bound.protocol == Protocol::Tcp;
        self.held.get(&claim).is_some_and(is_it)
    }

    /// All claims of whole ports.
    pub fn ports(&self) -> impl Iterator<Item = PortClaim> {
        let whole = self.held.iter().filter(|(_, held)| held.kind != ClaimKind::Flow);
        whole.map(|(&claim, held)| PortClaim { lane: held.lane, claim: Claim(claim), bound: held.bound })
    }

    /// Leaves connections of the kernel that fall under a claim to it. Returns what is to change in
    /// the tables.
    ///
    /// # Errors
    /// [`Reason::BadRequest`] if the claim is not the lane's.
    pub fn except(
        &mut self,
        lane: LaneId,
        Claim(claim): Claim,
        connections: &[(Endpoint, Endpoint)],
    ) -> Result<Vec<TableChange>, Reason> {
        Ok(self.registry.except(lane, claim, connections)?)
    }

    /// Whether connections are left to the kernel.
    #[must_use]
    pub fn has_exceptions(&self) -> bool {
        !self.registry.excepting().is_empty()
    }

    /// The kernel has only these connections any more, of those that were left to it. Returns what
    /// is to change in the tables.
    pub fn retain_exceptions(&mut self, has: impl Fn(Endpoint, Endpoint) -> bool) -> Vec<TableChange> {
        let mut changes = Vec::new();
        for (lane, claim) in self.registry.excepting() {
            changes.extend(self.registry.retain_exceptions(lane, claim, &has).unwrap_or_default());
        }
        changes
    }

    /// Whether something of a port is claimed.
    #[must_use]
    pub fn is_taken(&self, port: u16) -> bool {
        self.taken.contains_key(&port)
    }

    /// The ports of which a lane of these has claimed something.
    pub fn ports_of(&self, lanes: &BTreeSet<LaneId>) -> impl Iterator<Item = (Protocol, u16)> {
        let of_lanes = self.held.values().filter(|held| lanes.contains(&held.lane));
        of_lanes.map(|held| (held.bound.protocol, held.bound.local.port))
    }

    /// The claims at addresses that the network card does not have any more.
    pub fn stranded(&self, is_ours: impl Fn(Address) -> bool) -> Vec<(LaneId, Claim)> {
        let is_stranded = |held: &HeldClaim<S>| {
            let at = held.bound.local.address;
            !at.is_unspecified() && !at.is_multicast() && !is_ours(at)
        };
        let stranded = self.held.iter().filter(|(_, held)| is_stranded(held));
        stranded.map(|(&claim, held)| (held.lane, Claim(claim))).collect()
    }
}

/// Counts one less.
fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tickwire_lane::control::ClaimPart;
    use tickwire_registry::Bound;

    const HERE: Address = Address::v4([10, 0, 0, 1]);
    const THERE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);

    fn proven(protocol: Protocol, port: u16) -> ProvenSocket {
        let bound = Bound { protocol, local: Endpoint::new(HERE, port), dual: false, shares: false, reuses: false };
        ProvenSocket { bound, listens: false, idle: protocol == Protocol::Tcp }
    }

    fn claim(
        claims: &mut Claims<Rc<()>>,
        lane: LaneId,
        wanted: (ClaimKind, Endpoint),
        proven: ProvenSocket,
        socket: &Rc<()>,
    ) -> Result<NewClaim, Reason> {
        claims.claim(lane, wanted, (Rc::clone(socket), proven), |address| address == HERE)
    }

    #[test]
    fn a_claim_keeps_its_socket_until_it_ends() {
        let (mut claims, socket) = (Claims::default(), Rc::new(()));
        let udp = claim(&mut claims, 1, (ClaimKind::Bound, THERE), proven(Protocol::Udp, 53), &socket).unwrap();
        let tcp = claim(&mut claims, 1, (ClaimKind::Flow, THERE), proven(Protocol::Tcp, 80), &socket).unwrap();
        assert!(!udp.changes.is_empty() && !tcp.changes.is_empty());
        assert_eq!((claims.count(1), Rc::strong_count(&socket)), (2, 3));
        let first = claims.next(1, Claim(0)).unwrap();
        assert_eq!((first.claim, first.protocol, first.local.port), (udp.claim, 17, 53));
        let second = claims.next(1, first.claim).unwrap();
        let whole: Vec<_> = claims.ports().map(|port| (port.lane, port.claim, port.bound.local.port)).collect();
        assert_eq!(whole, [(1, udp.claim, 53)]);
        assert!(whole.len() == 1 && !claims.is_listeners(udp.claim) && !claims.is_listeners(tcp.claim));
        let of_lane: Vec<_> = claims.ports_of(&BTreeSet::from([1, 2])).collect();
        assert_eq!(of_lane, [(Protocol::Udp, 53), (Protocol::Tcp, 80)]);
        assert_eq!(claims.ports_of(&BTreeSet::from([2])).count(), 0);
        assert_eq!([53, 80, 81].map(|port| claims.is_taken(port)), [true, true, false]);
        assert!(claims.stranded(|address| address == HERE).is_empty());
        assert_eq!(claims.stranded(|_| false), [(1, udp.claim), (1, tcp.claim)]);
        assert_eq!((second.kind, second.remote), (ClaimKind::Flow, THERE));
        assert!(claims.next(1, second.claim).is_none());
        let (changes, sockets, outcome) = claims.release(
            1,
            &Parts::new(&[
                ClaimPart { claim: Claim(99), remote: Endpoint::default() },
                ClaimPart { claim: udp.claim, remote: Endpoint::default() },
            ]),
        );
        assert_eq!((changes.len(), sockets.len(), outcome), (2, 1, Err(Reason::BadRequest)));
        assert_eq!([53, 80].map(|port| claims.is_taken(port)), [false, true]);
        drop(sockets);
        let (changes, sockets) = claims.end_lane(1);
        assert!(!changes.is_empty() && sockets.len() == 1);
        drop(sockets);
        assert_eq!(Rc::strong_count(&socket), 1);
    }

    #[test]
    fn old_connections_of_the_kernel_are_left_to_it_until_they_are_gone() {
        let (mut claims, socket) = (Claims::default(), Rc::new(()));
        let listener = ProvenSocket { listens: true, idle: false, ..proven(Protocol::Tcp, 80) };
        let bound = (ClaimKind::Bound, Endpoint::default());
        let made = claim(&mut claims, 1, bound, listener, &socket).unwrap();
        assert!(claims.is_listeners(made.claim));
        let old = (Endpoint::new(HERE, 80), THERE);
        assert!(claims.except(2, made.claim, &[old]).is_err(), "another lane's");
        assert_eq!(claims.except(1, made.claim, &[old]).unwrap().len(), 1);
        assert!(claims.has_exceptions());
        assert!(claims.retain_exceptions(|local, remote| (local, remote) == old).is_empty());
        let changes = claims.retain_exceptions(|_, _| false);
        assert!(matches!(changes[..], [TableChange::Flow { after: None, .. }]), "{changes:?}");
        assert!(!claims.has_exceptions());
        claims.except(1, made.claim, &[old]).unwrap();
        let (changes, _) = claims.end_lane(1);
        assert!(changes.iter().any(|change| matches!(change, TableChange::Flow { after: None, .. })));
    }

    #[test]
    fn what_another_lane_has_or_a_socket_does_not_justify_is_refused_and_its_socket_closed() {
        let (mut claims, socket) = (Claims::default(), Rc::new(()));
        let bound = (ClaimKind::Bound, Endpoint::default());
        claim(&mut claims, 1, bound, proven(Protocol::Udp, 53), &socket).unwrap();
        let refused = |claims: &mut _, lane, proven| claim(claims, lane, bound, proven, &socket).err();
        assert_eq!(refused(&mut claims, 2, proven(Protocol::Udp, 53)), Some(Reason::PortTaken));
        assert_eq!(refused(&mut claims, 2, proven(Protocol::Tcp, 80)), Some(Reason::NotBound));
        assert_eq!(Rc::strong_count(&socket), 2);
        assert!(claims.end(2, Claim(1)).is_err(), "another lane's");
    }
}
