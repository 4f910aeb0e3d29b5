//! Which lane may have which port, flow and multicast group: the rules of claims, without any
//! system call. They are the same on every operating system.
//!
//! Every change of the registry returns the [`TableChange`]s that make the tables of divert and
//! guard (`tickwire_steer::tables`; on Linux the BPF maps) agree with it. The caller applies them
//! and, if the system refuses one, undoes them with [`TableChange::inverse`].
//!
//! | module | purpose |
//! |---|---|
//! | `keys` | sockets that prove a right to a port, and the keys of their packets |
//! | `ports`, `flows`, `exceptions` | which lane receives; flows that stay the kernel's |
//! | `shares` | what a lane may send from a port |
//! | `groups` | memberships of multicast groups |
//! | `change` | the changes of the tables |
//! | `justification` | which sockets give a right to what |
//! | `ended_connections`, `end_segment` | what the peers of a program that is gone are told |
#![forbid(unsafe_code)]

mod change;
mod end_segment;
mod ended_connections;
mod exceptions;
mod flows;
mod groups;
mod justification;
mod keys;
mod ports;
mod shares;
#[cfg(test)]
mod tests;

pub use change::TableChange;
pub use end_segment::{EndKind, EndSegment, end_frame};
pub use ended_connections::end_segments;
pub use flows::{FlowOwner, ListedFlow};
pub use groups::{GroupChange, Groups, Member, Members};
pub use justification::{ProvenSocket, justifies};
pub use keys::{Bound, any_of};
pub use shares::Share;

use flows::Flow;
use ports::Holder;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use tickwire_lane::control::Reason;
use tickwire_steer::tables::{FlowKey, PortKey};

/// The number of a lane.
pub type LaneId = tickwire_steer::tables::LaneNumber;
/// The number of a claim; never used twice.
pub type ClaimId = u64;

/// Why a claim is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Another lane has that port, and they do not both share it.
    Port,
    /// Another lane has that flow.
    Flow,
    /// Too many lanes share the port.
    TooManySharing,
    /// No such claim of this lane.
    Unknown,
}

impl From<Conflict> for Reason {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Port | Conflict::Flow => Self::PortTaken,
            Conflict::TooManySharing => Self::ShareLimit,
            Conflict::Unknown => Self::BadRequest,
        }
    }
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
pub struct Registry {
    claims: BTreeMap<ClaimId, Claim>,
    ports: HashMap<PortKey, Vec<Holder>>,
    flows: BTreeMap<FlowKey, Flow>,
    owned: HashMap<(LaneId, PortKey), Shares>,
    last: ClaimId,
    seen: u64,
}

impl Registry {
    /// Takes a claim out.
    pub fn release(&mut self, lane: LaneId, id: ClaimId) -> Result<Vec<TableChange>, Conflict> {
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
    pub fn of_lane(&self, lane: LaneId) -> Vec<ClaimId> {
        self.claims.iter().filter(|(_, claim)| claim.lane == lane).map(|(&id, _)| id).collect()
    }

    /// The claim of a lane that comes after another, to visit them one by one: a lane may have
    /// thousands.
    pub fn next_of_lane(&self, lane: LaneId, after: ClaimId) -> Option<ClaimId> {
        let mut later = self.claims.range((Excluded(after), Unbounded));
        later.find(|(_, claim)| claim.lane == lane).map(|(&id, _)| id)
    }

    /// How many entries a claim has in the maps of ports and flows.
    pub fn entries_of(&self, id: ClaimId) -> usize {
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
