//! Connections of ports that several lanes share (`SO_REUSEPORT`). A new lane takes over a part of
//! the remote ends, but not the connections that these have: like the kernel's established
//! connections they are found before any listener, by exact flows. When a lane leaves, only its own
//! remote ends move, so that nothing has to be pinned then.
//!
//! A lane may not have seen yet what divert has given to it. For a while after a lane joined,
//! segments that open no connection go where they would have gone before. The connections that
//! their handshakes have established by then are pinned, too.

use crate::registry::{Change, ClaimId, FlowKey, LaneId, PortKey, Protocol};
use crate::service::Service;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};
use tickwire_host::Ends;
use tickwire_link::bpf;
use tickwire_stack::addr::Endpoint;

/// A handshake that takes longer is begun anew (RFC 6298: after one second, then two).
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// The tables of so many lanes are checked at a time.
const LANES: usize = 8;

/// A port that a lane has joined, and the lanes that share it now.
pub(crate) type Joined = (PortKey, Vec<LaneId>);

/// The shared TCP ports that a new lane joins by these changes.
pub(crate) fn joined(changes: &[Change]) -> Vec<Joined> {
    let of = |change: &Change| match change {
        Change::Port { key, before, after }
            if key.protocol == Protocol::Tcp && !before.is_empty() && after.len() > before.len() =>
        {
            Some((*key, after.clone()))
        }
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

impl Service {
    /// Keeps the connections of lanes that share a port where they are, while others join. A
    /// newcomer has none of them yet, whatever it reports.
    pub(crate) fn pin(&mut self, joined: &[Joined], newcomer: Option<LaneId>) {
        let mut tables: HashMap<LaneId, HashSet<Ends>> = HashMap::new();
        for (key, lanes) in joined {
            let mut settled = self.programs.settled(key, lanes);
            settled.retain(|&lane| Some(lane) != newcomer);
            let mut holders = self.registry.holders(*key);
            holders.retain(|&(lane, _)| Some(lane) != newcomer);
            for (lane, _) in &holders {
                let table = || self.lanes.get(lane).map(|lane| lane.connections_now().collect()).unwrap_or_default();
                tables.entry(*lane).or_insert_with(table);
            }
            let mut holding: HashMap<Ends, usize> = HashMap::new();
            let different: BTreeSet<LaneId> = holders.iter().map(|&(lane, _)| lane).collect();
            different.iter().flat_map(|lane| &tables[lane]).for_each(|&ends| *holding.entry(ends).or_default() += 1);
            for (lane, claim) in holders {
                let believed: Vec<FlowKey> = tables[&lane]
                    .iter()
                    .map(|&(local, remote)| FlowKey { protocol: Protocol::Tcp, local, remote })
                    .filter(|flow| {
                        holding[&(flow.local, flow.remote)] == 1 || self.bearer(flow, lanes, &settled) == Some(lane)
                    })
                    .collect();
                self.pin_lane(*key, [lanes, &settled], (lane, claim), believed);
            }
        }
    }

    /// Which of several lanes that report a connection has received its packets until now, while it
    /// is no flow of its own.
    fn bearer(&self, flow: &FlowKey, lanes: &[LaneId], settled: &[LaneId]) -> Option<LaneId> {
        let begun = self.programs.handshake(flow).filter(|lane| lanes.contains(lane));
        begun.or_else(|| bpf::chosen(settled, flow.remote))
    }

    /// Ends the joining of ports whose time is over.
    pub(crate) fn settle(&mut self, now: Instant) {
        // Connections that were opened since are found only by their handshakes, and those may be
        // forgotten: there is not room for all SYNs that a peer may send.
        let going_on: Vec<Joined> = self.joined.iter().map(|(&key, (_, lanes))| (key, lanes.clone())).collect();
        self.pin(&going_on, None);
        let is_due = |(&key, (until, _)): (&PortKey, &(Instant, Vec<LaneId>))| (*until <= now).then_some(key);
        for key in self.joined.iter().filter_map(is_due).collect::<Vec<_>>() {
            self.joined.remove(&key);
            if !self.programs.is_joining(&key) {
                continue;
            }
            let mut lanes: Vec<LaneId> = self.registry.holders(key).into_iter().map(|(lane, _)| lane).collect();
            lanes.sort_unstable();
            lanes.dedup();
            self.programs.settle(key, &lanes);
            self.unpin_settled(key, &lanes);
        }
    }

    /// Unpins connections that reach their lane without a pin, now that the lanes of their port
    /// have settled.
    fn unpin_settled(&mut self, key: PortKey, lanes: &[LaneId]) {
        for (lane, claim) in self.registry.holders(key) {
            let Some(held) = self.claims.get_mut(&claim) else { continue };
            let belongs = |flow: &mut FlowKey| {
                flow.local.address.family() == key.local.address.family()
                    && bpf::chosen(lanes, flow.remote) == Some(lane)
            };
            for flow in held.pinned.extract_if(.., belongs).collect::<Vec<_>>() {
                self.unpin(lane, claim, &flow);
            }
        }
    }

    /// Pins those of a lane's connections that one of these choices would send elsewhere.
    fn pin_lane(
        &mut self,
        key: PortKey,
        choices: [&[LaneId]; 2],
        (lane, claim): (LaneId, ClaimId),
        connections: Vec<FlowKey>,
    ) {
        let Some(of_lane) = self.lanes.get(&lane) else { return };
        let mut moved: Vec<FlowKey> = connections
            .into_iter()
            .filter(|FlowKey { local, remote, .. }| {
                local.port == key.local.port
                    && (key.local.address == local.address || key.local.address.is_unspecified())
                    && key.local.address.family() == local.address.family()
                    && self.nics.has_address(local.address)
                    && choices.iter().any(|lanes| bpf::chosen(lanes, *remote) != Some(lane))
            })
            .collect();
        let user = of_lane.user;
        moved.iter().for_each(|flow| self.forget_given(flow));
        moved.retain(|flow| !self.registry.knows_flow(flow));
        moved.truncate(self.usage.room_for_flows(user));
        let changes = self.registry.pin(lane, claim, &moved);
        if moved.is_empty() {
            return;
        }
        tracing::debug!(lane, claim, connections = moved.len(), "a shared port's connections stay");
        self.programs.apply_best(changes);
        if let Some(held) = self.claims.get_mut(&claim) {
            held.pinned.extend(moved);
        }
        let _ = self.charge(claim);
    }

    /// Unpins connections that are over. Called every second, for a few lanes at a time.
    pub(crate) fn verify_pins(&mut self) {
        let mut pinning: BTreeMap<LaneId, Vec<ClaimId>> = BTreeMap::new();
        for (&claim, held) in self.claims.iter().filter(|(_, held)| !held.pinned.is_empty()) {
            pinning.entry(held.lane).or_default().push(claim);
        }
        let behind = pinning.range(self.pins_verified + 1..).chain(pinning.range(..=self.pins_verified));
        for (&lane, claims) in behind.take(LANES) {
            self.pins_verified = lane;
            let Some(of_lane) = self.lanes.get(&lane) else { continue };
            let live: HashSet<(Endpoint, Endpoint)> = of_lane.connections_now().collect();
            for &claim in claims {
                let Some(held) = self.claims.get_mut(&claim) else { continue };
                let over = held.pinned.extract_if(.., |flow| !live.contains(&(flow.local, flow.remote)));
                for flow in over.collect::<Vec<_>>() {
                    self.unpin(lane, claim, &flow);
                }
            }
        }
    }

    /// Removes one connection's entry from a claim.
    pub(crate) fn unpin(&mut self, lane: LaneId, claim: ClaimId, flow: &FlowKey) {
        let changes = self.registry.unpin(lane, claim, flow);
        self.programs.apply_best(changes);
        let _ = self.charge(claim);
    }
}
