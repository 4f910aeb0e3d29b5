//! The addresses of the interfaces.

use crate::prefix::IpPrefix;
use tickwire_stack::addr::Address;

/// A unicast address of an interface that packets may be received at now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnicastAddress {
    /// The interface's index.
    pub interface: u32,
    /// The address.
    pub address: Address,
    /// The length of the prefix of its subnet, in bits.
    pub prefix_length: u8,
    /// Not to be chosen for new connections (RFC 4862 §5.5.4).
    pub is_deprecated: bool,
    /// A temporary address (RFC 8981).
    pub is_temporary: bool,
    /// The administrator excludes it from selection: only programs that bind to it use it.
    pub is_skipped: bool,
}

impl UnicastAddress {
    /// The subnet; `None` if the prefix length is none of the family.
    #[must_use]
    pub fn subnet(&self) -> Option<IpPrefix> {
        IpPrefix::new(self.address, self.prefix_length)
    }

    /// The broadcast address of the subnet (IPv4). Subnets of one or two addresses have none
    /// (RFC 3021).
    #[must_use]
    pub fn broadcast(&self) -> Option<Address> {
        let own = u32::from_be_bytes(self.address.to_v4()?);
        let hosts = u32::MAX.checked_shr(self.prefix_length.into())?;
        (self.prefix_length < 31).then(|| Address::v4((own | hosts).to_be_bytes()))
    }
}

/// What the state of duplicate address detection (`NL_DAD_STATE`) says: `None` if the address is
/// not usable (invalid, tentative, duplicate), else whether it is deprecated.
#[cfg_attr(not(windows), allow(dead_code, reason = "only the system's tables have these numbers"))]
pub(crate) const fn deprecated(dad_state: i32) -> Option<bool> {
    match dad_state {
        3 => Some(true),
        4 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::{address, own};

    #[test]
    fn subnets_of_ipv4_have_a_broadcast_address() {
        let broadcast = |text, length| own(1, text, length).broadcast();
        assert_eq!(broadcast("10.1.2.3", 24), Some(address("10.1.2.255")));
        assert_eq!(broadcast("10.1.2.3", 30), Some(address("10.1.2.3")));
        assert_eq!(broadcast("10.1.2.3", 0), Some(address("255.255.255.255")));
        assert_eq!(broadcast("10.1.2.3", 31), None);
        assert_eq!(broadcast("10.1.2.3", 32), None);
        assert_eq!(broadcast("10.1.2.3", 255), None, "no prefix length");
        assert_eq!(broadcast("2001:db8::1", 24), None);
    }

    #[test]
    fn tentative_and_duplicate_addresses_are_not_usable() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(deprecated), [None, None, None, Some(true), Some(false), None]);
    }
}
