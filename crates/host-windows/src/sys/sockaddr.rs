//! Addresses as Windows stores them (`SOCKADDR_INET`).

use std::mem::zeroed;
use tickwire_stack::addr::{Address, Family};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, SOCKADDR_INET};

/// An address of Windows; `None` if it is of another family.
pub(super) fn to_address(from: &SOCKADDR_INET) -> Option<Address> {
    // SAFETY: the family is the first field of all variants, and any bits are a number.
    match unsafe { from.si_family } {
        // SAFETY: the family says that it is this variant; any bits are an address.
        AF_INET => Some(Address::v4(unsafe { from.Ipv4.sin_addr.S_un.S_addr }.to_ne_bytes())),
        // SAFETY: as above.
        AF_INET6 => Some(Address(unsafe { from.Ipv6.sin6_addr.u.Byte })),
        _ => None,
    }
}

/// An address for Windows, with port 0. An IPv6 address has the number of its interface as zone if
/// that is not 0.
pub(super) fn from_address(address: Address, zone: u32) -> SOCKADDR_INET {
    // SAFETY: all-zero is a valid value of each variant.
    let mut made: SOCKADDR_INET = unsafe { zeroed() };
    match address.to_v4() {
        Some(octets) => {
            made.Ipv4.sin_family = AF_INET;
            made.Ipv4.sin_addr.S_un.S_addr = u32::from_ne_bytes(octets);
        }
        None => {
            made.Ipv6.sin6_family = AF_INET6;
            made.Ipv6.sin6_addr.u.Byte = address.0;
            if address.is_link_local() {
                made.Ipv6.Anonymous.sin6_scope_id = zone;
            }
        }
    }
    made
}

/// The family's number.
pub(super) const fn family_number(family: Family) -> u16 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::address;

    #[test]
    fn addresses_come_back_as_they_were() {
        for text in ["10.1.2.3", "0.0.0.0", "::", "2001:db8::9", "fe80::1"] {
            assert_eq!(to_address(&from_address(address(text), 3)), Some(address(text)));
        }
        // SAFETY: all-zero is a valid value.
        assert_eq!(to_address(&unsafe { zeroed() }), None, "no family");
    }
}
