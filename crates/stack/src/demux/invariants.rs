//! Invariants of the lookup tables of sockets: see [`Stack::check_invariants`].

use super::protocol_of;
use crate::addr::Endpoint;
use crate::pool::invariants::chains;
use crate::{SocketIndex, Stack};

/// How a socket is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By no packet: it is not open to packets yet, or not any more.
    None,
    /// By packets of a single peer.
    Connected(Endpoint, Endpoint),
    /// By packets to a port.
    Bound(Endpoint),
}

/// How many sockets must be in each table.
#[derive(Debug, Default)]
pub(crate) struct Found {
    connected: usize,
    bound: usize,
}

impl Stack<'_> {
    /// Checks that a socket is found in this way.
    pub(crate) fn check_way(&self, socket: impl Into<SocketIndex>, way: Way, found: &mut Found) {
        let socket = socket.into();
        let protocol = protocol_of(socket);
        match way {
            Way::None => {}
            Way::Connected(local, remote) => {
                found.connected += 1;
                let who = self.find_connected(protocol, local, remote);
                assert_eq!(who, Some(socket), "the socket that is found from {local:?} to {remote:?}");
            }
            Way::Bound(local) => {
                found.bound += 1;
                let slot = self.slot_of(socket).map(|slot| slot as u32);
                let is_found = self.bound_to(protocol, local).any(|(bound, _)| Some(bound) == slot);
                assert!(is_found, "{socket:?} is not found at {local:?}");
            }
        }
    }

    /// Checks that the tables contain no other sockets.
    pub(crate) fn check_tables(&self, found: &Found) {
        let nodes = &self.mem.nodes;
        let all = |table: &[_], what| {
            chains(table, nodes.len(), |slot, _| {
                let socket = self.socket_of_slot(slot as usize).expect("a slot of a socket");
                assert!(self.is_open(socket), "{socket:?} is found among the {what}, and not open");
                nodes[slot as usize].next
            })
        };
        let places = (all(self.mem.connected, "connected"), all(self.mem.bound, "bound"));
        assert_eq!(places, (found.connected, found.bound), "places of connected and of bound sockets");
    }
}
