//! Network interfaces: their names, Ethernet addresses, MTUs and states.

use tickwire_stack::addr::{Family, Mac};

/// What an interface is (IANA's ifType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// Wired Ethernet, and virtual adapters that present themselves as such.
    Ethernet,
    /// Wireless LAN. Windows presents it to protocols as Ethernet.
    Wireless,
    /// The host's own loopback.
    Loopback,
    /// Another type, by its number.
    Other(u32),
}

impl InterfaceKind {
    /// The kind with an ifType number (RFC 2863; Windows' `IF_TYPE_*`).
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            6 => Self::Ethernet,
            71 => Self::Wireless,
            24 => Self::Loopback,
            other => Self::Other(other),
        }
    }
}

/// What one IP family uses on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilySettings {
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Added to the metric of each route by this interface.
    pub metric: u32,
    /// Whether packets from one of its addresses may leave by another interface (RFC 1122 §3.3.4.2:
    /// weak host model). Windows' default is no.
    pub weak_host_send: bool,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// Its index. Windows may give it to another interface after a restart.
    pub index: u32,
    /// Its LUID (`NET_LUID`), which stays the same after a restart.
    pub luid: u64,
    /// Its name for users, such as `Ethernet 2`, which they may change.
    pub alias: String,
    /// The adapter's description, such as its product name.
    pub description: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Its Ethernet address, if it has one of six bytes that is not zero.
    pub mac: Option<Mac>,
    /// Whether packets can be sent by it: enabled and connected.
    pub is_up: bool,
    /// Its settings for IPv4; `None` if it has no IPv4.
    pub v4: Option<FamilySettings>,
    /// Its settings for IPv6; `None` if it has no IPv6.
    pub v6: Option<FamilySettings>,
}

impl HostInterface {
    /// Its settings for a family; `None` if it does not have the family.
    #[must_use]
    pub const fn settings(&self, family: Family) -> Option<FamilySettings> {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }

    /// The Ethernet address, if its packets are Ethernet frames to the protocols above.
    #[must_use]
    pub fn ethernet(&self) -> Option<Mac> {
        let is_ethernet = matches!(self.kind, InterfaceKind::Ethernet | InterfaceKind::Wireless);
        self.mac.filter(|_| is_ethernet)
    }

    /// Whether it is the host's loopback.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.kind == InterfaceKind::Loopback
    }
}

/// The smallest MTU that a family allows (RFC 791, RFC 8200 §5), in bytes.
pub(crate) const fn minimum_mtu(family: Family) -> u32 {
    match family {
        Family::V4 => 68,
        Family::V6 => 1280,
    }
}

/// A link-layer address as an Ethernet address, if it is one.
#[cfg_attr(not(windows), allow(dead_code, reason = "only the system's tables have raw addresses"))]
pub(crate) fn ethernet_address(bytes: &[u8]) -> Option<Mac> {
    <[u8; 6]>::try_from(bytes).ok().filter(|bytes| *bytes != [0; 6]).map(Mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_six_bytes_that_are_not_zero_are_an_ethernet_address() {
        assert_eq!(ethernet_address(&[2, 0, 0, 0, 0, 1]), Some(Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!(ethernet_address(&[0; 6]), None);
        assert_eq!(ethernet_address(&[1; 8]), None);
        assert_eq!(ethernet_address(&[]), None);
    }

    #[test]
    fn kinds_go_by_the_numbers_of_iana() {
        assert_eq!(InterfaceKind::from_number(6), InterfaceKind::Ethernet);
        assert_eq!(InterfaceKind::from_number(24), InterfaceKind::Loopback);
        assert_eq!(InterfaceKind::from_number(71), InterfaceKind::Wireless);
        assert_eq!(InterfaceKind::from_number(131), InterfaceKind::Other(131));
    }
}
