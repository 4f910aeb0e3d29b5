//! Addresses in one form for both families: IPv4 is carried as an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2).
//!
//! One form means one hash table, one socket type and no branch per family outside the packet builders.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use zerocopy::FromZeros;

/// An IPv4 (mapped) or IPv6 address, in network byte order.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(transparent)]
pub struct Address(pub [u8; 16]);

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

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, FromZeros)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

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
    pub const fn family(self) -> Family {
        if self.to_v4().is_some() { Family::V4 } else { Family::V6 }
    }

    /// The four octets if this is an IPv4 address.
    #[must_use]
    pub const fn to_v4(self) -> Option<[u8; 4]> {
        match self.0 {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// Whether this is `0.0.0.0` or `::`.
    #[must_use]
    pub fn is_unspecified(self) -> bool {
        self == Self::ANY || self == Self::ANY_V4
    }

    /// Whether this is a multicast group of its family.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        match self.to_v4() {
            Some([a, ..]) => a >> 4 == 0xe,
            None => self.0[0] == 0xff,
        }
    }

    /// Whether this is `255.255.255.255`. (A subnet's broadcast address is known to the host only.)
    #[must_use]
    pub const fn is_limited_broadcast(self) -> bool {
        matches!(self.to_v4(), Some([255, 255, 255, 255]))
    }

    /// Whether this is a loopback address.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        match self.to_v4() {
            Some([a, ..]) => a == 127,
            None => Ipv6Addr::from(self.0).is_loopback(),
        }
    }

    /// Whether this is an IPv6 link-local unicast address (fe80::/10), whose meaning depends on the interface.
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
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
