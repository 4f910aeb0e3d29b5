//! Flows under a claimed port that are the kernel's: every claim of the port leaves them to it.

use super::{ClaimId, Conflict, FlowOwner, LaneId, Registry, TableChange};
use tickwire_stack::addr::Endpoint;
use tickwire_steer::tables::FlowKey;

impl Registry {
    /// Leaves flows that fall under a claim to the kernel: connections that its stack has.
    pub fn except(
        &mut self,
        lane: LaneId,
        id: ClaimId,
        flows: &[(Endpoint, Endpoint)],
    ) -> Result<Vec<TableChange>, Conflict> {
        let bound = self.claim(lane, id)?.bound;
        let mut changes = Vec::new();
        for &(local, remote) in flows {
            let key = FlowKey { protocol: bound.protocol, local, remote };
            let free = self.flows.get(&key).is_none_or(|flow| flow.owner == FlowOwner::Kernel);
            if !bound.covers(local) || !free {
                continue;
            }
            let Some(claim) = self.claims.get_mut(&id) else { return Err(Conflict::Unknown) };
            if claim.exceptions.insert(key) {
                self.hold_flow(id, key, FlowOwner::Kernel, &mut changes);
            } else if let Some(flow) = self.flows.get_mut(&key) {
                self.seen += 1;
                flow.seen = self.seen;
            }
        }
        Ok(changes)
    }

    /// Ends the exceptions of a claim whose connections the kernel does not have any more.
    pub fn retain_exceptions(
        &mut self,
        lane: LaneId,
        id: ClaimId,
        has: impl Fn(Endpoint, Endpoint) -> bool,
    ) -> Result<Vec<TableChange>, Conflict> {
        self.claim(lane, id)?;
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Conflict::Unknown) };
        // There may be as many as a busy listener leaves behind: each is looked at once.
        let ended: Vec<FlowKey> = claim.exceptions.extract_if(.., |key| !has(key.local, key.remote)).collect();
        let mut changes = Vec::new();
        for key in ended {
            self.leave_flow(id, key, &mut changes);
        }
        Ok(changes)
    }

    /// The claims with exceptions.
    pub fn excepting(&self) -> Vec<(LaneId, ClaimId)> {
        let excepting = self.claims.iter().filter(|(_, claim)| !claim.exceptions.is_empty());
        excepting.map(|(&id, claim)| (claim.lane, id)).collect()
    }

    /// An exception has not been entered into the maps.
    pub fn take_exception_back(&mut self, lane: LaneId, id: ClaimId, key: &FlowKey) {
        if self.claim(lane, id).is_ok()
            && let Some(claim) = self.claims.get_mut(&id)
            && claim.exceptions.remove(key)
        {
            self.leave_flow(id, *key, &mut Vec::new());
        }
    }
}
