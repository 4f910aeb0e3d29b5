//! Claims of listeners whose process was killed before it noted the answer. Other processes may
//! keep the lane, and none of them would ever release such a claim.
//!
//! The process notes a claim in the row of its listener, under the lane's lock. So the row tells,
//! once the process is gone, whether the lane's other processes know the claim. A listener that one
//! of them closes loses its row a moment before the service is told: a claim ends only if no row
//! shows it at two looks, a second apart. The rows are the program's word, but are only used
//! against its own claims.

use super::Claims;
use crate::clients::ConnectionId;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::registry::{ClaimId, LaneId};

impl Claims {
    /// A claim was entered for the process at a connection.
    pub(crate) fn asked_at(&mut self, claim: ClaimId, asker: ConnectionId) {
        if let Some(held) = self.held.get_mut(&claim).filter(|held| held.has_tcp_port()) {
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
        let mut unnoted = Vec::new();
        for (&claim, held) in &mut self.held {
            let lane = held.lane;
            if held.asker.is_none_or(|asker| uses(asker, lane)) {
                continue;
            }
            if held.closed.is_some() || lanes.get(lane).is_none_or(|lane| lane.has_noted(claim)) {
                held.asker = None;
            } else if std::mem::replace(&mut held.doubted, true) {
                unnoted.push(claim);
            }
        }
        self.remove_untold(unnoted, ledger);
    }
}
