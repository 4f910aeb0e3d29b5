//! Flows that claims lose: those of the kernel that are over, and those of lanes that divert has
//! given away.

use crate::registry::{FlowKey, Listed, Protocol, Title};
use crate::service::Service;
use tickwire_lane::control::{ClaimKind, Reason};

impl Service {
    /// Removes flows that are over or given away. Called every second.
    pub(crate) fn verify_flows(&mut self) {
        let Some(over) = self.census.found() else { return };
        over.iter().for_each(|flow| self.forget_flow(flow));
        let (kernels, lanes): (Vec<Listed>, Vec<Listed>) =
            self.census.next(&self.registry).into_iter().partition(|flow| flow.title == Title::Kernel);
        for flow in lanes {
            self.forget_if_given(&flow);
        }
        self.census.ask(kernels);
    }

    /// Removes a lane's flow if divert has given it to another owner meanwhile, which is about to
    /// report it.
    pub(crate) fn forget_given(&mut self, key: &FlowKey) {
        if let Some(flow) = self.registry.lanes_flow(key) {
            self.forget_if_given(&flow);
        }
    }

    /// Divert gives it to the listener that has got a connection between its ends from the other
    /// side (see `flows` of maps.h).
    fn forget_if_given(&mut self, flow: &Listed) {
        if flow.key.protocol == Protocol::Tcp && !self.programs.has_flow(&flow.key) {
            self.forget_flow(flow);
        }
    }

    fn forget_flow(&mut self, flow: &Listed) {
        let (mut claims, changes) = self.registry.forget_flow(flow);
        self.programs.apply_best(changes);
        claims.dedup();
        for claim in claims {
            let Some(held) = self.claims.get_mut(&claim) else { continue };
            if held.kind == ClaimKind::Flow {
                self.lose_these([claim], Reason::PortTaken);
                continue;
            }
            held.pinned.retain(|pinned| *pinned != flow.key);
            let _ = self.charge(claim);
        }
    }
}
