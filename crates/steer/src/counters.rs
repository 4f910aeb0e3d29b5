//! What is counted: the same figures as `tickwire stat` shows.

/// What became of the packets that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Left to the kernel.
    pub passed: u64,
    /// Given to a lane.
    pub diverted: u64,
    /// Copies of multicast datagrams to lanes.
    pub group_copies: u64,
    /// Those of the passed ones that had the tag of a VLAN.
    pub vlan: u64,
    /// Later fragments whose first one is not known: left to the kernel; or of a group's datagram,
    /// and not copied to each of its lanes.
    pub stray_fragments: u64,
}

/// What a lane has received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Packets for the lane.
    pub in_packets: u64,
    /// Their bytes.
    pub in_bytes: u64,
    /// Packets that the guard let out.
    pub out_packets: u64,
    /// Their bytes.
    pub out_bytes: u64,
    /// Packets that the guard refused, by [`GuardRefusal`].
    pub refused: [u64; GuardRefusal::ALL.len()],
}

/// Why the guard refuses a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuardRefusal {
    /// Truncated or inconsistent headers.
    Malformed = 0,
    /// Not IPv4 or IPv6 with TCP or UDP, or VLAN-tagged.
    Protocol = 1,
    /// The source address or Ethernet address is not the host's.
    Source = 2,
    /// The source port is not the lane's.
    Port = 3,
    /// A later fragment without a first one, or ports that a later fragment could overwrite.
    Fragment = 4,
    /// Longer than the network card's MTU, or cut into too many packets.
    Length = 5,
    /// A checksum that is left to the device, at a place that the program names.
    Checksum = 6,
}

impl GuardRefusal {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Malformed, Self::Protocol, Self::Source, Self::Port, Self::Fragment, Self::Length, Self::Checksum];

    /// Its name in tables of counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Protocol => "protocol",
            Self::Source => "source",
            Self::Port => "port",
            Self::Fragment => "fragment",
            Self::Length => "length",
            Self::Checksum => "checksum",
        }
    }
}
