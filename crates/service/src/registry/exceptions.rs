//! Flows under a claimed port that are the kernel's.

use super::{Change, Claim, ClaimId, Conflict, FlowKey, LaneId, Registry};
use tickwire_stack::addr::Endpoint;

/// In the place of a lane: flows that are the kernel's.
pub(crate) const KERNEL: LaneId = 0;

impl Registry {
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
}
