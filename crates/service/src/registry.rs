//! Who owns which port and flow: the rules, without any system call.
//!
//! Every change of the registry is answered with the [`Change`]s that make the BPF maps agree with it; the caller applies
//! them and, if the kernel refuses one, undoes them with [`Change::inverse`].

use std::collections::{BTreeMap, HashMap};
use tickwire_stack::addr::{Address, Endpoint};

/// The number of a lane.
pub(crate) type LaneId = u32;
/// The number of a claim; never used twice.
pub(crate) type ClaimId = u64;

/// At most so many lanes share one port (`SO_REUSEPORT`): the size of the map's value.
pub(crate) const MAX_SHARED: usize = 8;

/// In the place of a lane: flows that are the kernel's.
pub(crate) const KERNEL: LaneId = 0;

/// The two transport protocols, as IP numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Protocol {
    Tcp = 6,
    Udp = 17,
}

/// A local address (or any of a family) and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortKey {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowKey {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
}

/// What was proved about a socket that a claim is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) protocol: Protocol,
    pub(crate) local: Endpoint,
    /// Bound to `::` without `IPV6_V6ONLY`: IPv4 comes here too.
    pub(crate) dual: bool,
    /// `SO_REUSEPORT`: packets are spread over all that share.
    pub(crate) shares: bool,
    /// `SO_REUSEADDR`, which lets several UDP sockets have one port; unicast then goes to the one bound last.
    pub(crate) reuses: bool,
}

impl Bound {
    /// The keys under which packets for this socket are found.
    fn keys(&self) -> impl Iterator<Item = PortKey> + use<> {
        let key = |address| PortKey { protocol: self.protocol, local: Endpoint::new(address, self.local.port) };
        let also = (self.dual && self.local.address == Address::ANY).then(|| key(Address::ANY_V4));
        std::iter::once(key(self.local.address)).chain(also)
    }
}

impl Bound {
    /// Whether packets to `local` come to this socket: one that is bound to an address has no others; one that is bound to
    /// "any" has all of the family.
    fn covers(&self, local: Endpoint) -> bool {
        let any = any_of(local.address);
        self.keys().any(|k| k.local.address == local.address || k.local.address == any) && self.local.port == local.port
    }
}

/// One change of the BPF maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The lanes of a port; before and after. Empty: no entry.
    Port { key: PortKey, before: Vec<LaneId>, after: Vec<LaneId> },
    /// The lane of a flow; before and after.
    Flow { key: FlowKey, before: Option<LaneId>, after: Option<LaneId> },
    /// What a lane may send from a port; before and after.
    Owned { lane: LaneId, key: PortKey, before: Option<Share>, after: Option<Share> },
}

/// How much of a port a lane owns: to whom it may send from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// To everybody: the port is its own.
    Whole,
    /// To one remote end: the port may have other connections, of somebody else.
    One(Endpoint),
    /// To those of its flows.
    Flows,
}

/// The claims of one lane on one port, by what they give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shares {
    whole: u32,
    flows: u32,
    remotes: Vec<Endpoint>,
}

impl Shares {
    fn add(&mut self, share: Share) {
        match share {
            Share::Whole => self.whole += 1,
            Share::Flows => self.flows += 1,
            Share::One(remote) => self.remotes.push(remote),
        }
    }

    fn remove(&mut self, share: Share) {
        match share {
            Share::Whole => self.whole = self.whole.saturating_sub(1),
            Share::Flows => self.flows = self.flows.saturating_sub(1),
            Share::One(remote) => {
                if let Some(at) = self.remotes.iter().position(|&r| r == remote) {
                    self.remotes.swap_remove(at);
                }
            }
        }
    }

    fn sum(&self) -> Option<Share> {
        match &self.remotes[..] {
            _ if self.whole > 0 => Some(Share::Whole),
            [] if self.flows == 0 => None,
            [first, rest @ ..] if self.flows == 0 && rest.iter().all(|r| r == first) => Some(Share::One(*first)),
            _ => Some(Share::Flows),
        }
    }
}

impl Change {
    /// The change that undoes this one.
    pub(crate) fn inverse(self) -> Self {
        match self {
            Self::Port { key, before, after } => Self::Port { key, before: after, after: before },
            Self::Flow { key, before, after } => Self::Flow { key, before: after, after: before },
            Self::Owned { lane, key, before, after } => Self::Owned { lane, key, before: after, after: before },
        }
    }
}

/// Why a claim is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Another lane has that port, and they do not both share it.
    Port,
    /// Another lane has that flow.
    Flow,
    /// Too many lanes share the port.
    TooManySharing,
    /// No such claim of this lane.
    Unknown,
}

#[derive(Debug)]
struct Claim {
    lane: LaneId,
    bound: Bound,
    ports: Vec<PortKey>,
    flows: Vec<FlowKey>,
    owned: Vec<(PortKey, Share)>,
}

#[derive(Debug)]
struct Holder {
    lane: LaneId,
    claim: ClaimId,
    bound: Bound,
}

/// The registry of one service.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    claims: BTreeMap<ClaimId, Claim>,
    ports: HashMap<PortKey, Vec<Holder>>,
    flows: HashMap<FlowKey, (LaneId, u32)>,
    owned: HashMap<(LaneId, PortKey), Shares>,
    last: ClaimId,
}

impl Registry {
    /// Claims everything that comes to a bound socket.
    pub(crate) fn claim_bound(&mut self, lane: LaneId, bound: Bound) -> Result<(ClaimId, Vec<Change>), Conflict> {
        bound.keys().try_for_each(|key| self.is_free(lane, bound, key))?;
        let id = self.new_claim(lane, bound);
        let mut changes = Vec::new();
        for key in bound.keys() {
            // A socket bound to a group sends from whichever address the route gives it.
            let any = PortKey { local: Endpoint::new(any_of(key.local.address), key.local.port), ..key };
            let from = if key.local.address.is_multicast() { any } else { key };
            self.own(id, from, Share::Whole, &mut changes);
            self.hold(id, key, &mut changes);
        }
        Ok((id, changes))
    }

    /// Whether a lane may have a port beside those that have it.
    fn is_free(&self, lane: LaneId, bound: Bound, key: PortKey) -> Result<(), Conflict> {
        let holders = self.ports.get(&key).map_or(&[][..], Vec::as_slice);
        let together = |h: &Holder| {
            h.bound.shares && bound.shares || bound.protocol == Protocol::Udp && h.bound.reuses && bound.reuses
        };
        if holders.iter().any(|h| h.lane != lane && !together(h)) {
            return Err(Conflict::Port);
        }
        let lanes = lanes_of(holders);
        if bound.shares && !lanes.contains(&lane) && lanes.len() >= MAX_SHARED {
            return Err(Conflict::TooManySharing);
        }
        Ok(())
    }

    /// Changes the address for which packets come to a claim of a port: to one of those of a socket that is bound to any, and back. It may
    /// go on to send from all of them, as it may in the kernel (`IP_PKTINFO`).
    pub(crate) fn cover(&mut self, lane: LaneId, id: ClaimId, address: Address) -> Result<Vec<Change>, Conflict> {
        let bound = self.claim(lane, id)?.bound;
        let keys: Vec<PortKey> = if address == bound.local.address {
            bound.keys().collect()
        } else {
            vec![PortKey { protocol: bound.protocol, local: Endpoint::new(address, bound.local.port) }]
        };
        keys.iter().try_for_each(|&key| self.is_free(lane, bound, key))?;
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Conflict::Unknown) };
        let before = std::mem::take(&mut claim.ports);
        let mut changes = Vec::new();
        for key in keys {
            self.hold(id, key, &mut changes);
        }
        for key in before {
            self.unhold(id, key, &mut changes);
        }
        Ok(changes)
    }

    /// Claims one connection of a bound socket.
    pub(crate) fn claim_flow(
        &mut self,
        lane: LaneId,
        bound: Bound,
        remote: Endpoint,
    ) -> Result<(ClaimId, Vec<Change>), Conflict> {
        let key = FlowKey { protocol: bound.protocol, local: bound.local, remote };
        if self.flows.get(&key).is_some_and(|&(holder, _)| holder != lane) {
            return Err(Conflict::Flow);
        }
        let id = self.new_claim(lane, bound);
        let mut changes = Vec::new();
        let port = PortKey { protocol: bound.protocol, local: bound.local };
        self.own(id, port, Share::One(remote), &mut changes);
        self.enter_flow(id, key, &mut changes);
        Ok((id, changes))
    }

    /// Leaves flows that fall under a claim to the kernel: connections that its stack has already.
    pub(crate) fn except(
        &mut self,
        lane: LaneId,
        id: ClaimId,
        flows: &[(Endpoint, Endpoint)],
    ) -> Result<Vec<Change>, Conflict> {
        let bound = self.claim(lane, id)?.bound;
        let mut changes = Vec::new();
        for &(local, remote) in flows {
            let key = FlowKey { protocol: bound.protocol, local, remote };
            if bound.covers(local) && !self.flows.contains_key(&key) {
                if let Some(claim) = self.claims.get_mut(&id) {
                    claim.flows.push(key);
                }
                self.flows.insert(key, (KERNEL, 1));
                changes.push(Change::Flow { key, before: None, after: Some(KERNEL) });
            }
        }
        Ok(changes)
    }

    /// The local ports of claims that leave flows to the kernel, with these flows.
    pub(crate) fn exceptions(&self) -> Vec<(ClaimId, LaneId, FlowKey)> {
        let of = |(&id, claim): (&ClaimId, &Claim)| {
            let left = |key: &&FlowKey| self.flows.get(key).is_some_and(|&(lane, _)| lane == KERNEL);
            let lane = claim.lane;
            claim.flows.iter().filter(left).map(|&key| (id, lane, key)).collect::<Vec<_>>()
        };
        self.claims.iter().flat_map(of).collect()
    }

    /// Turns the claim of a closing listener into exact flows: new connections are no longer ours, the live ones stay.
    /// A flow that another lane has, or the kernel, is left out. What the lane may send shrinks to these flows: the port may be
    /// somebody else's next.
    pub(crate) fn convert(
        &mut self,
        lane: LaneId,
        id: ClaimId,
        flows: &[(Address, Endpoint)],
    ) -> Result<Vec<Change>, Conflict> {
        let bound = self.claim(lane, id)?.bound;
        let mut changes = Vec::new();
        for &(local, remote) in flows {
            let local = Endpoint::new(local, bound.local.port);
            let key = FlowKey { protocol: bound.protocol, local, remote };
            if bound.covers(local) && self.flows.get(&key).is_none_or(|&(holder, _)| holder == lane) {
                self.enter_flow(id, key, &mut changes);
            }
        }
        // Flows first, so that no packet of a live connection falls between.
        for key in self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.ports)).unwrap_or_default() {
            self.unhold(id, key, &mut changes);
        }
        for (key, share) in self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.owned)).unwrap_or_default() {
            // The smaller share is entered first, so that the live connections may send all the while.
            self.own(id, key, Share::Flows, &mut changes);
            self.disown(lane, key, share, &mut changes);
        }
        Ok(changes)
    }

    /// The lanes that hold a port, with the claims by which they do.
    pub(crate) fn holders(&self, key: PortKey) -> Vec<(LaneId, ClaimId)> {
        self.ports.get(&key).into_iter().flatten().map(|h| (h.lane, h.claim)).collect()
    }

    /// Enters flows of connections that a claim's lane has, so that they stay with it when others join the port.
    pub(crate) fn pin(&mut self, lane: LaneId, id: ClaimId, flows: &[FlowKey]) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.claim(lane, id).is_ok() {
            flows.iter().for_each(|&key| self.enter_flow(id, key, &mut changes));
        }
        changes
    }

    /// Takes one such flow out.
    pub(crate) fn unpin(&mut self, lane: LaneId, id: ClaimId, key: &FlowKey) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.claim(lane, id).is_ok()
            && let Some(claim) = self.claims.get_mut(&id)
            && let Some(at) = claim.flows.iter().position(|flow| flow == key)
        {
            claim.flows.swap_remove(at);
            self.leave_flow(lane, *key, &mut changes);
        }
        changes
    }

    /// Takes a claim out.
    pub(crate) fn release(&mut self, lane: LaneId, id: ClaimId) -> Result<Vec<Change>, Conflict> {
        self.claim(lane, id)?;
        let mut changes = Vec::new();
        if let Some(claim) = self.claims.remove(&id) {
            for key in claim.ports {
                self.unhold(id, key, &mut changes);
            }
            for key in claim.flows {
                self.leave_flow(lane, key, &mut changes);
            }
            for (key, share) in claim.owned {
                self.disown(lane, key, share, &mut changes);
            }
        }
        Ok(changes)
    }

    /// Takes the flows with one remote end out of a claim.
    pub(crate) fn release_flows(
        &mut self,
        lane: LaneId,
        id: ClaimId,
        remote: Endpoint,
    ) -> Result<Vec<Change>, Conflict> {
        self.claim(lane, id)?;
        let mut changes = Vec::new();
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Conflict::Unknown) };
        let gone: Vec<FlowKey> = claim.flows.extract_if(.., |flow| flow.remote == remote).collect();
        for key in gone {
            self.leave_flow(lane, key, &mut changes);
        }
        Ok(changes)
    }

    /// The claims of a lane.
    pub(crate) fn of_lane(&self, lane: LaneId) -> Vec<ClaimId> {
        self.claims.iter().filter(|(_, claim)| claim.lane == lane).map(|(&id, _)| id).collect()
    }

    /// Whether a lane may send from an address and port to a remote end, as the guard sees it.
    pub(crate) fn owns(&self, lane: LaneId, protocol: Protocol, local: Endpoint, remote: Endpoint) -> bool {
        [local.address, any_of(local.address)].into_iter().any(|address| {
            let key = PortKey { protocol, local: Endpoint::new(address, local.port) };
            match self.owned.get(&(lane, key)).and_then(Shares::sum) {
                Some(Share::Whole) => true,
                Some(Share::One(only)) => only == remote,
                Some(Share::Flows) => self.holds_flow(lane, &FlowKey { protocol, local, remote }),
                None => false,
            }
        })
    }

    /// Whether a flow is a lane's.
    pub(crate) fn holds_flow(&self, lane: LaneId, key: &FlowKey) -> bool {
        self.flows.get(key).is_some_and(|&(holder, _)| holder == lane)
    }

    /// Whether a flow is anybody's.
    pub(crate) fn knows_flow(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// How many entries of the maps of ports and flows stand behind a claim.
    pub(crate) fn entries_of(&self, id: ClaimId) -> usize {
        self.claims.get(&id).map_or(0, |claim| claim.flows.len() + claim.ports.len())
    }

    fn claim(&self, lane: LaneId, id: ClaimId) -> Result<&Claim, Conflict> {
        self.claims.get(&id).filter(|claim| claim.lane == lane).ok_or(Conflict::Unknown)
    }

    fn new_claim(&mut self, lane: LaneId, bound: Bound) -> ClaimId {
        self.last += 1;
        let claim = Claim { lane, bound, ports: Vec::new(), flows: Vec::new(), owned: Vec::new() };
        self.claims.insert(self.last, claim);
        self.last
    }

    fn hold(&mut self, id: ClaimId, key: PortKey, changes: &mut Vec<Change>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.ports.push(key);
        let holders = self.ports.entry(key).or_default();
        let before = lanes_of(holders);
        holders.push(Holder { lane: claim.lane, claim: id, bound: claim.bound });
        let after = lanes_of(holders);
        if before != after {
            changes.push(Change::Port { key, before, after });
        }
    }

    fn unhold(&mut self, id: ClaimId, key: PortKey, changes: &mut Vec<Change>) {
        let Some(holders) = self.ports.get_mut(&key) else { return };
        let before = lanes_of(holders);
        holders.retain(|holder| holder.claim != id);
        let after = lanes_of(holders);
        if after.is_empty() {
            self.ports.remove(&key);
        }
        if before != after {
            changes.push(Change::Port { key, before, after });
        }
    }

    fn own(&mut self, id: ClaimId, key: PortKey, share: Share, changes: &mut Vec<Change>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.owned.push((key, share));
        let lane = claim.lane;
        let shares = self.owned.entry((lane, key)).or_default();
        let before = shares.sum();
        shares.add(share);
        let after = shares.sum();
        if before != after {
            changes.push(Change::Owned { lane, key, before, after });
        }
    }

    fn disown(&mut self, lane: LaneId, key: PortKey, share: Share, changes: &mut Vec<Change>) {
        let Some(shares) = self.owned.get_mut(&(lane, key)) else { return };
        let before = shares.sum();
        shares.remove(share);
        let after = shares.sum();
        if after.is_none() {
            self.owned.remove(&(lane, key));
        }
        if before != after {
            changes.push(Change::Owned { lane, key, before, after });
        }
    }

    fn enter_flow(&mut self, id: ClaimId, key: FlowKey, changes: &mut Vec<Change>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.flows.push(key);
        let entry = self.flows.entry(key).or_insert((claim.lane, 0));
        entry.1 += 1;
        if entry.1 == 1 {
            changes.push(Change::Flow { key, before: None, after: Some(claim.lane) });
        }
    }

    fn leave_flow(&mut self, lane: LaneId, key: FlowKey, changes: &mut Vec<Change>) {
        if let Some(entry) = self.flows.get_mut(&key) {
            entry.1 -= 1;
            if entry.1 == 0 {
                self.flows.remove(&key);
                changes.push(Change::Flow { key, before: Some(lane), after: None });
            }
        }
    }
}

/// "Any address" of an address's family.
fn any_of(address: Address) -> Address {
    if address.to_v4().is_some() { Address::ANY_V4 } else { Address::ANY }
}

/// The lanes that get the packets, each once: all that share the port, in the order in which they came, else (as in the
/// kernel) the last that bound it.
fn lanes_of(holders: &[Holder]) -> Vec<LaneId> {
    if !holders.iter().all(|h| h.bound.shares) {
        return holders.last().map(|h| h.lane).into_iter().collect();
    }
    let mut lanes = Vec::new();
    for holder in holders {
        if !lanes.contains(&holder.lane) {
            lanes.push(holder.lane);
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Address = Address::v4([10, 0, 0, 1]);
    const THERE: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);

    fn udp(address: Address, port: u16) -> Bound {
        Bound {
            protocol: Protocol::Udp,
            local: Endpoint::new(address, port),
            dual: false,
            shares: false,
            reuses: false,
        }
    }

    fn key(bound: &Bound) -> PortKey {
        PortKey { protocol: bound.protocol, local: bound.local }
    }

    #[test]
    fn a_claim_diverts_and_owns_and_its_release_undoes_both() {
        let mut registry = Registry::default();
        let bound = udp(HERE, 53);
        let (id, changes) = registry.claim_bound(1, bound).unwrap();
        assert_eq!(
            changes,
            [
                Change::Owned { lane: 1, key: key(&bound), before: None, after: Some(Share::Whole) },
                Change::Port { key: key(&bound), before: vec![], after: vec![1] },
            ]
        );
        assert!(registry.owns(1, Protocol::Udp, bound.local, THERE));
        assert!(
            !registry.owns(1, Protocol::Tcp, bound.local, THERE)
                && !registry.owns(2, Protocol::Udp, bound.local, THERE)
        );
        let undone = registry.release(1, id).unwrap();
        assert_eq!(undone.len(), 2);
        assert!(changes.into_iter().map(Change::inverse).all(|c| undone.contains(&c)));
        assert!(registry.claims.is_empty() && registry.owned.is_empty() && registry.ports.is_empty());
        assert_eq!(registry.release(1, id), Err(Conflict::Unknown));
    }

    #[test]
    fn a_dual_stack_socket_is_entered_for_both_families() {
        let mut registry = Registry::default();
        let (id, changes) = registry.claim_bound(1, Bound { dual: true, ..udp(Address::ANY, 53) }).unwrap();
        let ports = changes.iter().filter(|c| matches!(c, Change::Port { .. })).count();
        assert_eq!(ports, 2);
        assert!(registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 53), THERE));
        assert!(registry.owns(1, Protocol::Udp, Endpoint::new(Address([0xfd; 16]), 53), THERE));
        registry.release(1, id).unwrap();
        registry.claim_bound(1, udp(Address::ANY, 53)).unwrap();
        assert!(!registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 53), THERE), "IPV6_V6ONLY");
    }

    #[test]
    fn a_claim_of_any_address_is_one_of_a_single_one_for_a_while() {
        let mut registry = Registry::default();
        let bound = Bound { dual: true, ..udp(Address::ANY, 53) };
        let (id, _) = registry.claim_bound(1, bound).unwrap();
        let mut held = |address| {
            registry.cover(1, id, address).unwrap();
            let at = [HERE, Address::ANY_V4, Address::ANY];
            at.map(|a| registry.holders(PortKey { protocol: Protocol::Udp, local: Endpoint::new(a, 53) }).len())
        };
        assert_eq!(held(HERE), [1, 0, 0]);
        assert_eq!(held(Address::ANY), [0, 1, 1]);
        assert_eq!(held(HERE), [1, 0, 0]);
        let (other, _) = registry.claim_bound(2, udp(Address::ANY, 53)).expect("it is free");
        assert_eq!(registry.cover(1, id, Address::ANY).unwrap_err(), Conflict::Port);
        assert_eq!(registry.entries_of(id), 1, "it keeps what it had");
        registry.release(2, other).unwrap();
        registry.release(1, id).unwrap();
        assert!(registry.ports.is_empty() && registry.owned.is_empty());
    }

    #[test]
    fn another_lane_is_refused_unless_both_share() {
        let mut registry = Registry::default();
        let sharing = Bound { shares: true, ..udp(HERE, 53) };
        registry.claim_bound(1, udp(HERE, 53)).unwrap();
        assert_eq!(registry.claim_bound(2, sharing).unwrap_err(), Conflict::Port);
        registry.claim_bound(1, udp(HERE, 53)).expect("the same lane may: its stack sorts it out");

        let mut registry = Registry::default();
        for lane in 1..=8 {
            let (_, changes) = registry.claim_bound(lane, sharing).unwrap();
            assert!(matches!(&changes[1], Change::Port { after, .. } if after.len() == lane as usize));
        }
        assert_eq!(registry.claim_bound(9, sharing).unwrap_err(), Conflict::TooManySharing);
        assert_eq!(registry.claim_bound(9, udp(HERE, 53)).unwrap_err(), Conflict::Port);
    }

    #[test]
    fn with_reuseaddr_unicast_goes_to_the_last_that_bound() {
        let mut registry = Registry::default();
        let bound = Bound { reuses: true, ..udp(Address::ANY_V4, 5000) };
        registry.claim_bound(1, bound).unwrap();
        let (second, changes) = registry.claim_bound(2, bound).unwrap();
        assert_eq!(changes[1], Change::Port { key: key(&bound), before: vec![1], after: vec![2] });
        assert!(registry.owns(1, Protocol::Udp, bound.local, THERE), "both still send");
        let changes = registry.release(2, second).unwrap();
        assert!(changes.contains(&Change::Port { key: key(&bound), before: vec![2], after: vec![1] }));
    }

    #[test]
    fn a_socket_bound_to_a_group_sends_from_any_address() {
        let mut registry = Registry::default();
        registry.claim_bound(1, udp(Address::v4([239, 1, 1, 1]), 5000)).unwrap();
        assert!(registry.owns(1, Protocol::Udp, Endpoint::new(HERE, 5000), THERE));
    }

    #[test]
    fn connections_that_the_kernel_has_stay_with_it() {
        let mut registry = Registry::default();
        let listener = Bound { protocol: Protocol::Tcp, dual: true, ..udp(Address::ANY, 80) };
        let (id, _) = registry.claim_bound(1, listener).unwrap();
        let (here, elsewhere) = (Endpoint::new(HERE, 80), Endpoint::new(HERE, 81));
        let changes = registry.except(1, id, &[(here, THERE), (here, THERE), (elsewhere, THERE)]).unwrap();
        let key = FlowKey { protocol: Protocol::Tcp, local: here, remote: THERE };
        assert_eq!(changes, [Change::Flow { key, before: None, after: Some(KERNEL) }]);
        assert_eq!(registry.exceptions(), [(id, 1, key)]);
        let bound = Bound { local: here, dual: false, ..listener };
        assert_eq!(registry.claim_flow(1, bound, THERE).unwrap_err(), Conflict::Flow);
        let undone = registry.release(1, id).unwrap();
        assert!(undone.iter().any(|c| matches!(c, Change::Flow { after: None, .. })));
        assert!(registry.flows.is_empty() && registry.exceptions().is_empty());
    }

    #[test]
    fn a_flow_gives_no_right_to_the_rest_of_its_port() {
        let mut registry = Registry::default();
        let bound = Bound { protocol: Protocol::Tcp, ..udp(HERE, 40000) };
        let (first, changes) = registry.claim_flow(1, bound, THERE).unwrap();
        let owned = |before, after| Change::Owned { lane: 1, key: key(&bound), before, after };
        assert_eq!(changes[0], owned(None, Some(Share::One(THERE))));
        let other = Endpoint::new(THERE.address, 9001);
        assert!(registry.owns(1, Protocol::Tcp, bound.local, THERE));
        assert!(!registry.owns(1, Protocol::Tcp, bound.local, other));
        let (second, changes) = registry.claim_flow(1, bound, other).unwrap();
        assert_eq!(changes[0], owned(Some(Share::One(THERE)), Some(Share::Flows)));
        assert!(registry.owns(1, Protocol::Tcp, bound.local, other));
        assert!(registry.release(1, first).unwrap().contains(&owned(Some(Share::Flows), Some(Share::One(other)))));
        assert!(!registry.owns(1, Protocol::Tcp, bound.local, THERE));
        assert!(registry.release(1, second).unwrap().contains(&owned(Some(Share::One(other)), None)));
        assert!(registry.owned.is_empty());
    }

    #[test]
    fn a_flow_has_one_lane() {
        let mut registry = Registry::default();
        let bound = Bound { protocol: Protocol::Tcp, ..udp(HERE, 40000) };
        let (first, _) = registry.claim_flow(1, bound, THERE).unwrap();
        assert_eq!(registry.claim_flow(2, bound, THERE).unwrap_err(), Conflict::Flow);
        let (second, changes) = registry.claim_flow(1, bound, THERE).unwrap();
        assert!(changes.is_empty(), "the maps know it already");
        assert!(registry.release(1, first).unwrap().is_empty(), "still claimed once");
        assert_eq!(registry.release(1, second).unwrap().len(), 2);
        registry.claim_flow(2, bound, THERE).unwrap();
    }

    #[test]
    fn a_closed_listener_keeps_its_connections_only() {
        let mut registry = Registry::default();
        let listener = Bound { protocol: Protocol::Tcp, ..udp(Address::ANY_V4, 80) };
        let (id, _) = registry.claim_bound(1, listener).unwrap();
        assert_eq!(registry.convert(2, id, &[]), Err(Conflict::Unknown), "not that lane's");
        let changes = registry.convert(1, id, &[(HERE, THERE), (Address([0xfd; 16]), THERE)]).unwrap();
        let local = Endpoint::new(HERE, 80);
        assert_eq!(
            changes,
            [
                Change::Flow {
                    key: FlowKey { protocol: Protocol::Tcp, local, remote: THERE },
                    before: None,
                    after: Some(1)
                },
                Change::Port { key: key(&listener), before: vec![1], after: vec![] },
                Change::Owned { lane: 1, key: key(&listener), before: Some(Share::Whole), after: Some(Share::Flows) },
            ],
            "an IPv4 listener has no IPv6 connections"
        );
        assert!(registry.owns(1, Protocol::Tcp, local, THERE), "the live connection still sends");
        let other = Endpoint::new(THERE.address, 9001);
        assert!(!registry.owns(1, Protocol::Tcp, local, other), "but nothing else does");
        registry.claim_bound(2, listener).expect("a new server may listen");
        let closed = registry.release_flows(1, id, THERE).unwrap();
        assert!(matches!(closed[..], [Change::Flow { after: None, .. }]));
        registry.convert(1, id, &[(HERE, THERE)]).unwrap();
        assert_eq!(registry.release(1, id).unwrap().len(), 2);
        assert!(!registry.owns(1, Protocol::Tcp, local, THERE));
    }
}
