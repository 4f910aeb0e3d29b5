//! Connections of the kernel's own, and of other lanes', on ports and flows that are claimed.

use super::Claims;
use crate::lanes::{Lane, Lanes};
use crate::ledger::Ledger;
use crate::paths::Nics;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tickwire_host::Ends;
use tickwire_lane::control::Reason;
use tickwire_registry::{Bound, ClaimId, LaneId, TableChange, any_of};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{FlowKey, PortKey, Protocol};

/// Up to so many flows are looked up in the kernel's table one by one. Each look-up takes some
/// microseconds, where a dump takes milliseconds, however few connections there are.
const ASKED_SINGLY: usize = 128;

impl Claims {
    /// Whether the kernel's own stack has a live connection between these ends. One local port may
    /// have connections of several programs, so that a socket of that port proves no right to each
    /// of them.
    pub(super) fn kernel_has(&mut self, local: Endpoint, remote: Endpoint, nics: &Nics) -> bool {
        self.ask_kernel(local, remote, nics).unwrap_or(true)
    }

    /// The same; `None` if the kernel does not answer.
    fn ask_kernel(&mut self, local: Endpoint, remote: Endpoint, nics: &Nics) -> Option<bool> {
        let connections = self.kernel_connections.as_mut()?;
        for nic in nics.indices() {
            match connections.has(&(local, remote), nic) {
                Ok(false) => {}
                Ok(true) => return Some(true),
                Err(error) => {
                    tracing::warn!(%error, "the kernel does not say whether it has a connection that is claimed");
                    return None;
                }
            }
        }
        Some(false)
    }

    /// The kernel's own connections on a port whose packets may arrive by an accelerated interface.
    /// Those inside this host do not count: divert never sees them.
    fn kernels_of_port(&mut self, port: u16, nics: &Nics) -> Result<Vec<Ends>, Reason> {
        let Some(connections) = &mut self.kernel_connections else { return Err(Reason::NoDiagnostics) };
        let mut ends = connections.of_port(port).map_err(|error| {
            tracing::error!(port, %error, "the kernel's connections on a claimed port are not known");
            Reason::ServiceError
        })?;
        ends.retain(|(local, remote)| nics.has_address(local.address) && !nics.has_address(remote.address));
        Ok(ends)
    }

    /// Removes from a closing listener's flows those that the kernel had accepted by now: they are
    /// its own. Where the kernel does not answer, only flows that were the lane's before are kept.
    pub(super) fn leave_out_kernels(&mut self, lane: LaneId, port: u16, flows: &mut Vec<FlowKey>, nics: &Nics) {
        if flows.len() <= ASKED_SINGLY {
            let mut answers = true;
            flows.retain(|flow| match answers.then(|| self.ask_kernel(flow.local, flow.remote, nics)).flatten() {
                Some(has) => !has,
                None => {
                    answers = false;
                    self.registry.holds_flow(lane, flow)
                }
            });
            return;
        }
        match self.kernels_of_port(port, nics) {
            Ok(kernels) => {
                let kernels: HashSet<Ends> = kernels.into_iter().collect();
                flows.retain(|flow| !kernels.contains(&(flow.local, flow.remote)));
            }
            Err(_) => flows.retain(|flow| self.registry.holds_flow(lane, flow)),
        }
    }

    /// The changes that leave the kernel's own connections on a claimed port to the kernel.
    pub(super) fn leave_to_kernel(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        bound: Bound,
        nics: &Nics,
        ledger: &mut Ledger,
    ) -> Result<Vec<TableChange>, Reason> {
        if bound.protocol != Protocol::Tcp {
            return Ok(Vec::new());
        }
        let ends = self.kernels_of_port(bound.local.port, nics)?;
        Ok(self.except(lane, claim, &ends, ledger))
    }

    /// The changes that leave these connections of the kernel's under a claim to the kernel.
    fn except(&mut self, lane: LaneId, claim: ClaimId, ends: &[Ends], ledger: &mut Ledger) -> Vec<TableChange> {
        for &(local, remote) in ends {
            self.forget_given(&FlowKey { protocol: Protocol::Tcp, local, remote }, ledger);
        }
        self.registry.except(lane, claim, ends).unwrap_or_default()
    }

    /// Leaves the kernel's own connections at an address to the kernel, before packets to that
    /// address are diverted.
    pub(crate) fn leave_to_kernel_at(&mut self, address: Address, ledger: &mut Ledger) {
        let claims: Vec<(ClaimId, LaneId, u16)> = self
            .held
            .iter()
            .filter(|(_, held)| held.has_tcp_port())
            .filter(|(_, held)| held.bound.covers(Endpoint::new(address, held.bound.local.port)))
            .map(|(&claim, held)| (claim, held.lane, held.bound.local.port))
            .collect();
        let Some(connections) = self.kernel_connections.as_mut().filter(|_| !claims.is_empty()) else { return };
        let mut by_port: BTreeMap<u16, Vec<Ends>> = BTreeMap::new();
        match connections.all() {
            Ok(all) => all
                .into_iter()
                .filter(|(local, remote)| local.address == address && remote.address != address)
                .for_each(|ends| by_port.entry(ends.0.port).or_default().push(ends)),
            Err(error) => tracing::error!(%address, %error, "the kernel's connections at an address are not known"),
        }
        for (claim, lane, port) in claims {
            let Some(ends) = by_port.get(&port) else { continue };
            let changes = self.except(lane, claim, ends, ledger);
            if let Err(reason) = self.apply(lane, claim, changes, ledger) {
                self.lose([claim], reason, ledger);
            }
        }
    }

    /// Whether another lane that holds the port of a flow reports this connection: it may have
    /// accepted it.
    pub(super) fn others_have(&self, lane: LaneId, local: Endpoint, remote: Endpoint, lanes: &Lanes) -> bool {
        let keys = [local.address, any_of(local.address)]
            .map(|address| PortKey { protocol: Protocol::Tcp, local: Endpoint::new(address, local.port) });
        self.others_at(lane, &keys, lanes).any(|other| other.has_connection(local, remote))
    }

    /// The connections reported by the other lanes that hold a port, of any address.
    pub(super) fn connections_of_others(
        &self,
        lane: LaneId,
        bound: Bound,
        lanes: &Lanes,
        nics: &Nics,
    ) -> HashSet<Ends> {
        let addresses = nics.addresses().into_iter().chain([Address::ANY, Address::ANY_V4]);
        let keys: Vec<PortKey> = addresses
            .map(|address| PortKey { protocol: Protocol::Tcp, local: Endpoint::new(address, bound.local.port) })
            .collect();
        self.others_at(lane, &keys, lanes).flat_map(Lane::connections_now).collect()
    }

    /// The other lanes that hold any of these.
    fn others_at<'l>(&self, lane: LaneId, keys: &[PortKey], lanes: &'l Lanes) -> impl Iterator<Item = &'l Lane> {
        let holders = keys.iter().flat_map(|&key| self.registry.holders(key)).map(|(holder, _)| holder);
        let others: BTreeSet<LaneId> = holders.filter(|&holder| holder != lane).collect();
        others.into_iter().filter_map(move |other| lanes.get(other))
    }
}
