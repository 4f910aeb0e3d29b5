//! Neighbours: the link-layer addresses behind addresses on a link. The kernel resolves them (ARP,
//! neighbour discovery); this module reads its table and triggers resolution.

use crate::RouteNetlink;
use crate::error::Result;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::IpAddr;
use tickwire_stack::addr::{Address, Family, Mac};

/// The kernel's state of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// Recently confirmed, or permanent.
    Fresh,
    /// Known, but not confirmed for a while: usable, and worth confirming (RFC 4861 §7.3.2 STALE,
    /// DELAY, PROBE).
    Stale,
    /// Being resolved.
    Resolving,
    /// No answer was received.
    Failed,
}

/// An entry of the kernel's neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface's index.
    pub interface: u32,
    /// The neighbour's address.
    pub address: Address,
    /// Its Ethernet address, if known.
    pub mac: Option<Mac>,
    /// Whether it can be used.
    pub state: Reachability,
}

impl Neighbour {
    pub(crate) fn parse(message: &NeighbourMessage) -> Option<Self> {
        let (mut address, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => address = Some(Address::from(*v4)),
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => address = Some(Address::from(*v6)),
                NeighbourAttribute::LinkLayerAddress(bytes) => {
                    mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac);
                }
                _ => {}
            }
        }
        let state = match message.header.state {
            NeighbourState::Reachable | NeighbourState::Permanent | NeighbourState::Noarp => Reachability::Fresh,
            NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => Reachability::Stale,
            NeighbourState::Failed => Reachability::Failed,
            _ => Reachability::Resolving,
        };
        Some(Self { interface: message.header.ifindex, address: address?, mac, state })
    }

    /// The Ethernet address, if packets may be sent to it now.
    #[must_use]
    pub fn usable(&self) -> Option<Mac> {
        matches!(self.state, Reachability::Fresh | Reachability::Stale).then_some(self.mac).flatten()
    }
}

fn message(interface: u32, address: Address) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = match address.family() {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    message.header.ifindex = interface;
    message.attributes.push(NeighbourAttribute::Destination(IpAddr::from(address).into()));
    message
}

impl RouteNetlink {
    /// Looks a neighbour up in the kernel's table; `None` if it has no entry.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn neighbour(&mut self, interface: u32, address: Address) -> Result<Option<Neighbour>> {
        let question = RouteNetlinkMessage::GetNeighbour(message(interface, address));
        match self.netlink.ask("look up a neighbour", question) {
            Ok(answers) => Ok(answers.iter().find_map(|m| match m {
                RouteNetlinkMessage::NewNeighbour(neighbour) => Neighbour::parse(neighbour),
                _ => None,
            })),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells the kernel that a neighbour is in use (`NTF_USE`), as a packet of the kernel's own
    /// would: an unknown one is resolved, a stale one confirmed. The outcome arrives as an event.
    ///
    /// # Errors
    /// If the kernel refuses (the interface is gone or down).
    pub fn probe(&mut self, interface: u32, address: Address) -> Result<()> {
        let mut order = message(interface, address);
        order.header.flags = NeighbourFlags::Use;
        order.header.state = NeighbourState::None;
        self.netlink.order(
            "resolve a neighbour",
            RouteNetlinkMessage::NewNeighbour(order),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(state: NeighbourState, mac: Option<Vec<u8>>) -> Neighbour {
        let mut m = message(4, Address::v4([10, 0, 0, 9]));
        m.header.state = state;
        m.attributes.extend(mac.map(NeighbourAttribute::LinkLayerAddress));
        Neighbour::parse(&m).unwrap()
    }

    #[test]
    fn only_known_neighbours_are_usable() {
        let mac = vec![2, 0, 0, 0, 0, 9];
        assert_eq!(parsed(NeighbourState::Reachable, Some(mac.clone())).usable(), Some(Mac([2, 0, 0, 0, 0, 9])));
        assert_eq!(parsed(NeighbourState::Stale, Some(mac.clone())).usable(), Some(Mac([2, 0, 0, 0, 0, 9])));
        assert_eq!(parsed(NeighbourState::Incomplete, None).usable(), None);
        assert_eq!(parsed(NeighbourState::Failed, Some(mac)).usable(), None);
        assert_eq!(parsed(NeighbourState::Reachable, Some(vec![1, 2, 3])).usable(), None, "not an Ethernet address");
    }
}
