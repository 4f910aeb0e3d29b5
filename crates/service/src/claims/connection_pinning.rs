//! Connections of ports that several lanes share (`SO_REUSEPORT`). A new lane takes over a part of
//! the remote ends, but not the connections that these have: like the kernel's established
//! connections they are found before any listener, by exact flows. When a lane leaves, only its own
//! remote ends move, so that nothing has to be pinned then.
//!
//! A lane may not have seen yet what divert has given to it. For a while after a lane joined,
//! segments that open no connection go where they would have gone before. The connections that
//! their handshakes have established by then are pinned, too.

use super::Claims;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::paths::Nics;
use crate::programs::Programs;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};
use tickwire_host::Ends;
use tickwire_lane_linux::bpf;
use tickwire_registry::{ClaimId, LaneId, TableChange};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::{FlowKey, PortKey, Protocol};

/// A handshake that takes longer is begun anew (RFC 6298: after one second, then two).
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// The tables of so many lanes are checked at a time.
const LANES: usize = 8;

/// A port that a lane has joined, and the lanes that share it now.
pub(crate) type Joined = (PortKey, Vec<LaneId>);

/// The shared TCP ports that a new lane joins by these changes.
pub(crate) fn joined(changes: &[TableChange]) -> Vec<Joined> {
    let of = |change: &TableChange| match change {
        TableChange::Port { key, before, after }
            if key.protocol == Protocol::Tcp && !before.is_empty() && after.len() > before.len() =>
        {
            Some((*key, after.clone()))
        }
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

impl Claims {
    /// Keeps the connections of lanes that share a port where they are, while others join. A
    /// newcomer has none of them yet, whatever it reports.
    pub(super) fn pin(
        &mut self,
        joined: &[Joined],
        newcomer: Option<LaneId>,
        lanes_now: &Lanes,
        nics: &Nics,
        ledger: &mut Ledger,
    ) {
        let mut tables: HashMap<LaneId, HashSet<Ends>> = HashMap::new();
        for (key, lanes) in joined {
            let mut settled = ledger.programs.settled(key, lanes);
            settled.retain(|&lane| Some(lane) != newcomer);
            let mut holders = self.registry.holders(*key);
            holders.retain(|&(lane, _)| Some(lane) != newcomer);
            for (lane, _) in &holders {
                let table = || lanes_now.get(*lane).map(|lane| lane.connections_now().collect()).unwrap_or_default();
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
                        holding[&(flow.local, flow.remote)] == 1
                            || bearer(flow, lanes, &settled, &ledger.programs) == Some(lane)
                    })
                    .collect();
                self.pin_lane(*key, [lanes, &settled], (lane, claim), believed, nics, ledger);
            }
        }
    }

    /// Ends the joining of ports whose time is over.
    pub(crate) fn settle(&mut self, now: Instant, lanes_now: &Lanes, nics: &Nics, ledger: &mut Ledger) {
        // Connections that were opened since are found only by their handshakes, and those may be
        // forgotten: there is not room for all SYNs that a peer may send.
        let going_on: Vec<Joined> = self.joined.iter().map(|(&key, (_, lanes))| (key, lanes.clone())).collect();
        self.pin(&going_on, None, lanes_now, nics, ledger);
        let is_due = |(&key, (until, _)): (&PortKey, &(Instant, Vec<LaneId>))| (*until <= now).then_some(key);
        for key in self.joined.iter().filter_map(is_due).collect::<Vec<_>>() {
            self.joined.remove(&key);
            if !ledger.programs.is_joining(&key) {
                continue;
            }
            let mut lanes: Vec<LaneId> = self.registry.holders(key).into_iter().map(|(lane, _)| lane).collect();
            lanes.sort_unstable();
            lanes.dedup();
            ledger.programs.settle(key, &lanes);
            self.unpin_settled(key, &lanes, ledger);
        }
    }

    /// Unpins connections that reach their lane without a pin, now that the lanes of their port
    /// have settled.
    fn unpin_settled(&mut self, key: PortKey, lanes: &[LaneId], ledger: &mut Ledger) {
        for (lane, claim) in self.registry.holders(key) {
            let Some(held) = self.held.get_mut(&claim) else { continue };
            let belongs = |flow: &mut FlowKey| {
                flow.local.address.family() == key.local.address.family()
                    && bpf::chosen(lanes, flow.remote) == Some(lane)
            };
            for flow in held.pinned.extract_if(.., belongs).collect::<Vec<_>>() {
                self.unpin(lane, claim, &flow, ledger);
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
        nics: &Nics,
        ledger: &mut Ledger,
    ) {
        let Some(user) = self.held.get(&claim).map(|held| held.user) else { return };
        let mut moved: Vec<FlowKey> = connections
            .into_iter()
            .filter(|FlowKey { local, remote, .. }| {
                local.port == key.local.port
                    && (key.local.address == local.address || key.local.address.is_unspecified())
                    && key.local.address.family() == local.address.family()
                    && nics.has_address(local.address)
                    && choices.iter().any(|lanes| bpf::chosen(lanes, *remote) != Some(lane))
            })
            .collect();
        moved.iter().for_each(|flow| self.forget_given(flow, ledger));
        moved.retain(|flow| !self.registry.knows_flow(flow));
        moved.truncate(ledger.usage.room_for_flows(user));
        let changes = self.registry.pin(lane, claim, &moved);
        if moved.is_empty() {
            return;
        }
        tracing::debug!(lane, claim, connections = moved.len(), "a shared port's connections stay");
        ledger.programs.apply_best(changes);
        if let Some(held) = self.held.get_mut(&claim) {
            held.pinned.extend(moved);
        }
        let _ = self.charge(claim, &mut ledger.usage);
    }

    /// Unpins connections that are over. Called every second, for a few lanes at a time.
    pub(crate) fn verify_pins(&mut self, lanes: &Lanes, ledger: &mut Ledger) {
        let mut pinning: BTreeMap<LaneId, Vec<ClaimId>> = BTreeMap::new();
        for (&claim, held) in self.held.iter().filter(|(_, held)| !held.pinned.is_empty()) {
            pinning.entry(held.lane).or_default().push(claim);
        }
        let behind = pinning.range(self.pins_verified + 1..).chain(pinning.range(..=self.pins_verified));
        for (&lane, claims) in behind.take(LANES) {
            self.pins_verified = lane;
            let Some(of_lane) = lanes.get(lane) else { continue };
            let live: HashSet<(Endpoint, Endpoint)> = of_lane.connections_now().collect();
            for &claim in claims {
                let Some(held) = self.held.get_mut(&claim) else { continue };
                let over = held.pinned.extract_if(.., |flow| !live.contains(&(flow.local, flow.remote)));
                for flow in over.collect::<Vec<_>>() {
                    self.unpin(lane, claim, &flow, ledger);
                }
            }
        }
    }

    /// Removes one connection's entry from a claim.
    pub(super) fn unpin(&mut self, lane: LaneId, claim: ClaimId, flow: &FlowKey, ledger: &mut Ledger) {
        let changes = self.registry.unpin(lane, claim, flow);
        ledger.programs.apply_best(changes);
        let _ = self.charge(claim, &mut ledger.usage);
    }
}

/// Which of several lanes that report a connection has received its packets until now, while it is
/// no flow of its own.
fn bearer(flow: &FlowKey, lanes: &[LaneId], settled: &[LaneId], programs: &Programs) -> Option<LaneId> {
    let begun = programs.handshake(flow).filter(|lane| lanes.contains(lane));
    begun.or_else(|| bpf::chosen(settled, flow.remote))
}
