//! What the host reports about reaching a destination. The stack never routes or resolves by itself
//! (rule 1): it requests paths from the host.

use crate::addr::{Address, Mac};
use crate::pool::{PoolLink, PoolSlot};
use crate::queue::Queued;
use crate::time::Instant;
use zerocopy::FromZeros;

/// Whether packets can be sent on a path.
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
    /// Resolution failed or timed out, or there is no route.
    Unreachable = 3,
    /// Only the kernel's stack reaches this destination (loopback, own address, another interface).
    Kernel = 4,
}

shared_layout! { enum PathState { Free, Resolving, Ready, Unreachable, Kernel } }

/// The key of a path, which is also that of the kernel's routes. Another source address may use
/// another router or interface (`ip rule from`), and so may another class of traffic (`ip rule
/// tos`, `ip route add tos`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(C)]
pub struct Query {
    /// The destination address.
    pub destination: Address,
    /// The source address, one of the host's; [`Address::ANY`] if the host may choose.
    pub source: Address,
    /// The outgoing interface, by the host's number; 0 if the host may choose.
    pub interface: u32,
    /// The type of service (IPv4) or traffic class (IPv6), without the two bits of ECN.
    pub tos: u8,
}

shared_layout! { Query { destination, source, interface, tos } }

impl Query {
    /// The path to a destination, with all else left to the host.
    #[must_use]
    pub const fn to(destination: Address) -> Self {
        Self { destination, source: Address::ANY, interface: 0, tos: 0 }
    }

    /// The path from a source address. An unspecified or multicast one cannot be a source and
    /// leaves the choice to the host.
    #[must_use]
    pub fn from(self, source: Address) -> Self {
        let source = if source.is_unspecified() || source.is_multicast() { Address::ANY } else { source };
        Self { source, ..self }
    }

    /// The path by an interface; 0: the host may choose.
    #[must_use]
    pub const fn by(self, interface: u32) -> Self {
        Self { interface, ..self }
    }

    /// The path of packets with this type of service.
    #[must_use]
    pub const fn of_service(self, tos: u8) -> Self {
        Self { tos: tos & !ECN, ..self }
    }
}

/// The bits of the type of service that routing ignores (RFC 3168).
const ECN: u8 = 3;

/// The metrics of a route (`ip route ... advmss`, Linux's `RTAX_*`); 0: not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub struct Metrics {
    /// The least retransmission timeout beyond the round trip, in milliseconds.
    pub rto_min_ms: u16,
    /// Initial congestion window in segments.
    pub initcwnd: u16,
    /// Initial receive window in segments.
    pub initrwnd: u16,
    /// The MSS to announce.
    pub advmss: u16,
    /// Time to live (hop limit), for sockets whose program has set none.
    pub hop_limit: u8,
    /// Each segment is acknowledged at once.
    pub quick_ack: bool,
}

shared_layout! { Metrics { rto_min_ms, initcwnd, initrwnd, advmss, hop_limit, quick_ack } }

impl Metrics {
    /// The time to live of a packet: the program's, else the route's, else the default.
    #[must_use]
    pub const fn hops(&self, own: u8, set: bool) -> u8 {
        if set || self.hop_limit == 0 { own } else { self.hop_limit }
    }
}

/// The host's answer to a [`Query`].
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub struct PathInfo {
    /// The query that it answers.
    pub query: Query,
    /// The source address the host prefers for it.
    pub source: Address,
    /// The outgoing interface; 0 if there is no route.
    pub interface: u32,
    /// Largest IP packet of the interface or route, in bytes.
    pub mtu: u32,
    /// Our own Ethernet address on that interface.
    pub source_mac: Mac,
    /// The Ethernet address of the next hop.
    pub next_hop_mac: Mac,
    /// Whether it can be used.
    pub state: PathState,
    /// The metrics of its route.
    pub metrics: Metrics,
    /// The source address that the host chose, if the query had none and packets from this one take
    /// the same path; [`Address::ANY`] if that is unknown or not so.
    pub chosen: Address,
}

shared_layout! { PathInfo {
    query, source, interface, mtu, source_mac, next_hop_mac, state, metrics, chosen,
} }

impl PathInfo {
    /// The path from the chosen source address, if it is the same.
    #[must_use]
    pub fn from_chosen(&self) -> Option<Self> {
        let own = |chosen| Self { query: self.query.from(chosen), chosen: Address::ANY, ..*self };
        (self.chosen != Address::ANY).then(|| own(self.chosen))
    }
}

/// [`Path::inferred`]: taken from a packet, good enough to answer a SYN and for nothing else: any
/// node on the link can choose it.
pub(crate) const GUESSED: u8 = 1;
/// [`Path::inferred`]: requested from the host, which has not answered yet.
pub(crate) const ASKED: u8 = 2;

/// A path in the lane's cache.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub struct Path {
    /// Chain of the hash bucket, or of the free list.
    pub link: PoolLink,
    /// The host's answer.
    pub info: PathInfo,
    /// Path MTU learned by ICMP (RFC 1191, RFC 8201), 0 if none; never above `info.mtu`.
    pub pmtu: u32,
    /// When the learned path MTU expires (RFC 1191 §6.3: after ten minutes).
    pub pmtu_until: Instant,
    /// The path MTU as UDP learned it. What such an ICMP error quotes is easy to guess, so it does
    /// not apply to TCP.
    pub udp_pmtu: u32,
    /// When that expires.
    pub udp_pmtu_until: Instant,
    /// 0: reported by the host. 1: only inferred from a received packet (its next hop is that
    /// packet's sender). 2: requested from the host; packets wait for the answer.
    pub inferred: u8,
    /// Whether it was used since the eviction hand last passed.
    pub used: u8,
    /// How many half-open connections use a guess.
    pub guests: u16,
    /// A router reports less than `pmtu`, the least that is believed: routers must be allowed to
    /// fragment (IPv4).
    pub narrow: bool,
    /// The same as UDP learned it.
    pub udp_narrow: bool,
    /// When it was entered or last requested.
    pub asked: Instant,
    /// When the host last reported it as ready.
    pub found: Instant,
    /// First of the packets that wait for the neighbour.
    pub waiting_head: PoolLink,
    /// Last of them.
    pub waiting_tail: PoolLink,
    /// How many wait.
    pub waiting: u32,
}

shared_layout! { Path {
    link, info, pmtu, pmtu_until, udp_pmtu, udp_pmtu_until, inferred, used, guests, narrow,
    udp_narrow, asked, found, waiting_head, waiting_tail, waiting,
} }

/// A packet that waits for a neighbour, with its bounds as in the transmit queue.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Waiting {
    pub(crate) link: PoolLink,
    pub(crate) packet: Queued,
}

shared_layout! { Waiting { link, packet } }

impl PoolSlot for Waiting {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl PoolSlot for Path {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl Path {
    /// Takes over the MTU learned on another path to the same destination: most routers are the
    /// same.
    pub(crate) fn learn_from(&mut self, other: &Self) {
        if other.pmtu != 0 && (self.pmtu == 0 || other.pmtu < self.pmtu) {
            (self.pmtu, self.pmtu_until, self.narrow) = (other.pmtu, other.pmtu_until, other.narrow);
        }
        if other.udp_pmtu != 0 && (self.udp_pmtu == 0 || other.udp_pmtu < self.udp_pmtu) {
            (self.udp_pmtu, self.udp_pmtu_until, self.udp_narrow) =
                (other.udp_pmtu, other.udp_pmtu_until, other.udp_narrow);
        }
    }

    /// The largest IP packet that this path carries at `now`, as far as known, in bytes.
    #[must_use]
    pub fn mtu(&self, now: Instant) -> u32 {
        if self.pmtu != 0 && now < self.pmtu_until { self.pmtu.min(self.info.mtu) } else { self.info.mtu }
    }

    /// Whether packets must be sent without "don't fragment" at `now`, because the path carries
    /// less than [`Path::mtu`] (IPv4).
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
