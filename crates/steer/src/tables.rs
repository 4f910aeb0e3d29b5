//! What divert and guard know. The service enters addresses, claims and groups; packets teach the
//! progress of handshakes and the course of fragments. On Linux each table is a BPF map
//! (`crates/lane-linux/bpf/maps.h`), with a `...MapKey` of `tickwire_lane_linux::bpf`.

use crate::counters::{HostCounters, LaneCounters};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use tickwire_stack::addr::{Address, Endpoint, Family, Mac};

/// The number of a lane, never 0.
pub type LaneNumber = u32;

/// The interface index of a network card.
pub type NicIndex = u32;

/// At most so many lanes share a port.
pub const MAX_SHARED: usize = 8;

/// At most so many lanes get copies of a group's datagrams.
pub const MAX_MEMBERS: usize = 16;

/// The protocols that can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP (RFC 9293).
    Tcp,
    /// UDP (RFC 768).
    Udp,
}

impl Protocol {
    /// The protocol of this number in an IP header.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }

    /// Its number in an IP header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// The ends of a connection, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Its protocol.
    pub protocol: Protocol,
    /// This host's end.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
}

/// The owner of a flow, and how far another connection between its ends has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The lane; `None`: the kernel, for good.
    pub owner: Option<LaneNumber>,
    /// The sequence number with which the peer continues after its SYN.
    pub next: u32,
    /// The progress of that handshake.
    pub handshake: Handshake,
}

impl Flow {
    /// A flow that nothing has happened to.
    #[must_use]
    pub const fn new(owner: Option<LaneNumber>) -> Self {
        Self { owner, next: 0, handshake: Handshake::None }
    }
}

/// The progress of a connection that a peer opens, between the ends of a lane's flow, to the port's
/// listener (RFC 9293 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// No SYN has been seen.
    None,
    /// The kernel was given a SYN.
    Asked,
    /// And the peer went on, acknowledging `answer`: the kernel knows whether that is right.
    Followed {
        /// What the peer acknowledged.
        answer: u32,
    },
    /// A lane has answered the SYN: a peer that received that acknowledges `answer`.
    Answered {
        /// The number behind the lane's SYN.
        answer: u32,
    },
}

/// A bound port. The address is the bound one, or that of any address of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// Its protocol.
    pub protocol: Protocol,
    /// Address and port.
    pub local: Endpoint,
}

/// The lanes that share a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShare {
    /// At least one, [`MAX_SHARED`] at most.
    pub lanes: Vec<LaneNumber>,
    /// The first so many have had the port for a while. Handshakes that were under way when the
    /// others joined are theirs.
    pub settled: usize,
}

/// A multicast group and port on a network card. Port 0 stands for any port: a later fragment that
/// arrives before its first one names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// The network card.
    pub nic: NicIndex,
    /// Address and port.
    pub group: Endpoint,
}

/// The lanes that joined a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Those beyond [`MAX_MEMBERS`] get no early fragments.
    pub lanes: Vec<LaneNumber>,
    /// Of any port: early fragments copied since `since_ns` that no first one has confirmed.
    pub early: u32,
    /// When this second began.
    pub since_ns: u64,
}

/// What the fragments of one datagram have in common (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatagramKey {
    /// The sender.
    pub source: Address,
    /// The receiver, or the group.
    pub destination: Address,
    /// The identification.
    pub id: u32,
    /// The protocol.
    pub protocol: Protocol,
}

/// A datagram to this host of which fragments have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// When the first one arrived; of early ones, when the earliest did.
    pub seen_ns: u64,
    /// Where they go.
    pub course: Course,
}

/// Where the fragments of a datagram go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The first one has not arrived: the kernel has those that have.
    Early,
    /// With the first one, to this lane or the kernel.
    Led(Option<LaneNumber>),
}

/// A datagram to a group of which fragments have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFragments {
    /// When the first one arrived; of early ones, when the earliest did.
    pub seen_ns: u64,
    /// Where they go.
    pub course: GroupCourse,
}

/// Where the fragments of a group's datagram go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCourse {
    /// To the lanes that joined at any port. So many have arrived before the first one.
    Early(u16),
    /// To the lanes that joined at this port, which the first one named.
    Led(u16),
}

/// An address of this host on a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressKey {
    /// The network card.
    pub nic: NicIndex,
    /// The address.
    pub address: Address,
}

/// An address and Ethernet address that lanes may send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// The address.
    pub address: Address,
    /// The Ethernet address.
    pub mac: Mac,
}

/// An address of this host and a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopKey {
    /// The source address.
    pub source: Address,
    /// The peer.
    pub destination: Address,
}

/// How the host reaches a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The next hop's Ethernet address.
    pub destination: Mac,
    /// The network card's.
    pub source: Mac,
    /// The network card to leave by.
    pub nic: NicIndex,
}

/// A port that a lane may send from; the address as in [`PortKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedKey {
    /// The lane.
    pub lane: LaneNumber,
    /// The protocol.
    pub protocol: Protocol,
    /// Address and port.
    pub local: Endpoint,
}

/// How much of a port a lane owns. A port may have connections of several programs, and of the
/// kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// All of it.
    Whole,
    /// What goes to one remote end.
    One(Endpoint),
    /// What goes to the remote ends of the lane's entries in [`Tables::flows`].
    Flows,
}

/// A network card by which lanes may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressNic {
    /// The longest packet, without its Ethernet header.
    pub mtu: u32,
}

/// All that divert and guard know.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The lanes that exist. A claim may name a lane that has just gone.
    pub lanes: BTreeSet<LaneNumber>,
    /// The network cards.
    pub nics: BTreeMap<NicIndex, EgressNic>,
    /// The addresses of this host, with the Ethernet address that packets to them carry.
    pub addresses: BTreeMap<AddressKey, Mac>,
    /// Where lanes may send from, and the network card by which such a packet leaves.
    pub sources: BTreeMap<SourceKey, NicIndex>,
    /// How the host reaches the peers of lanes' connections.
    pub hops: BTreeMap<HopKey, Hop>,
    /// Connections with an owner.
    pub flows: BTreeMap<FlowKey, Flow>,
    /// Claimed ports.
    pub ports: BTreeMap<PortKey, PortShare>,
    /// Joined groups.
    pub groups: BTreeMap<GroupKey, Group>,
    /// Ports that lanes may send from.
    pub owned: BTreeMap<OwnedKey, Owned>,
    /// Handshakes that began while a lane was joining a port, and the lanes that received them.
    pub handshakes: BTreeMap<FlowKey, LaneNumber>,
    /// Datagrams to this host whose fragments are arriving.
    pub fragments: BTreeMap<DatagramKey, Fragments>,
    /// Datagrams to groups whose fragments are arriving.
    pub group_fragments: BTreeMap<DatagramKey, GroupFragments>,
    /// When a lane has sent the first fragment of a datagram.
    pub sent_fragments: BTreeMap<(LaneNumber, DatagramKey), u64>,
    /// What became of arriving packets.
    pub counters: HostCounters,
    /// What each lane has received and sent.
    pub lane_counters: BTreeMap<LaneNumber, LaneCounters>,
}

impl Tables {
    /// Whether a packet with this destination was sent to this host by way of this network card. A
    /// port that is bound to any address claims no packet that is only forwarded.
    #[must_use]
    pub fn is_addressed_to_us(&self, nic: NicIndex, address: Address, mac: Mac) -> bool {
        self.addresses.get(&AddressKey { nic, address }) == Some(&mac)
    }
}

/// The unspecified address of the same family, as sockets bound to any address have it.
#[must_use]
pub const fn any_address(address: Address) -> Address {
    match address.family() {
        Family::V4 => Address::ANY_V4,
        Family::V6 => Address::ANY,
    }
}
