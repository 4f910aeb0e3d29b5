//! Connections of the kernel's own on ports and flows that are claimed.

use crate::registry::{Bound, Change, ClaimId, LaneId, Protocol};
use crate::service::Service;
use std::collections::BTreeMap;
use tickwire_host::Ends;
use tickwire_link::control::Reason;
use tickwire_stack::addr::Endpoint;

impl Service {
    /// Whether the kernel's own stack has a live connection between these ends. One local port may have connections of several
    /// programs, so that a socket of that port proves no right to each of them.
    pub(super) fn kernel_has(&mut self, local: Endpoint, remote: Endpoint) -> bool {
        let Some(connections) = &mut self.kernel_connections else { return true };
        self.nics.indices().into_iter().any(|nic| {
            connections.has(&(local, remote), nic).unwrap_or_else(|error| {
                tracing::warn!(%error, "the kernel does not say whether it has a connection that is claimed");
                true
            })
        })
    }

    /// What leaves the kernel's own connections on a claimed port to the kernel.
    pub(super) fn kernel_connections(
        &mut self,
        lane: LaneId,
        claim: ClaimId,
        bound: Bound,
    ) -> Result<Vec<Change>, Reason> {
        if bound.protocol != Protocol::Tcp {
            return Ok(Vec::new());
        }
        let Some(connections) = &mut self.kernel_connections else { return Err(Reason::NoDiagnostics) };
        let ends = connections.of_port(bound.local.port).map_err(|error| {
            tracing::error!(lane, %error, "the kernel's connections on a claimed port are not known");
            Reason::ServiceError
        })?;
        Ok(self.registry.except(lane, claim, &ends).unwrap_or_default())
    }

    /// Forgets exceptions for connections of the kernel's that are over.
    pub(crate) fn verify_exceptions(&mut self) {
        let mut live: BTreeMap<u16, Vec<Ends>> = BTreeMap::new();
        for (claim, lane, key) in self.registry.exceptions() {
            let Some(connections) = &mut self.kernel_connections else { return };
            let port = key.local.port;
            let ends = live.entry(port).or_insert_with(|| connections.of_port(port).unwrap_or_default());
            if !ends.contains(&(key.local, key.remote))
                && let Ok(changes) = self.registry.release_flows(lane, claim, key.remote)
            {
                self.programs.apply_best(changes);
                let _ = self.charge(claim);
            }
        }
    }
}
