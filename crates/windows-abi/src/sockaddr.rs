//! Addresses as Windows stores them (`SOCKADDR_INET`, which is `SOCKADDR_IN` or `SOCKADDR_IN6`).

use std::mem::{size_of, zeroed};
use tickwire_stack::addr::{Address, Endpoint, Family};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET};

/// No address, with room for one: of no family.
#[must_use]
pub fn none() -> SOCKADDR_INET {
    // SAFETY: all-zero is a valid value of each variant.
    unsafe { zeroed() }
}

/// An address of Windows; `None` if it is of another family than IPv4 and IPv6.
#[must_use]
pub fn address(from: &SOCKADDR_INET) -> Option<Address> {
    // SAFETY: the family is the first field of all variants, and any bits are a number.
    match unsafe { from.si_family } {
        // SAFETY: the family says that it is this variant; any bits are an address.
        AF_INET => Some(Address::v4(unsafe { from.Ipv4.sin_addr.S_un.S_addr }.to_ne_bytes())),
        // SAFETY: as above.
        AF_INET6 => Some(Address(unsafe { from.Ipv6.sin6_addr.u.Byte })),
        _ => None,
    }
}

/// An address and port of Windows; `None` as with [`address`].
#[must_use]
pub fn endpoint(from: &SOCKADDR_INET) -> Option<Endpoint> {
    // SAFETY: both variants have their port at the same place, and any bits are a number.
    let port = u16::from_be(unsafe { from.Ipv4.sin_port });
    address(from).map(|address| Endpoint::new(address, port))
}

/// An address for Windows, with port 0. One of IPv6 that is link-local has the number of its
/// interface as zone, if that is not 0.
#[must_use]
pub fn from_address(address: Address, zone: u32) -> SOCKADDR_INET {
    let mut made = none();
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

/// An address and port for Windows, and how many bytes of it count.
#[must_use]
pub fn from_endpoint(endpoint: Endpoint, zone: u32) -> (SOCKADDR_INET, i32) {
    let mut made = from_address(endpoint.address, zone);
    made.Ipv4.sin_port = endpoint.port.to_be();
    (made, size(endpoint.address.family()) as i32)
}

/// An address and port as a socket of this family has them: one of IPv6 has addresses of IPv4
/// mapped (RFC 4291). And how many bytes count.
#[must_use]
pub fn for_socket(family: Family, endpoint: Endpoint) -> (SOCKADDR_INET, i32) {
    let (mut made, mut len) = from_endpoint(endpoint, 0);
    if family == Family::V6 && endpoint.address.to_v4().is_some() {
        let address = if endpoint.address.is_unspecified() { Address::ANY } else { endpoint.address };
        made = none();
        made.Ipv6.sin6_family = AF_INET6;
        made.Ipv6.sin6_addr.u.Byte = address.0;
        made.Ipv6.sin6_port = endpoint.port.to_be();
        len = size(family) as i32;
    }
    (made, len)
}

/// Bytes of an address of this family.
#[must_use]
pub const fn size(family: Family) -> usize {
    match family {
        Family::V4 => size_of::<SOCKADDR_IN>(),
        Family::V6 => size_of::<SOCKADDR_IN6>(),
    }
}

/// The family's number.
#[must_use]
pub const fn family_number(family: Family) -> u16 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

/// The family of this number.
#[must_use]
pub const fn family(number: u16) -> Option<Family> {
    match number {
        AF_INET => Some(Family::V4),
        AF_INET6 => Some(Family::V6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_ipv6_has_addresses_of_ipv4_mapped() {
        let there = Endpoint::new(Address::v4([10, 1, 2, 3]), 80);
        let (made, len) = for_socket(Family::V6, there);
        // SAFETY: any bits are a number.
        assert_eq!((unsafe { made.si_family }, len, endpoint(&made)), (AF_INET6, 28, Some(there)));
        let (made, len) = for_socket(Family::V6, Endpoint::new(Address::ANY_V4, 80));
        assert_eq!((address(&made), len), (Some(Address::ANY), 28));
        let (made, len) = for_socket(Family::V4, there);
        assert_eq!((endpoint(&made), len), (Some(there), 16));
    }

    #[test]
    fn addresses_and_ports_come_back_as_they_were() {
        let link_local = Address([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        for given in [Address::v4([10, 1, 2, 3]), Address::ANY_V4, Address::ANY, link_local] {
            assert_eq!(address(&from_address(given, 3)), Some(given));
            let there = Endpoint::new(given, 0x1234);
            let (made, size) = from_endpoint(there, 0);
            assert_eq!((endpoint(&made), size), (Some(there), if given.to_v4().is_some() { 16 } else { 28 }));
        }
        assert_eq!((address(&none()), endpoint(&none())), (None, None), "no family");
        for known in [Family::V4, Family::V6] {
            assert_eq!(family(family_number(known)), Some(known));
        }
        assert_eq!(family(1), None);
    }

    #[test]
    fn any_bytes_are_an_address_that_comes_back_or_none() {
        // SplitMix64, so that the bytes are the same each time.
        let mut seed = 35_u64;
        let mut random = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
        };
        let (mut known, mut unknown) = (0, 0);
        for round in 0..10_000_u16 {
            let mut bytes: [u64; 4] = std::array::from_fn(|_| random());
            // Often one of the two families, mostly in small numbers otherwise.
            let number = [AF_INET, AF_INET6, round, (random() >> 48) as u16][usize::from(round % 4)];
            bytes[0] = bytes[0] & !0xffff | u64::from(number);
            let mut given = none();
            // SAFETY: as many bytes as there is room for; any bits are a value of some variant.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), &raw mut given, 1) };
            let found = endpoint(&given);
            assert_eq!(
                (found.is_some(), address(&given)),
                (family(number).is_some(), found.map(|found| found.address))
            );
            let Some(found) = found else {
                unknown += 1;
                continue;
            };
            known += 1;
            let (made, size) = from_endpoint(found, 7);
            assert_eq!(endpoint(&made), Some(found));
            assert!(size as usize <= size_of::<SOCKADDR_INET>());
            for of in [Family::V4, Family::V6] {
                let (made, size) = for_socket(of, found);
                assert!(endpoint(&made).is_some() && size as usize <= size_of::<SOCKADDR_INET>());
            }
        }
        assert!(known > 5000 && unknown > 2000, "{known} and {unknown}");
    }
}
