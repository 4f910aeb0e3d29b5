//! Claims whose process was killed before it noted the answer. Other processes may keep the lane,
//! and none of them would ever release such a claim.
//!
//! The process notes a claim in the row of its socket, under the lane's lock. So the row tells
//! whether the lane's other processes know the claim. It is read every second, also while the
//! process lives. A noted claim is settled: the row may go later. Once the process is gone, a claim
//! that is not settled ends if no row shows it at two looks. A socket that another process closes
//! meanwhile loses its row a moment before the service is told. The rows are the program's word,
//! but are only used against its own claims.
//!
//! Ephemeral ports are not among these claims: no socket has a row that could show them. Those that
//! a process is killed with before it has stored them stay with the lane.

use super::{Claims, HeldClaim};
use crate::clients::ConnectionId;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use std::collections::{BTreeSet, HashMap, HashSet};
use tickwire_registry::{ClaimId, LaneId};

/// The rows of at most so many lanes are read at one look. A lane has thousands of rows, and the
/// event loop waits meanwhile, whatever programs leave behind.
const LANES_AT_ONCE: usize = 16;

impl Claims {
    /// A claim was entered for the process at a connection.
    pub(crate) fn asked_at(&mut self, claim: ClaimId, asker: ConnectionId) {
        if let Some(held) = self.held.get_mut(&claim) {
            held.asker = Some(asker);
        }
    }

    /// Removes claims that processes have left behind without having noted them. `uses` says
    /// whether the process at a connection still uses a lane. Called every second.
    pub(crate) fn verify_noted(
        &mut self,
        uses: impl Fn(ConnectionId, LaneId) -> bool,
        lanes: &Lanes,
        ledger: &mut Ledger,
    ) {
        let unsettled = self.held.values().filter(|held| held.asker.is_some()).map(|held| held.lane).collect();
        let read = in_turn(&unsettled, self.noted_read);
        self.noted_read = read.last().copied().unwrap_or_default();
        // Each lane's rows are read once, for all of its claims.
        let noted: HashMap<_, _> =
            read.into_iter().map(|lane| (lane, lanes.get(lane).map(|lane| lane.noted_claims()))).collect();
        let mut unnoted = Vec::new();
        for (&claim, held) in self.held.iter_mut().filter(|(_, held)| held.asker.is_some()) {
            if let Some(noted) = noted.get(&held.lane)
                && held.is_abandoned(claim, noted.as_ref(), &uses)
            {
                unnoted.push(claim);
            }
        }
        self.remove_untold(unnoted, ledger);
    }
}

impl HeldClaim {
    /// A look at the claims that its lane's rows show; `None`: the lane is gone. Whether its asker
    /// was gone at this look and the one before, and no row has shown the claim.
    fn is_abandoned(
        &mut self,
        claim: ClaimId,
        noted: Option<&HashSet<ClaimId>>,
        uses: impl Fn(ConnectionId, LaneId) -> bool,
    ) -> bool {
        let Some(asker) = self.asker else { return false };
        if self.closed.is_some() || noted.is_none_or(|noted| noted.contains(&claim)) {
            self.asker = None;
            return false;
        }
        !uses(asker, self.lane) && std::mem::replace(&mut self.doubted, true)
    }
}

/// Those of these lanes whose rows are read next, if those of `last` were read last.
fn in_turn(lanes: &BTreeSet<LaneId>, last: LaneId) -> Vec<LaneId> {
    let after = lanes.range(last.saturating_add(1)..);
    after.chain(lanes.range(..=last)).take(LANES_AT_ONCE).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lanes_are_read_at_a_look_and_all_in_turn() {
        let lanes: BTreeSet<LaneId> = (1..=40).collect();
        let (mut last, mut read) = (0, Vec::new());
        for _ in 0..5 {
            let next = in_turn(&lanes, last);
            assert_eq!(next.len(), LANES_AT_ONCE);
            last = *next.last().unwrap();
            read.extend(next);
        }
        assert_eq!(read, (1..=40).chain(1..=40).collect::<Vec<_>>());
        assert_eq!(in_turn(&BTreeSet::from([7]), 7), [7]);
        assert_eq!(in_turn(&BTreeSet::from([7]), LaneId::MAX), [7]);
        assert!(in_turn(&BTreeSet::new(), 7).is_empty());
    }
}
