//! Claims: what a program may have diverted to its lane, and on what proof.
//!
//! | module | purpose |
//! |---|---|
//! | here | what is known of claims; what they are charged with; which are lost |
//! | `claiming` | a program claims a bound port or a flow |
//! | `held_claim`, `port_proof` | a claim; what its socket proves |
//! | `ephemeral` | ports that the service binds for a lane in advance |
//! | `memberships`, `group_filter` | multicast groups that a claim's socket has joined |
//! | `kernels` | connections of the kernel's and of other lanes' under a claim |
//! | `connection_pinning` | connections of shared ports stay where they are |
//! | `recheck`, `claim_recheck` | claims end when their sockets give up what was claimed |
//! | `lost_flows`, `flow_gc` | flows end when they are over, or when divert has given them away |
//! | `takeover` | the kernel continues a lane's connection |
//! | `closing` | a listener closes, and its connections continue |
//! | `unnoted` | claims that a killed process has not noted |
//! | `ending` | the end of claims |

mod claim_recheck;
mod claiming;
mod closing;
mod connection_pinning;
mod ending;
mod ephemeral;
mod flow_gc;
mod group_filter;
mod held_claim;
mod kernels;
mod lost_flows;
mod memberships;
mod port_proof;
mod recheck;
mod takeover;
mod unnoted;

pub(crate) use claiming::Wanted;
pub(crate) use closing::Closing;
pub(crate) use held_claim::HeldClaim;
pub(crate) use port_proof::Judge;
pub(crate) use takeover::Departure;

use crate::ledger::Ledger;
use crate::programs::Programs;
use crate::usage::Usage;
use claim_recheck::ClaimRecheck;
use flow_gc::FlowGc;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use tickwire_host::Connections;
use tickwire_lane::control::Reason;
use tickwire_registry::{ClaimId, Groups, LaneId, Registry, TableChange};
use tickwire_steer::tables::PortKey;

/// All claims.
pub(crate) struct Claims {
    /// The rules.
    pub(crate) registry: Registry,
    groups: Groups,
    held: HashMap<ClaimId, HeldClaim>,
    judge: Judge,
    /// `None` on kernels without socket diagnostics.
    kernel_connections: Option<Connections>,
    flow_gc: FlowGc,
    /// Looks at the sockets of claims that run in the background, by user.
    rechecks: HashMap<u32, ClaimRecheck>,
    /// When a takeover by the kernel last failed at the connection's end (FIN), by user.
    ends_failed: HashMap<u32, Instant>,
    /// Shared ports that lanes are joining, and until when.
    joined: BTreeMap<PortKey, (Instant, Vec<LaneId>)>,
    /// The lane whose pinned connections were verified last.
    pins_verified: LaneId,
    /// The lane whose noted claims were read last.
    noted_read: LaneId,
    /// Claims whose loss their lanes have not been told yet.
    lost: Vec<LostClaim>,
}

/// A claim that has ended without its lane's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostClaim {
    pub(crate) lane: LaneId,
    pub(crate) claim: ClaimId,
    pub(crate) reason: Reason,
}

impl Claims {
    /// None yet. `connections` opens socket diagnostics, of which one is used in the background.
    pub(crate) fn new(judge: Judge, connections: impl Fn() -> Option<Connections>) -> Self {
        Self {
            registry: Registry::default(),
            groups: Groups::default(),
            held: HashMap::new(),
            judge,
            kernel_connections: connections(),
            flow_gc: FlowGc::new(connections()),
            rechecks: HashMap::new(),
            ends_failed: HashMap::new(),
            joined: BTreeMap::new(),
            pins_verified: 0,
            noted_read: 0,
            lost: Vec::new(),
        }
    }

    /// A claim as it is held.
    pub(crate) fn get(&self, claim: ClaimId) -> Option<&HeldClaim> {
        self.held.get(&claim)
    }

    /// The claims that were lost since the last call, for their lanes to be told.
    pub(crate) fn take_lost(&mut self) -> Vec<LostClaim> {
        std::mem::take(&mut self.lost)
    }

    /// Charges a claim's entries to its user and enters the changes into the maps. If there is no
    /// room for all of them, the claim is removed.
    fn apply(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        changes: Vec<TableChange>,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let entered = self.charge(claim, &mut ledger.usage).and_then(|()| {
            ledger.programs.apply(changes.clone()).map_err(|error| {
                tracing::error!(lane, %error, "a claim could not be entered");
                if error.is_full() { Reason::FlowLimit } else { Reason::ServiceError }
            })
        });
        entered.inspect_err(|_| self.take_back(lane, claim, &changes, &mut ledger.programs))
    }

    /// Removes a claim whose `not_entered` changes are not in the maps: these must not be undone
    /// there.
    fn take_back(&mut self, lane: LaneId, claim: ClaimId, not_entered: &[TableChange], programs: &mut Programs) {
        let mut undo = self.registry.release(lane, claim).unwrap_or_default();
        undo.retain(|change| !not_entered.iter().any(|done| done.clone().inverse() == *change));
        programs.apply_best(undo);
    }

    /// Charges a claim's entries, beyond the first, to its user.
    fn charge(&mut self, claim: ClaimId, usage: &mut Usage) -> Result<(), Reason> {
        let Some(held) = self.held.get(&claim) else { return Ok(()) };
        let entries = self.registry.entries_of(claim).saturating_sub(1);
        if entries.saturating_sub(held.charged) > usage.room_for_flows(held.user) {
            return Err(Reason::UserFlowLimit);
        }
        self.charge_known(claim, usage);
        Ok(())
    }

    /// The same where there is known to be room, or where there are fewer entries.
    fn charge_known(&mut self, claim: ClaimId, usage: &mut Usage) {
        let Some(held) = self.held.get_mut(&claim) else { return };
        let entries = self.registry.entries_of(claim).saturating_sub(1);
        usage.give_flows(held.user, held.charged.saturating_sub(entries));
        usage.take_flows(held.user, entries.saturating_sub(held.charged));
        held.charged = entries;
    }
}
