//! Claims hold for as long as their sockets hold what was claimed with them.

use super::claim_recheck::{ClaimRecheck, Finding, Look};
use super::port_proof::Duty;
use super::{Claims, HeldClaim};
use crate::clients::UserWorkers;
use crate::ledger::Ledger;
use crate::paths::Nics;
use std::collections::HashMap;
use std::sync::Arc;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_steer::tables::Protocol;

/// What a claim's socket must continue to do.
fn duty(held: &HeldClaim) -> Duty {
    match (held.bound.protocol, held.kind) {
        (Protocol::Udp, _) => Duty::Datagrams,
        (Protocol::Tcp, ClaimKind::Flow | ClaimKind::Ephemeral) => Duty::Idle,
        (Protocol::Tcp, ClaimKind::Bound) if held.closed.is_some() => Duty::Port,
        (Protocol::Tcp, ClaimKind::Bound) => Duty::Listen,
    }
}

impl Claims {
    /// Ends claims whose socket no longer holds what was claimed with it: the kernel may have given
    /// that to another socket, whose packets must not be diverted. Called every second; each call
    /// acts on what the one before it found.
    pub(crate) fn verify(&mut self, workers: &mut UserWorkers, nics: &Nics, ledger: &mut Ledger) {
        let mut found: Vec<Finding> = Vec::new();
        self.rechecks.retain(|&user, recheck| recheck.poll(|| workers.of(user).is_stuck(), &mut found));
        found.retain(|(claim, seen, _)| self.held.get(claim).is_some_and(|held| duty(held) == *seen));
        let lost = found.iter().filter(|(.., right)| right.is_none()).map(|&(claim, ..)| claim);
        self.lose(lost, Reason::NotBound, ledger);
        for (claim, _, right) in found {
            let Some((address, interface)) = right else { continue };
            let before = self.held.get(&claim).map(|held| (held.covered, held.interface));
            if before.is_some_and(|(covered, _)| covered != address) {
                self.cover(claim, address, ledger);
            }
            if before.is_some_and(|(_, device)| device != interface) {
                self.socket_names_device(claim, interface, nics, ledger);
            }
        }
        let mut due: HashMap<u32, Vec<Look>> = HashMap::new();
        for (&claim, held) in &self.held {
            if !self.rechecks.contains_key(&held.user) {
                let socket = Arc::downgrade(&held.socket);
                let right = (held.covered, held.interface);
                due.entry(held.user).or_default().push((claim, duty(held), held.bound.local, right, socket));
            }
        }
        for (user, claims) in due {
            self.rechecks.insert(user, ClaimRecheck::begin(claims, &workers.of(user)));
        }
    }
}
