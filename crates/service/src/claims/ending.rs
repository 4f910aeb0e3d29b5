//! The end of claims: by request, with their lane, or because what they rest on is gone.

use super::{Claims, HeldClaim, LostClaim};
use crate::ledger::Ledger;
use crate::usage::Usage;
use std::sync::Arc;
use tickwire_lane::control::Reason;
use tickwire_lane_linux::sys_socket;
use tickwire_registry::{ClaimId, LaneId};
use tickwire_steer::tables::Protocol;

/// So many sockets are closed in one job of a user's thread: a small part of the time for which the
/// service waits for a job.
const CLOSED_AT_ONCE: usize = 64;

impl Claims {
    /// Removes claims of a lane from the groups, the registry and the maps.
    pub(crate) fn remove(&mut self, lane: LaneId, claims: Vec<ClaimId>, ledger: &mut Ledger) {
        for &claim in &claims {
            self.leave_divert(lane, claim, ledger);
        }
        self.forget(claims, &ledger.usage);
    }

    /// Takes the claims of a lane out of divert. Returns them; their sockets are still held.
    pub(crate) fn leave_divert_all(&mut self, lane: LaneId, ledger: &mut Ledger) -> Vec<ClaimId> {
        let claims = self.registry.of_lane(lane);
        for &claim in &claims {
            self.leave_divert(lane, claim, ledger);
        }
        claims
    }

    fn leave_divert(&mut self, lane: LaneId, claim: ClaimId, ledger: &mut Ledger) {
        self.leave_groups(claim, ledger);
        if let Ok(changes) = self.registry.release(lane, claim) {
            ledger.programs.apply_best(changes);
        }
    }

    /// Removes claims of any lanes, whose sockets are closed together: the service waits for each
    /// job of a user's threads, and a user may make every one of them last.
    fn remove_together(&mut self, claims: Vec<(LaneId, ClaimId)>, ledger: &mut Ledger) {
        for &(lane, claim) in &claims {
            self.leave_divert(lane, claim, ledger);
        }
        self.forget(claims.into_iter().map(|(_, claim)| claim).collect(), &ledger.usage);
    }

    /// Removes all claims, at the end of the service: sockets that continue with the kernel must
    /// not keep the service's filters.
    pub(crate) fn remove_all(&mut self, ledger: &mut Ledger) {
        let claims = self.held.iter().map(|(&id, held)| (held.lane, id)).collect();
        self.remove_together(claims, ledger);
    }

    /// Removes claims of which no program has learned: none would ever release them.
    pub(crate) fn remove_untold(&mut self, claims: Vec<ClaimId>, ledger: &mut Ledger) {
        let claims = self.with_lanes(claims);
        for (lane, claim) in &claims {
            tracing::debug!(lane, claim, "its process has ended before it learned of it");
        }
        self.remove_together(claims, ledger);
    }

    /// Those of these claims that there are, each with its lane.
    fn with_lanes(&self, claims: impl IntoIterator<Item = ClaimId>) -> Vec<(LaneId, ClaimId)> {
        let lane = |claim| Some((self.held.get(&claim)?.lane, claim));
        claims.into_iter().filter_map(lane).collect()
    }

    /// Whether a claim is on a UDP port or flow.
    pub(crate) fn is_udp(&self, claim: ClaimId) -> bool {
        self.held.get(&claim).is_some_and(|held| held.bound.protocol == Protocol::Udp)
    }

    /// Closes the service's copies of claims' sockets, with which the program may continue on the
    /// kernel. Several of a user at a time, since each job of the user's threads is waited for.
    pub(crate) fn forget(&mut self, claims: Vec<ClaimId>, usage: &Usage) {
        let gone = claims.into_iter().filter_map(|claim| self.held.remove(&claim)).collect();
        for some in batches(gone, |held: &HeldClaim| held.user) {
            let Some(first) = some.first() else { continue };
            let (queue, user) = (first.socket.queue(), first.user);
            // What is not closed yet still counts: a user may make the closing last.
            let returns = usage.returns();
            queue.finish(move || {
                for HeldClaim { socket, filtered, charged, .. } in some {
                    if filtered && let Some(fd) = socket.get() {
                        let _ = sys_socket::detach_filter(fd);
                    }
                    if let Some(socket) = Arc::into_inner(socket) {
                        socket.close();
                    }
                    returns.flows(user, 1 + charged);
                }
            });
        }
    }

    /// Ends the claims of which `gone` says that what they rest on is gone.
    pub(crate) fn lose_where(&mut self, gone: impl Fn(&HeldClaim) -> bool, reason: Reason, ledger: &mut Ledger) {
        let lost: Vec<ClaimId> = self.held.iter().filter(|(_, held)| gone(held)).map(|(&id, _)| id).collect();
        self.lose(lost, reason, ledger);
    }

    /// Ends these claims. Their lanes are to be told.
    pub(super) fn lose(&mut self, lost: impl IntoIterator<Item = ClaimId>, reason: Reason, ledger: &mut Ledger) {
        let lost = self.with_lanes(lost);
        for &(lane, claim) in &lost {
            tracing::info!(lane, claim, %reason, "claim lost");
            self.lost.push(LostClaim { lane, claim, reason });
        }
        self.remove_together(lost, ledger);
    }
}

/// Batches of at most [`CLOSED_AT_ONCE`], each of one user. The order does not matter: claims come
/// in that of a hash table, in which those of several users mix.
fn batches<T>(mut all: Vec<T>, user: impl Fn(&T) -> u32) -> Vec<Vec<T>> {
    all.sort_by_key(&user);
    let mut batches: Vec<Vec<T>> = Vec::new();
    for one in all {
        match batches.last_mut() {
            Some(batch) if batch.len() < CLOSED_AT_ONCE && user(&batch[0]) == user(&one) => batch.push(one),
            _ => batches.push(vec![one]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_several_users_that_mix_are_closed_in_few_batches() {
        let mixed: Vec<(u32, usize)> = (0..3 * CLOSED_AT_ONCE).map(|n| (n as u32 % 2, n)).collect();
        let batches = batches(mixed.clone(), |&(user, _)| user);
        assert_eq!(batches.len(), 4, "a full batch and half of one for each user");
        for batch in &batches {
            assert!(batch.len() <= CLOSED_AT_ONCE && batch.iter().all(|&(user, _)| user == batch[0].0));
        }
        let mut all = batches.concat();
        all.sort_by_key(|&(_, n)| n);
        assert_eq!(all, mixed);
    }
}
