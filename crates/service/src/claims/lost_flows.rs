//! Flows that claims lose: those of the kernel that are over, and those of lanes that divert has
//! given away.

use super::Claims;
use crate::ledger::Ledger;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_registry::{FlowOwner, ListedFlow};
use tickwire_steer::tables::{FlowKey, Protocol};

impl Claims {
    /// Removes flows that are over or given away. Called every second.
    pub(crate) fn verify_flows(&mut self, ledger: &mut Ledger) {
        let Some(over) = self.flow_gc.found() else { return };
        over.iter().for_each(|flow| self.forget_flow(flow, ledger));
        let (kernels, lanes): (Vec<ListedFlow>, Vec<ListedFlow>) =
            self.flow_gc.next(&self.registry).into_iter().partition(|flow| flow.owner == FlowOwner::Kernel);
        for flow in lanes {
            self.forget_if_given(&flow, ledger);
        }
        self.flow_gc.ask(kernels);
    }

    /// Removes a lane's flow if divert has given it to another owner meanwhile, which is about to
    /// report it.
    pub(super) fn forget_given(&mut self, key: &FlowKey, ledger: &mut Ledger) {
        if let Some(flow) = self.registry.lanes_flow(key) {
            self.forget_if_given(&flow, ledger);
        }
    }

    /// Divert gives it to the listener that has got a connection between its ends from the other
    /// side (see `flows` of maps.h).
    fn forget_if_given(&mut self, flow: &ListedFlow, ledger: &mut Ledger) {
        if flow.key.protocol == Protocol::Tcp && !ledger.programs.has_flow(&flow.key) {
            self.forget_flow(flow, ledger);
        }
    }

    fn forget_flow(&mut self, flow: &ListedFlow, ledger: &mut Ledger) {
        let (mut claims, changes) = self.registry.forget_flow(flow);
        ledger.programs.apply_best(changes);
        claims.dedup();
        for claim in claims {
            let Some(held) = self.held.get_mut(&claim) else { continue };
            if held.kind == ClaimKind::Flow {
                self.lose([claim], Reason::PortTaken, ledger);
                continue;
            }
            held.pinned.retain(|pinned| *pinned != flow.key);
            let _ = self.charge(claim, &mut ledger.usage);
        }
    }
}
