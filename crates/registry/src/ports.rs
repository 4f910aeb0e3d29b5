//! Ports: the lanes that receive their packets, and the lanes that share them.

use super::keys::any_of;
use super::{Bound, ClaimId, Conflict, LaneId, Registry, Share, TableChange};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{MAX_SHARED, PortKey, Protocol};

#[derive(Debug)]
pub(crate) struct Holder {
    lane: LaneId,
    claim: ClaimId,
    bound: Bound,
}

impl Registry {
    /// Claims all packets to a bound socket.
    pub fn claim_bound(&mut self, lane: LaneId, bound: Bound) -> Result<(ClaimId, Vec<TableChange>), Conflict> {
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

    /// Whether a lane may have a port beside its holders.
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

    /// Changes the address for which packets go to a claim of a port: to one address of a socket
    /// that is bound to any, and back. The lane may still send from all of them, as a program may
    /// in the kernel (`IP_PKTINFO`).
    pub fn cover(&mut self, lane: LaneId, id: ClaimId, address: Address) -> Result<Vec<TableChange>, Conflict> {
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

    /// The lanes that hold a port, with the claims by which they do.
    pub fn holders(&self, key: PortKey) -> Vec<(LaneId, ClaimId)> {
        self.ports.get(&key).into_iter().flatten().map(|h| (h.lane, h.claim)).collect()
    }

    fn hold(&mut self, id: ClaimId, key: PortKey, changes: &mut Vec<TableChange>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.ports.push(key);
        let holders = self.ports.entry(key).or_default();
        let before = lanes_of(holders);
        holders.push(Holder { lane: claim.lane, claim: id, bound: claim.bound });
        let after = lanes_of(holders);
        if before != after {
            changes.push(TableChange::Port { key, before, after });
        }
    }

    pub(crate) fn unhold(&mut self, id: ClaimId, key: PortKey, changes: &mut Vec<TableChange>) {
        let Some(holders) = self.ports.get_mut(&key) else { return };
        let before = lanes_of(holders);
        holders.retain(|holder| holder.claim != id);
        let after = lanes_of(holders);
        if after.is_empty() {
            self.ports.remove(&key);
        }
        if before != after {
            changes.push(TableChange::Port { key, before, after });
        }
    }
}

/// The lanes that receive the packets, each once: all that share the port, in the order in which
/// they joined, else (as in the kernel) the last that bound it.
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
