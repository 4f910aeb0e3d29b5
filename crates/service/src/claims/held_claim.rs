//! A claim as the service holds it: whose it is, the socket that proves it, and what has become of
//! it since.

use crate::clients::{ConnectionId, Foreign};
use std::collections::HashMap;
use std::sync::Arc;
use tickwire_lane::control::ClaimKind;
use tickwire_registry::{Bound, LaneId};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::{FlowKey, Protocol};

/// A claim as the service holds it.
#[derive(Debug)]
pub(crate) struct HeldClaim {
    pub(crate) lane: LaneId,
    pub(crate) user: u32,
    pub(crate) kind: ClaimKind,
    pub(crate) bound: Bound,
    /// The address for which packets are diverted now: the bound one, or the local address of a
    /// connected UDP socket that is bound to any.
    pub(crate) covered: Address,
    pub(crate) remote: Endpoint,
    /// The program's kernel socket, or the service's own for an ephemeral port: as long as it is
    /// held, the port stays taken in the kernel's registry.
    pub(crate) socket: Arc<Foreign>,
    /// The interface to which its socket is bound, 0 if to none.
    pub(crate) interface: u32,
    /// Whether the service's filter is on it (see `group_filter`). A filter that the program has
    /// attached itself is left alone.
    pub(crate) filtered: bool,
    /// Remotes collected so far for a conversion that takes several messages.
    pub(crate) converting: Vec<Endpoint>,
    /// Set once its listener has closed: the connections that are left.
    pub(crate) closed: Option<Closed>,
    /// Entries of the flow map that are booked on the user beyond the claim itself.
    pub(crate) charged: usize,
    /// The connection at which it was asked for, until it is known that the process has noted it
    /// (see `unnoted`). `None` for an ephemeral port.
    pub(crate) asker: Option<ConnectionId>,
    /// The asker is gone, and had not noted it at the last look.
    pub(crate) doubted: bool,
    /// Connections of a shared port that stay with this lane (see `connection_pinning`).
    pub(crate) pinned: Vec<FlowKey>,
}

/// What is left of a closed listener. Its claim ends with the last connection.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// How many connections there are with each remote end: one at each of the host's addresses.
    pub(crate) connections: HashMap<Endpoint, u32>,
    /// Whether the claim covers these connections only. If there was no room for so many flows, it
    /// covers the port.
    pub(crate) by_flows: bool,
}

impl Closed {
    /// The end of a listener that leaves a connection with each of these.
    pub(crate) fn new(remotes: &[Endpoint]) -> Self {
        let mut connections = HashMap::new();
        remotes.iter().for_each(|&remote| *connections.entry(remote).or_default() += 1);
        Self { connections, by_flows: false }
    }

    /// Whether nothing is left but one connection with this remote end.
    pub(crate) fn has_only(&self, remote: Endpoint) -> bool {
        self.connections.len() == 1 && self.connections.get(&remote) == Some(&1)
    }

    /// A connection is over. Says whether it was the last one with this remote end.
    pub(crate) fn ends(&mut self, remote: Endpoint) -> bool {
        let Some(count) = self.connections.get_mut(&remote) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.connections.remove(&remote);
        }
        last
    }
}

impl HeldClaim {
    /// A claim with nothing under it yet.
    pub(crate) fn new(
        lane: LaneId,
        user: u32,
        kind: ClaimKind,
        bound: Bound,
        remote: Endpoint,
        socket: Foreign,
    ) -> Self {
        Self {
            lane,
            user,
            kind,
            bound,
            covered: bound.local.address,
            remote,
            socket: Arc::new(socket),
            interface: 0,
            filtered: false,
            converting: Vec::new(),
            closed: None,
            charged: 0,
            asker: None,
            doubted: false,
            pinned: Vec::new(),
        }
    }

    /// Whether all packets to a TCP port are its.
    pub(crate) fn has_tcp_port(&self) -> bool {
        self.kind == ClaimKind::Bound
            && self.bound.protocol == Protocol::Tcp
            && !self.closed.as_ref().is_some_and(|closed| closed.by_flows)
    }
}
