//! Takes the flows of the registry in turn, and finds those of the kernel's that are over. The
//! kernel's connections are queried in the background, and all at once: a busy host has many.

use crate::clients::Queue;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use tickwire_host::{Connections, Ends};
use tickwire_registry::{ListedFlow, Registry};
use tickwire_steer::tables::FlowKey;

/// So many flows are checked at a time: some milliseconds.
const SLICE: usize = 4096;

/// The result of a check: the diagnostics socket, which is given back, and the flows that are over.
type Answer = (Connections, Vec<ListedFlow>);

/// The state of the check.
#[derive(Debug, Default)]
pub(crate) struct FlowGc {
    queue: Arc<Queue>,
    connections: Option<Connections>,
    under_way: Option<Receiver<Answer>>,
    after: Option<FlowKey>,
}

impl FlowGc {
    /// One that queries `connections`; without these the kernel has no TCP flows in the registry.
    pub(crate) fn new(connections: Option<Connections>) -> Self {
        Self { connections, ..Self::default() }
    }

    /// The result of the last check, empty if there was none; `None` while one is under way.
    pub(crate) fn found(&mut self) -> Option<Vec<ListedFlow>> {
        match self.under_way.as_ref().map(Receiver::try_recv) {
            None => Some(Vec::new()),
            Some(Err(TryRecvError::Empty)) => {
                self.queue.staff_anew();
                None
            }
            Some(Err(TryRecvError::Disconnected)) => {
                self.connections = Connections::open().ok();
                self.under_way = None;
                Some(Vec::new())
            }
            Some(Ok((connections, over))) => {
                self.connections = Some(connections);
                self.under_way = None;
                Some(over)
            }
        }
    }

    /// The next flows to be checked.
    pub(crate) fn next(&mut self, registry: &Registry) -> Vec<ListedFlow> {
        let (some, last) = registry.some_flows(self.after, SLICE);
        self.after = last;
        some
    }

    /// Asks the kernel which of these connections it no longer has.
    pub(crate) fn ask(&mut self, kernels: Vec<ListedFlow>) {
        let Some(mut connections) = self.connections.take_if(|_| !kernels.is_empty()) else { return };
        let (tell, found) = sync_channel(1);
        self.under_way = Some(found);
        self.queue.later(move || {
            let over = match connections.all() {
                Ok(all) => over(kernels, &all.into_iter().collect()),
                Err(error) => {
                    tracing::warn!(%error, "the kernel's connections are not known now");
                    Vec::new()
                }
            };
            let _ = tell.send((connections, over));
        });
    }
}

/// Those that are not among the live ones.
fn over(mut kernels: Vec<ListedFlow>, live: &HashSet<Ends>) -> Vec<ListedFlow> {
    kernels.retain(|flow| !live.contains(&(flow.key.local, flow.key.remote)));
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_registry::Bound;
    use tickwire_stack::addr::{Address, Endpoint};
    use tickwire_steer::tables::Protocol;

    #[test]
    fn only_the_very_connection_keeps_its_flow() {
        let end = |address, port| Endpoint::new(Address::v4([10, 0, 0, address]), port);
        let bound = Bound { protocol: Protocol::Tcp, local: end(1, 80), dual: false, shares: false, reuses: false };
        let mut registry = Registry::default();
        let (claim, _) = registry.claim_bound(1, bound).unwrap();
        registry.except(1, claim, &[(end(1, 80), end(2, 9000)), (end(1, 80), end(3, 9000))]).unwrap();
        let (kernels, _) = registry.some_flows(None, SLICE);
        let live = [(end(1, 80), end(3, 9000)), (end(4, 80), end(2, 9000))].into();
        let over = over(kernels, &live);
        assert_eq!(over.iter().map(|flow| flow.key.remote).collect::<Vec<_>>(), [end(2, 9000)]);
    }
}
