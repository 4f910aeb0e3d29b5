//! What the host said about reaching a destination. The stack never routes or resolves by itself
//! (rule 1): it asks for a path and is told one.

use crate::addr::{Address, Mac};
use crate::pool::{Link, Slot};
use crate::queue::Queued;
use crate::time::Instant;
use zerocopy::FromZeros;

/// Whether packets can go out on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum PathState {
    /// The slot is free.
    #[default]
    Free = 0,
    /// The host is resolving the neighbour; packets wait.
    Resolving = 1,
    /// The neighbour is known.
    Ready = 2,
    /// The host gave up, or has no route.
    Unreachable = 3,
    /// This destination is reached by the kernel's stack only (loopback, own address, another
    /// interface).
    Kernel = 4,
}

/// What a path is looked up by: what the kernel's routes are looked up by, too. Another source
/// address may go by another router, or by another interface (`ip rule from`), and so may another
/// class of traffic (`ip rule tos`, `ip route add tos`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(C)]
pub struct Query {
    /// Where to.
    pub destination: Address,
    /// From which of the host's addresses; [`Address::ANY`] if the host may choose.
    pub source: Address,
    /// By which interface, as the host numbers them; 0 if the host may choose.
    pub interface: u32,
    /// The type of service (IPv4) or traffic class (IPv6), without the two bits of ECN.
    pub tos: u8,
}

impl Query {
    /// How the host reaches a destination, if nothing else is said.
    #[must_use]
    pub const fn to(destination: Address) -> Self {
        Self { destination, source: Address::ANY, interface: 0, tos: 0 }
    }

    /// How packets go from a source address. One that no packet can have, being unspecified or a
    /// group's, leaves the choice to the host.
    #[must_use]
    pub fn from(self, source: Address) -> Self {
        let source = if source.is_unspecified() || source.is_multicast() { Address::ANY } else { source };
        Self { source, ..self }
    }

    /// How they go by an interface; 0: the host may choose.
    #[must_use]
    pub const fn by(self, interface: u32) -> Self {
        Self { interface, ..self }
    }

    /// How packets with this type of service go.
    #[must_use]
    pub const fn of_service(self, tos: u8) -> Self {
        Self { tos: tos & !ECN, ..self }
    }
}

/// The bits of the type of service that are not the routes' concern (RFC 3168).
const ECN: u8 = 3;

/// What a route sets for what is sent on it (`ip route ... advmss`, Linux's `RTAX_*`); 0: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub struct Metrics {
    /// The least retransmission timeout beyond the round trip, in milliseconds.
    pub rto_min_ms: u16,
    /// Segments of a connection's first flight.
    pub initcwnd: u16,
    /// Segments that the peer's first flight may have.
    pub initrwnd: u16,
    /// The segment size to ask for.
    pub advmss: u16,
    /// Time to live (hop limit), for sockets for which the program has set none.
    pub hop_limit: u8,
    /// Each segment is acknowledged at once.
    pub quick_ack: bool,
}

impl Metrics {
    /// The time to live of a packet: what the program has set, else what the route has, else the
    /// default.
    #[must_use]
    pub const fn hops(&self, own: u8, set: bool) -> u8 {
        if set || self.hop_limit == 0 { own } else { self.hop_limit }
    }
}

/// The host's answer to a [`Query`].
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct PathInfo {
    /// What was asked.
    pub query: Query,
    /// The source address the host prefers for it.
    pub source: Address,
    /// The interface it leaves by; 0 if there is no route.
    pub interface: u32,
    /// Largest IP packet of the interface or route, in bytes.
    pub mtu: u32,
    /// Our own Ethernet address on that interface.
    pub source_mac: Mac,
    /// The Ethernet address of the next hop.
    pub next_hop_mac: Mac,
    /// Whether it can be used.
    pub state: PathState,
    /// What its route sets.
    pub metrics: Metrics,
    /// The source address if the host was asked without one and packets from this one go the same
    /// way; [`Address::ANY`] if that was not looked at, or they do not.
    pub chosen: Address,
}

impl PathInfo {
    /// The same way from the source address that was chosen, if it is the same.
    #[must_use]
    pub fn from_chosen(&self) -> Option<Self> {
        let own = |chosen| Self { query: self.query.from(chosen), chosen: Address::ANY, ..*self };
        (self.chosen != Address::ANY).then(|| own(self.chosen))
    }
}

/// [`Path::inferred`]: good enough to answer a SYN, and for nothing else: whoever is on the link
/// chooses it.
pub(crate) const GUESSED: u8 = 1;
/// [`Path::inferred`]: the host has been asked, but has not spoken yet.
pub(crate) const ASKED: u8 = 2;

/// A path in the lane's cache.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub struct Path {
    /// Chain of the hash bucket, or of the free list.
    pub link: Link,
    /// What the host said.
    pub info: PathInfo,
    /// Path MTU learnt by ICMP (RFC 1191, RFC 8201), 0 if none; never above `info.mtu`.
    pub pmtu: u32,
    /// When the learnt path MTU is forgotten (RFC 1191 §6.3: after ten minutes).
    pub pmtu_until: Instant,
    /// The same as UDP has heard it: nothing in what such an error quotes is hard to guess, so it
    /// does not concern TCP.
    pub udp_pmtu: u32,
    /// When that is forgotten.
    pub udp_pmtu_until: Instant,
    /// 0: the host's word. 1: only inferred from a packet that came in (its next hop is that
    /// packet's sender). 2: the host is asked, and packets wait for its word.
    pub inferred: u8,
    /// Whether it was used since the eviction hand last passed.
    pub used: u8,
    /// How many half-open connections use a guess.
    pub guests: u16,
    /// A router says that it carries even less than `pmtu`, the least that is believed: routers
    /// must be let fragment (IPv4).
    pub narrow: bool,
    /// The same as UDP has heard it.
    pub udp_narrow: bool,
    /// When it was entered or last asked for.
    pub asked: Instant,
    /// When the host last said that it is ready.
    pub found: Instant,
    /// First of the packets that wait for the neighbour.
    pub waiting_head: Link,
    /// Last of them.
    pub waiting_tail: Link,
    /// How many wait.
    pub waiting: u32,
}

/// A packet that waits for a neighbour. It keeps the packet's bounds as the transmit queue would.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Waiting {
    pub(crate) link: Link,
    pub(crate) packet: Queued,
}

impl Slot for Waiting {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Slot for Path {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Path {
    /// Takes over what was learnt of the MTU on another way to the same destination: routers are
    /// mostly the same.
    pub(crate) fn learn_from(&mut self, other: &Self) {
        if other.pmtu != 0 && (self.pmtu == 0 || other.pmtu < self.pmtu) {
            (self.pmtu, self.pmtu_until, self.narrow) = (other.pmtu, other.pmtu_until, other.narrow);
        }
        if other.udp_pmtu != 0 && (self.udp_pmtu == 0 || other.udp_pmtu < self.udp_pmtu) {
            (self.udp_pmtu, self.udp_pmtu_until, self.udp_narrow) =
                (other.udp_pmtu, other.udp_pmtu_until, other.udp_narrow);
        }
    }

    /// The largest IP packet that this path is known to carry at `now`, in bytes.
    #[must_use]
    pub fn mtu(&self, now: Instant) -> u32 {
        if self.pmtu != 0 && now < self.pmtu_until { self.pmtu.min(self.info.mtu) } else { self.info.mtu }
    }

    /// Whether packets must go without "don't fragment" at `now`, because the path carries less
    /// than [`Path::mtu`] says (IPv4).
    #[must_use]
    pub fn is_narrow(&self, now: Instant) -> bool {
        self.narrow && now < self.pmtu_until
    }

    /// The same for UDP.
    #[must_use]
    pub fn udp_is_narrow(&self, now: Instant) -> bool {
        self.is_narrow(now) || self.udp_narrow && now < self.udp_pmtu_until
    }

    /// The largest IP packet for UDP, in bytes.
    #[must_use]
    pub fn udp_mtu(&self, now: Instant) -> u32 {
        let known = self.mtu(now);
        if self.udp_pmtu != 0 && now < self.udp_pmtu_until { self.udp_pmtu.min(known) } else { known }
    }
}
