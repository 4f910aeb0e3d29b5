//! Flows: connections that are told apart from all other packets to their port.

use super::{Bound, Change, ClaimId, Conflict, FlowKey, LaneId, PortKey, Registry, Share};
use std::ops::Bound::{Excluded, Unbounded};
use tickwire_stack::addr::Endpoint;

/// The owner of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Title {
    /// The kernel has this connection: nothing of it is diverted.
    Kernel,
    /// A lane's, which connects from here or reports that it has accepted this connection. A
    /// listener at the port may get a connection between the same ends from the other side: then
    /// the flow is no longer the lane's.
    Lane(LaneId),
}

impl Title {
    /// The lane that receives the flow's packets.
    pub(crate) fn lane(self) -> Option<LaneId> {
        match self {
            Self::Kernel => None,
            Self::Lane(lane) => Some(lane),
        }
    }
}

/// A flow as the registry holds it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) title: Title,
    /// The claims that hold it, each as often as it does.
    pub(super) claims: Vec<ClaimId>,
    /// When it was last entered or seen to live: the registry's count of such events.
    pub(super) seen: u64,
}

/// A flow as other modules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: FlowKey,
    pub(crate) title: Title,
    seen: u64,
}

impl Registry {
    /// Claims one connection of a bound socket.
    pub(crate) fn claim_flow(
        &mut self,
        lane: LaneId,
        bound: Bound,
        remote: Endpoint,
    ) -> Result<(ClaimId, Vec<Change>), Conflict> {
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
    pub(crate) fn convert(&mut self, lane: LaneId, id: ClaimId, flows: &[FlowKey]) -> Result<Vec<Change>, Conflict> {
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
    pub(crate) fn pin(&mut self, lane: LaneId, id: ClaimId, flows: &[FlowKey]) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.claim(lane, id).is_ok() {
            flows.iter().for_each(|&key| self.enter_flow(id, key, lane, &mut changes));
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
            self.leave_flow(id, *key, &mut changes);
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
            self.leave_flow(id, key, &mut changes);
        }
        Ok(changes)
    }

    /// Whether a flow is a lane's.
    pub(crate) fn holds_flow(&self, lane: LaneId, key: &FlowKey) -> bool {
        self.flows.get(key).is_some_and(|flow| flow.title.lane() == Some(lane))
    }

    /// Whether a flow has an owner.
    pub(crate) fn knows_flow(&self, key: &FlowKey) -> bool {
        self.flows.contains_key(key)
    }

    /// A flow that is a lane's.
    pub(crate) fn lanes_flow(&self, key: &FlowKey) -> Option<Listed> {
        let flow = self.flows.get(key).filter(|flow| flow.title != Title::Kernel)?;
        Some(Listed { key: *key, title: flow.title, seen: flow.seen })
    }

    /// At most so many flows after one, in order, and after which to continue; `None`: there are no
    /// more.
    pub(crate) fn some_flows(&self, after: Option<FlowKey>, number: usize) -> (Vec<Listed>, Option<FlowKey>) {
        let behind = self.flows.range((after.map_or(Unbounded, Excluded), Unbounded));
        let listed = behind.map(|(&key, flow)| Listed { key, title: flow.title, seen: flow.seen });
        let some: Vec<Listed> = listed.take(number).collect();
        let last = some.last().filter(|_| some.len() == number).map(|flow| flow.key);
        (some, last)
    }

    /// Removes a flow from all claims, unless it has been entered or seen since it was listed;
    /// returns these claims.
    pub(crate) fn forget_flow(&mut self, listed: &Listed) -> (Vec<ClaimId>, Vec<Change>) {
        let key = listed.key;
        let same = |flow: &&Flow| flow.title == listed.title && flow.seen == listed.seen;
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
        self.flows.get(key).is_none_or(|flow| flow.title.lane() == Some(lane))
    }

    fn enter_flow(&mut self, id: ClaimId, key: FlowKey, lane: LaneId, changes: &mut Vec<Change>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        let title = Title::Lane(lane);
        if self.flows.get(&key).is_some_and(|flow| flow.title != title) {
            return;
        }
        claim.flows.push(key);
        self.hold_flow(id, key, title, changes);
    }

    /// Notes that a claim holds a flow, which is free or of the same lane.
    pub(super) fn hold_flow(&mut self, id: ClaimId, key: FlowKey, title: Title, changes: &mut Vec<Change>) {
        self.seen += 1;
        let flow = self.flows.entry(key).or_insert_with(|| {
            changes.push(Change::Flow { key, before: None, after: Some(title) });
            Flow { title, claims: Vec::new(), seen: 0 }
        });
        flow.claims.push(id);
        flow.seen = self.seen;
    }

    /// Notes that a claim no longer holds a flow.
    pub(super) fn leave_flow(&mut self, id: ClaimId, key: FlowKey, changes: &mut Vec<Change>) {
        let Some(flow) = self.flows.get_mut(&key) else { return };
        if let Some(at) = flow.claims.iter().position(|&claim| claim == id) {
            flow.claims.swap_remove(at);
        }
        if flow.claims.is_empty() {
            let before = Some(flow.title);
            self.flows.remove(&key);
            changes.push(Change::Flow { key, before, after: None });
        }
    }
}
