//! Flows: connections that are claimed one by one.

use super::{Bound, Change, ClaimId, Conflict, FlowKey, LaneId, PortKey, Registry, Share};
use tickwire_stack::addr::{Address, Endpoint};

impl Registry {
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

    /// Whether a flow is a lane's.
    pub(crate) fn holds_flow(&self, lane: LaneId, key: &FlowKey) -> bool {
        self.flows.get(key).is_some_and(|&(holder, _)| holder == lane)
    }

    /// Whether a flow is anybody's.
    pub(crate) fn knows_flow(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
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

    pub(super) fn leave_flow(&mut self, lane: LaneId, key: FlowKey, changes: &mut Vec<Change>) {
        if let Some(entry) = self.flows.get_mut(&key) {
            entry.1 -= 1;
            if entry.1 == 0 {
                self.flows.remove(&key);
                changes.push(Change::Flow { key, before: Some(lane), after: None });
            }
        }
    }
}
