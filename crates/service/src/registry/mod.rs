//! The ownership of ports and flows, and the memberships of groups: the rules, without any system
//! call.
//!
//! Every change of the registry returns the [`Change`]s that make the BPF maps agree with it; the
//! caller applies them and, if the kernel refuses one, undoes them with [`Change::inverse`].

mod change;
mod exceptions;
mod flows;
mod groups;
mod keys;
mod ports;
mod shares;
#[cfg(test)]
mod tests;

pub(crate) use change::Change;
pub(crate) use flows::{Listed, Title};
pub(crate) use groups::{GroupChange, GroupKey, Groups, Member, Members};
pub(crate) use keys::{Bound, FlowKey, PortKey, Protocol, any_of};
pub(crate) use shares::Share;

use flows::Flow;
use ports::Holder;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

/// The number of a lane.
pub(crate) type LaneId = u32;
/// The number of a claim; never used twice.
pub(crate) type ClaimId = u64;

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
    /// Its lane's, each as often as it was entered.
    flows: Vec<FlowKey>,
    /// The kernel's.
    exceptions: BTreeSet<FlowKey>,
    owned: Vec<(PortKey, Share)>,
}

/// The registry of one service.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    claims: BTreeMap<ClaimId, Claim>,
    ports: HashMap<PortKey, Vec<Holder>>,
    flows: BTreeMap<FlowKey, Flow>,
    owned: HashMap<(LaneId, PortKey), Shares>,
    last: ClaimId,
    seen: u64,
}

impl Registry {
    /// Takes a claim out.
    pub(crate) fn release(&mut self, lane: LaneId, id: ClaimId) -> Result<Vec<Change>, Conflict> {
        self.claim(lane, id)?;
        let mut changes = Vec::new();
        if let Some(claim) = self.claims.remove(&id) {
            for key in claim.ports {
                self.unhold(id, key, &mut changes);
            }
            for key in claim.flows.into_iter().chain(claim.exceptions) {
                self.leave_flow(id, key, &mut changes);
            }
            for (key, share) in claim.owned {
                self.disown(lane, key, share, &mut changes);
            }
        }
        Ok(changes)
    }

    /// The claims of a lane.
    pub(crate) fn of_lane(&self, lane: LaneId) -> Vec<ClaimId> {
        self.claims.iter().filter(|(_, claim)| claim.lane == lane).map(|(&id, _)| id).collect()
    }

    /// The claim of a lane that comes after another, to visit them one by one: a lane may have
    /// thousands.
    pub(crate) fn next_of_lane(&self, lane: LaneId, after: ClaimId) -> Option<ClaimId> {
        let mut later = self.claims.range((Excluded(after), Unbounded));
        later.find(|(_, claim)| claim.lane == lane).map(|(&id, _)| id)
    }

    /// How many entries a claim has in the maps of ports and flows.
    pub(crate) fn entries_of(&self, id: ClaimId) -> usize {
        self.claims.get(&id).map_or(0, |claim| claim.flows.len() + claim.exceptions.len() + claim.ports.len())
    }

    fn claim(&self, lane: LaneId, id: ClaimId) -> Result<&Claim, Conflict> {
        self.claims.get(&id).filter(|claim| claim.lane == lane).ok_or(Conflict::Unknown)
    }

    fn new_claim(&mut self, lane: LaneId, bound: Bound) -> ClaimId {
        self.last += 1;
        let claim =
            Claim { lane, bound, ports: Vec::new(), flows: Vec::new(), exceptions: BTreeSet::new(), owned: Vec::new() };
        self.claims.insert(self.last, claim);
        self.last
    }
}
