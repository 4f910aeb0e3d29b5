//! Addresses in one form for both families: IPv4 is represented as an IPv4-mapped IPv6 address (RFC
//! 4291 §2.5.5.2).
//!
//! One form means one hash table, one socket type and no branch per family outside of the packet
//! builders.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use zerocopy::FromZeros;

/// An IPv4 (mapped) or IPv6 address, in network byte order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(transparent)]
pub struct Address(pub [u8; 16]);

shared_layout! { Address { 0 } }

/// The two address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An address and a port (host byte order).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(C)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// The port, in host byte order; 0 is "any" or "none".
    pub port: u16,
}

shared_layout! { Endpoint { address, port } }

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

shared_layout! { Mac { 0 } }

impl Address {
    /// `::`, which on a dual-stack socket means "any address of either family".
    pub const ANY: Self = Self([0; 16]);
    /// `::ffff:0.0.0.0`: any IPv4 address.
    pub const ANY_V4: Self = Self::v4([0; 4]);

    /// An IPv4 address.
    #[must_use]
    pub const fn v4(octets: [u8; 4]) -> Self {
        let [a, b, c, d] = octets;
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// The family this address belongs to; `::` is IPv6.
    #[must_use]
    #[inline]
    pub const fn family(self) -> Family {
        if self.to_v4().is_some() { Family::V4 } else { Family::V6 }
    }

    /// The four octets if this is an IPv4 address.
    #[must_use]
    #[inline]
    pub const fn to_v4(self) -> Option<[u8; 4]> {
        // As one number: this is called several times per packet.
        let number = u128::from_be_bytes(self.0);
        if number >> 32 == 0xffff { Some((number as u32).to_be_bytes()) } else { None }
    }

    /// Whether this is `0.0.0.0` or `::`.
    #[must_use]
    #[inline]
    pub fn is_unspecified(self) -> bool {
        self == Self::ANY || self == Self::ANY_V4
    }

    /// Whether this is a multicast group of its family.
    #[must_use]
    #[inline]
    pub const fn is_multicast(self) -> bool {
        match self.to_v4() {
            Some([a, ..]) => a >> 4 == 0xe,
            None => self.0[0] == 0xff,
        }
    }

    /// Whether this is `255.255.255.255`. (A subnet's broadcast address is known to the host only.)
    #[must_use]
    #[inline]
    pub const fn is_limited_broadcast(self) -> bool {
        matches!(self.to_v4(), Some([255, 255, 255, 255]))
    }

    /// Whether this is a loopback address.
    #[must_use]
    #[inline]
    pub fn is_loopback(self) -> bool {
        match self.to_v4() {
            Some([a, ..]) => a == 127,
            None => u128::from_be_bytes(self.0) == 1,
        }
    }

    /// Whether this is an IPv6 link-local unicast address (fe80::/10), whose meaning depends on the
    /// interface.
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// Whether this is an IPv6 group with link-local or interface-local scope (RFC 4291 §2.7).
    #[must_use]
    pub const fn is_link_local_group(self) -> bool {
        self.0[0] == 0xff && matches!(self.0[1] & 15, 1 | 2)
    }

    /// The Ethernet address of a multicast group (RFC 1112 §6.4, RFC 2464 §7).
    #[must_use]
    pub const fn multicast_mac(self) -> Mac {
        match self.to_v4() {
            Some([_, b, c, d]) => Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
            None => {
                let a = self.0;
                Mac([0x33, 0x33, a[12], a[13], a[14], a[15]])
            }
        }
    }
}

impl Endpoint {
    /// An endpoint.
    #[must_use]
    pub const fn new(address: Address, port: u16) -> Self {
        Self { address, port }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl From<Ipv4Addr> for Address {
    fn from(ip: Ipv4Addr) -> Self {
        Self::v4(ip.octets())
    }
}

impl From<Ipv6Addr> for Address {
    fn from(ip: Ipv6Addr) -> Self {
        Self(ip.octets())
    }
}

impl From<Address> for IpAddr {
    fn from(a: Address) -> Self {
        match a.to_v4() {
            Some(octets) => Self::V4(octets.into()),
            None => Self::V6(a.0.into()),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(s: SocketAddr) -> Self {
        Self::new(s.ip().into(), s.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(e: Endpoint) -> Self {
        Self::new(e.address.into(), e.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_told_apart_and_come_back_as_they_went_in() {
        for text in ["0.0.0.0", "10.1.2.3", "127.9.9.9", "224.0.0.1", "255.255.255.255"] {
            let address = Address::from(text.parse::<IpAddr>().unwrap());
            assert_eq!((address.family(), address.to_string()), (Family::V4, text.to_string()));
        }
        for text in ["::", "::1", "fe80::1", "fd00::ffff:a01:203", "ff02::1"] {
            let address = Address::from(text.parse::<IpAddr>().unwrap());
            assert_eq!((address.family(), address.to_string()), (Family::V6, text.to_string()));
        }
    }

    #[test]
    fn special_addresses_are_known() {
        let address = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
        let all =
            ["0.0.0.0", "::", "127.1.2.3", "::1", "239.1.1.1", "ff05::2", "255.255.255.255", "fe80::9", "10.0.0.1"];
        let which = |test: fn(Address) -> bool| all.into_iter().filter(|a| test(address(a))).collect::<Vec<_>>();
        assert_eq!(which(Address::is_unspecified), ["0.0.0.0", "::"]);
        assert_eq!(which(Address::is_loopback), ["127.1.2.3", "::1"]);
        assert_eq!(which(Address::is_multicast), ["239.1.1.1", "ff05::2"]);
        assert_eq!(which(Address::is_limited_broadcast), ["255.255.255.255"]);
        assert_eq!(which(Address::is_link_local), ["fe80::9"]);
        assert_eq!(address("239.129.2.3").multicast_mac(), Mac([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(address("ff05::1:2").multicast_mac(), Mac([0x33, 0x33, 0, 1, 0, 2]));
    }
}
