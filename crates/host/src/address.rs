//! Addresses of the host's interfaces.

use crate::RouteNetlink;
use crate::error::Result;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use tickwire_stack::addr::Address;

/// An address on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceAddress {
    /// The interface's index.
    pub interface: u32,
    /// The address.
    pub address: Address,
    /// Length of its subnet's prefix, in bits of its own family.
    pub prefix: u8,
    /// Whether it may be used: duplicate address detection is complete and was passed (RFC 4862
    /// §5.4).
    pub usable: bool,
}

impl InterfaceAddress {
    /// Reads an address message; `None` if it carries no unicast address.
    pub(crate) fn parse(message: &AddressMessage) -> Option<Self> {
        let mut flags = message.header.flags.contains(AddressHeaderFlags::Tentative)
            && !message.header.flags.contains(AddressHeaderFlags::Optimistic);
        flags |= message.header.flags.contains(AddressHeaderFlags::Dadfailed);
        let (mut local, mut address) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                // On point-to-point links `Address` is the peer's and `Local` is this host's;
                // elsewhere they are the same.
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                AddressAttribute::Flags(all) => {
                    flags = all.contains(AddressFlags::Dadfailed)
                        || all.contains(AddressFlags::Tentative) && !all.contains(AddressFlags::Optimistic);
                }
                _ => {}
            }
        }
        let address = Address::from(local.or(address)?);
        Some(Self { interface: message.header.index, address, prefix: message.header.prefix_len, usable: !flags })
    }
}

impl RouteNetlink {
    /// All addresses of all interfaces, of both families.
    ///
    /// # Errors
    /// If the kernel refuses or its answer cannot be read.
    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>> {
        let what = "list addresses";
        let answers = self.netlink.dump(what, &RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        Ok(answers
            .iter()
            .filter_map(|m| match m {
                RouteNetlinkMessage::NewAddress(address) => InterfaceAddress::parse(address),
                _ => None,
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn message(attributes: Vec<AddressAttribute>) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.index = 7;
        message.header.prefix_len = 24;
        message.attributes = attributes;
        message
    }

    #[test]
    fn our_own_end_of_a_point_to_point_link_counts() {
        let peer = AddressAttribute::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        let ours = AddressAttribute::Local(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        let parsed = InterfaceAddress::parse(&message(vec![peer, ours])).unwrap();
        assert_eq!(parsed.address, Address::v4([10, 0, 0, 1]));
        assert!(parsed.usable);
        assert_eq!(InterfaceAddress::parse(&message(vec![])), None);
    }

    #[test]
    fn tentative_addresses_are_not_usable() {
        let address = AddressAttribute::Address(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)));
        for (flags, usable) in [
            (AddressFlags::Tentative, false),
            (AddressFlags::Dadfailed, false),
            (AddressFlags::Tentative | AddressFlags::Optimistic, true),
            (AddressFlags::Permanent, true),
        ] {
            let parsed = InterfaceAddress::parse(&message(vec![address.clone(), AddressAttribute::Flags(flags)]));
            assert_eq!(parsed.unwrap().usable, usable, "{flags:?}");
        }
    }
}
