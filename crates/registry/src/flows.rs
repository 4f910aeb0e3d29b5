//! Flows: connections that are told apart from all other packets to their port.

use super::{Bound, ClaimId, Conflict, LaneId, Registry, Share, TableChange};
use std::ops::Bound::{Excluded, Unbounded};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::{FlowKey, PortKey};

/// The owner of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowOwner {
    /// The kernel has this connection: nothing of it is diverted.
    Kernel,
    /// A lane's, which connects from here or reports that it has accepted this connection. A
    /// listener at the port may get a connection between the same ends from the other side: then
    /// the flow is no longer the lane's.
    Lane(LaneId),
}

impl FlowOwner {
    /// The lane that receives the flow's packets.
    pub fn lane(self) -> Option<LaneId> {
        match self {
            Self::Kernel => None,
            Self::Lane(lane) => Some(lane),
        }
    }
}

/// A flow as the registry holds it.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) owner: FlowOwner,
    /// The claims that hold it, each as often as it does.
    pub(crate) claims: Vec<ClaimId>,
    /// When it was last entered or seen to live: the registry's count of such events.
    pub(crate) seen: u64,
}

/// A flow as other modules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFlow {
    /// The flow.
    pub key: FlowKey,
    /// Its owner.
    pub owner: FlowOwner,
    seen: u64,
}

impl Registry {
    /// Claims one connection of a bound socket.
    pub fn claim_flow(
        &mut self,
        lane: LaneId,
        bound: Bound,
        remote: Endpoint,
    ) -> Result<(ClaimId, Vec<TableChange>), Conflict> {
        let key = FlowKey { protocol: bound.protocol, local: bound.local, remote };
        if !self.is_open_to(lane, &key) {
            return Err(Conflict::Flow);
        }
        let id = self.new_claim(lane, bound);
        let mut changes = Vec::new();
        let port = PortKey { protocol: bound.protocol, local: bound.local };
        self.own(id, port, Share::One(remote), &mut changes);
        self.enter_flow(id, key, lane, &mut changes);
        Ok((id, changes))
    }

    /// Turns the claim of a closing listener into exact flows: new connections are no longer
    /// diverted, the live ones stay. A flow that another lane or the kernel has is left out. What
    /// the lane may send shrinks to these flows: the port may have another owner next.
    pub fn convert(&mut self, lane: LaneId, id: ClaimId, flows: &[FlowKey]) -> Result<Vec<TableChange>, Conflict> {
        let bound = self.claim(lane, id)?.bound;
        let mut changes = Vec::new();
        let pinned = self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.flows)).unwrap_or_default();
        for &key in flows {
            if !bound.covers(key.local) || !self.is_open_to(lane, &key) {
                continue;
            }
            self.enter_flow(id, key, lane, &mut changes);
        }
        // Flows first, so that no packet of a live connection falls between.
        for key in self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.ports)).unwrap_or_default() {
            self.unhold(id, key, &mut changes);
        }
        let exceptions = self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.exceptions)).unwrap_or_default();
        for key in pinned.into_iter().chain(exceptions) {
            self.leave_flow(id, key, &mut changes);
        }
        for (key, share) in self.claims.get_mut(&id).map(|c| std::mem::take(&mut c.owned)).unwrap_or_default() {
            // The smaller share is entered first, so that the live connections may send all the
            // while.
            self.own(id, key, Share::Flows, &mut changes);
            self.disown(lane, key, share, &mut changes);
        }
        Ok(changes)
    }

    /// Enters flows of connections that a claim's lane has, so that they stay with it when others
    /// join the port.
    pub fn pin(&mut self, lane: LaneId, id: ClaimId, flows: &[FlowKey]) -> Vec<TableChange> {
        let mut changes = Vec::new();
        if self.claim(lane, id).is_ok() {
            flows.iter().for_each(|&key| self.enter_flow(id, key, lane, &mut changes));
        }
        changes
    }

    /// Takes one such flow out.
    pub fn unpin(&mut self, lane: LaneId, id: ClaimId, key: &FlowKey) -> Vec<TableChange> {
        let mut changes = Vec::new();
        if self.claim(lane, id).is_ok()
            && let Some(claim) = self.claims.get_mut(&id)
            && let Some(at) = claim.flows.iter().position(|flow| flow == key)
        {
            claim.flows.swap_remove(at);
            self.leave_flow(id, *key, &mut changes);
        }
        changes
    }

    /// Takes the flows with one remote end out of a claim.
    pub fn release_flows(&mut self, lane: LaneId, id: ClaimId, remote: Endpoint) -> Result<Vec<TableChange>, Conflict> {
        self.claim(lane, id)?;
        let mut changes = Vec::new();
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Conflict::Unknown) };
        let gone: Vec<FlowKey> = claim.flows.extract_if(.., |flow| flow.remote == remote).collect();
        for key in gone {
            self.leave_flow(id, key, &mut changes);
        }
        Ok(changes)
    }

    /// Whether a flow is a lane's.
    pub fn holds_flow(&self, lane: LaneId, key: &FlowKey) -> bool {
        self.flows.get(key).is_some_and(|flow| flow.owner.lane() == Some(lane))
    }

    /// Whether a flow has an owner.
    pub fn knows_flow(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// A flow that is a lane's.
    pub fn lanes_flow(&self, key: &FlowKey) -> Option<ListedFlow> {
        let flow = self.flows.get(key).filter(|flow| flow.owner != FlowOwner::Kernel)?;
        Some(ListedFlow { key: *key, owner: flow.owner, seen: flow.seen })
    }

    /// At most so many flows after one, in order, and after which to continue; `None`: there are no
    /// more.
    pub fn some_flows(&self, after: Option<FlowKey>, number: usize) -> (Vec<ListedFlow>, Option<FlowKey>) {
        let behind = self.flows.range((after.map_or(Unbounded, Excluded), Unbounded));
        let listed = behind.map(|(&key, flow)| ListedFlow { key, owner: flow.owner, seen: flow.seen });
        let some: Vec<ListedFlow> = listed.take(number).collect();
        let last = some.last().filter(|_| some.len() == number).map(|flow| flow.key);
        (some, last)
    }

    /// Removes a flow from all claims, unless it has been entered or seen since it was listed;
    /// returns these claims.
    pub fn forget_flow(&mut self, listed: &ListedFlow) -> (Vec<ClaimId>, Vec<TableChange>) {
        let key = listed.key;
        let same = |flow: &&Flow| flow.owner == listed.owner && flow.seen == listed.seen;
        let mut changes = Vec::new();
        let claims = self.flows.get(&key).filter(same).map(|flow| flow.claims.clone()).unwrap_or_default();
        for &id in &claims {
            if let Some(claim) = self.claims.get_mut(&id) {
                claim.exceptions.remove(&key);
                claim.flows.retain(|&flow| flow != key);
            }
            self.leave_flow(id, key, &mut changes);
        }
        (claims, changes)
    }

    /// Whether a flow is free, or this lane's already.
    fn is_open_to(&self, lane: LaneId, key: &FlowKey) -> bool {
        self.flows.get(key).is_none_or(|flow| flow.owner.lane() == Some(lane))
    }

    fn enter_flow(&mut self, id: ClaimId, key: FlowKey, lane: LaneId, changes: &mut Vec<TableChange>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        let owner = FlowOwner::Lane(lane);
        if self.flows.get(&key).is_some_and(|flow| flow.owner != owner) {
            return;
        }
        claim.flows.push(key);
        self.hold_flow(id, key, owner, changes);
    }

    /// Notes that a claim holds a flow, which is free or of the same lane.
    pub(crate) fn hold_flow(&mut self, id: ClaimId, key: FlowKey, owner: FlowOwner, changes: &mut Vec<TableChange>) {
        self.seen += 1;
        let flow = self.flows.entry(key).or_insert_with(|| {
            changes.push(TableChange::Flow { key, before: None, after: Some(owner) });
            Flow { owner, claims: Vec::new(), seen: 0 }
        });
        flow.claims.push(id);
        flow.seen = self.seen;
    }

    /// Notes that a claim no longer holds a flow.
    pub(crate) fn leave_flow(&mut self, id: ClaimId, key: FlowKey, changes: &mut Vec<TableChange>) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if let Some(at) = flow.claims.iter().position(|&claim| claim == id) {
            flow.claims.swap_remove(at);
        }
        if flow.claims.is_empty() {
            let before = Some(flow.owner);
            self.flows.remove(&key);
            changes.push(TableChange::Flow { key, before, after: None });
        }
    }
}
