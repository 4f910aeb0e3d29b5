//! Socket addresses (`struct sockaddr_in`, `struct sockaddr_in6`) as bytes, and [`Endpoint`].

use core::ffi::c_int;
use tickwire_stack::addr::{Address, Endpoint};

/// The longest address of an IP socket (`struct sockaddr_in6`).
pub const MAX_NAME: usize = 28;

/// The longest address of any socket (`struct sockaddr_storage`).
pub const STORAGE: usize = 128;

/// `sizeof(struct sockaddr_in)`, which the kernel requires.
const V4_LEN: usize = 16;

/// What the kernel requires of an IPv6 address (`SIN6_LEN_RFC2133`): without a scope.
const V6_LEAST: usize = 24;

/// The least length of an address that a TCP socket of IPv4 or IPv6 takes. `bind` and `connect`
/// compare it before the family: a shorter address of any family is `EINVAL`. An exception is
/// `AF_UNSPEC` in `connect`. (A UDP socket of IPv6 also takes an address of IPv4.)
#[must_use]
pub const fn least_len(v6: bool) -> usize {
    if v6 { V6_LEAST } else { V4_LEN }
}

/// A socket address that a program, or the kernel, gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketName {
    /// `AF_UNSPEC`: dissolve the association.
    Unspecified,
    /// An IPv4 or IPv6 address.
    Inet {
        /// Address and port.
        endpoint: Endpoint,
        /// The interface of an address that is only valid on one link, or 0.
        scope: u32,
        /// The structure was that of IPv6; the address may be an IPv4 one (mapped) all the same.
        v6: bool,
    },
    /// Fewer bytes than the family requires, or than a family has. The kernel refuses it
    /// (`EINVAL`).
    Short,
    /// Another family. The kernel refuses it (`EAFNOSUPPORT`).
    Other,
}

impl SocketName {
    /// The address in these bytes.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(family) = bytes.first_chunk().map(|family| c_int::from(u16::from_ne_bytes(*family))) else {
            return Self::Short;
        };
        match family {
            libc::AF_UNSPEC => Self::Unspecified,
            libc::AF_INET => Self::parse_v4(bytes).unwrap_or(Self::Short),
            libc::AF_INET6 => Self::parse_v6(bytes).unwrap_or(Self::Short),
            _ => Self::Other,
        }
    }

    fn parse_v4(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; V4_LEN] = bytes.first_chunk()?;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let address = Address::v4([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Some(Self::Inet { endpoint: Endpoint::new(address, port), scope: 0, v6: false })
    }

    fn parse_v6(bytes: &[u8]) -> Option<Self> {
        let least: &[u8; V6_LEAST] = bytes.first_chunk()?;
        let port = u16::from_be_bytes([least[2], least[3]]);
        let address = Address(*least.last_chunk()?);
        let scope = bytes[V6_LEAST..].first_chunk().map_or(0, |scope| u32::from_ne_bytes(*scope));
        Some(Self::Inet { endpoint: Endpoint::new(address, port), scope, v6: true })
    }
}

/// The address as a socket of IPv4 or IPv6 reports it: its bytes, and how many of them count.
/// `scope` is the interface of a link-local address.
#[must_use]
#[inline]
pub fn emit(endpoint: Endpoint, v6: bool, scope: u32) -> ([u8; MAX_NAME], usize) {
    let mut bytes = [0; MAX_NAME];
    bytes[2..4].copy_from_slice(&endpoint.port.to_be_bytes());
    if v6 {
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&endpoint.address.0);
        if endpoint.address.is_link_local() {
            bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
        }
        (bytes, MAX_NAME)
    } else {
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&endpoint.address.to_v4().unwrap_or_default());
        (bytes, V4_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 7]), 4660);
    const LINK_LOCAL: Endpoint = Endpoint::new(Address([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]), 7);

    #[test]
    fn the_layout_is_that_of_linux() {
        let (bytes, len) = emit(V4, false, 3);
        assert_eq!(bytes[..len], [2, 0, 0x12, 0x34, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (bytes, len) = emit(LINK_LOCAL, true, 3);
        assert_eq!(
            bytes[..len],
            [10, 0, 0, 7, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 3, 0, 0, 0]
        );
    }

    #[test]
    fn addresses_come_back_as_they_were() {
        for (endpoint, v6, scope, back) in [
            (V4, false, 0, 0),
            (V4, true, 3, 0),
            (LINK_LOCAL, true, 3, 3),
            (Endpoint::new(Address::ANY, 443), true, 3, 0),
        ] {
            let (bytes, len) = emit(endpoint, v6, scope);
            assert_eq!(SocketName::parse(&bytes[..len]), SocketName::Inet { endpoint, scope: back, v6 });
        }
    }

    #[test]
    fn a_socket_of_ipv4_has_no_other_address() {
        let (bytes, len) = emit(LINK_LOCAL, false, 3);
        let endpoint = Endpoint::new(Address::ANY_V4, 7);
        assert_eq!(SocketName::parse(&bytes[..len]), SocketName::Inet { endpoint, scope: 0, v6: false });
    }

    #[test]
    fn the_scope_may_be_missing() {
        let (bytes, _) = emit(LINK_LOCAL, true, 3);
        for len in 24..28 {
            let short = SocketName::Inet { endpoint: LINK_LOCAL, scope: 0, v6: true };
            assert_eq!(SocketName::parse(&bytes[..len]), short, "{len}");
        }
    }

    #[test]
    fn what_is_too_short_or_of_another_family_is_no_address() {
        for (name, v6, least) in [(V4, false, 16), (LINK_LOCAL, true, 24)] {
            assert_eq!(least_len(v6), least);
            let (bytes, _) = emit(name, v6, 0);
            for len in 0..least {
                assert_eq!(SocketName::parse(&bytes[..len]), SocketName::Short, "{len}");
            }
        }
        assert_eq!(SocketName::parse(&[1, 0, b'/', b'x', 0, 0, 0, 0]), SocketName::Other, "AF_UNIX");
        assert_eq!(SocketName::parse(&[0, 0]), SocketName::Unspecified);
    }

    #[test]
    fn any_bytes_of_any_length_are_read() {
        for family in 0..=u16::MAX {
            let mut bytes = [0xa5; STORAGE];
            bytes[..2].copy_from_slice(&family.to_ne_bytes());
            for len in [2, 15, 16, 23, 24, 27, 28, STORAGE] {
                let is_inet = matches!(SocketName::parse(&bytes[..len]), SocketName::Inet { .. });
                assert_eq!(is_inet, family == 2 && len >= 16 || family == 10 && len >= 24, "{family} {len}");
            }
        }
    }
}
