//! A received packet whose headers have been checked, on the way to its protocol.

use crate::addr::{Address, Endpoint, Mac};
use crate::checksum::Sum;
use crate::demux::{TCP, UDP};
use crate::error::StackError;
use crate::frame::{FrameId, Frames, flag};

/// A received packet whose IP header has been checked. Its receiver owns the frames.
///
/// A packet may span several frames (reassembled, or larger than a frame). They are chained by
/// `next`, and all but the last carry [`flag::MORE`]. The notes `offset` and `len` of each delimit
/// its part of the transport message (header included in the first).
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The source address.
    pub source: Address,
    /// One of our addresses, or a group.
    pub destination: Address,
    /// IP protocol number of the transport message.
    pub protocol: u8,
    /// Traffic class (TOS) octet.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// The first frame.
    pub frame: FrameId,
    /// Where the transport message starts in the first frame.
    pub offset: u16,
    /// How many of its bytes are in the first frame.
    pub len: u16,
    /// Its length in all frames.
    pub total: u32,
    /// The source Ethernet address.
    pub source_mac: Mac,
    /// The destination Ethernet address.
    pub destination_mac: Mac,
}

impl Packet {
    /// The part of the transport message that is in the first frame.
    #[must_use]
    pub fn bytes<'f>(&self, frames: &'f Frames<'_>) -> &'f [u8] {
        &frames.bytes(self.frame)[usize::from(self.offset)..][..usize::from(self.len)]
    }

    /// Whether the checksum over the whole message with its pseudo-header is good (TCP, UDP,
    /// ICMPv6).
    #[must_use]
    pub fn checksum_is_good(&self, frames: &Frames<'_>) -> bool {
        let flags = frames.meta[self.frame as usize].flags;
        flags & flag::CHECKED != 0
            || self.sum_is_good(frames)
            || flags & flag::MAYBE_PARTIAL != 0 && self.checksum_is_partial(frames)
    }

    /// Whether the checksum was left to a device: then the field holds the sum of the pseudo-header
    /// (`CHECKSUM_PARTIAL` in the kernel).
    #[cold]
    fn checksum_is_partial(&self, frames: &Frames<'_>) -> bool {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            _ => return false,
        };
        let pseudo = !Sum::ZERO.pseudo(self.source, self.destination, self.protocol, self.total).checksum();
        self.bytes(frames).get(at..at + 2) == Some(&pseudo.to_be_bytes())
    }

    fn sum_is_good(&self, frames: &Frames<'_>) -> bool {
        let sum = Sum::ZERO.pseudo(self.source, self.destination, self.protocol, self.total);
        let sum = sum.bytes(self.bytes(frames));
        if u32::from(self.len) == self.total {
            return sum.is_good();
        }
        // After a piece of odd length the next one starts at an odd offset: its bytes count swapped
        // (RFC 1071 §2 (B)).
        let (mut sum, mut odd) = (sum, self.len & 1 == 1);
        let mut at = self.frame;
        while frames.meta[at as usize].flags & flag::MORE != 0
            && let Some(next) = frames.meta[at as usize].next.get()
        {
            let bytes = frames.data(next);
            sum = sum.bytes_at(odd, bytes);
            odd ^= bytes.len() & 1 == 1;
            at = next;
        }
        sum.is_good()
    }
}

/// The content of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// The packet is larger than the next hop's MTU, given here in bytes (0: an old router that
    /// does not report it).
    TooBig(u32),
    /// The packet was not delivered.
    Undelivered {
        /// The error for the program.
        error: StackError,
        /// A hard error (RFC 1122 §3.2.2.1): it will not go away by itself.
        hard: bool,
    },
}

/// An ICMP error about a packet that we supposedly sent.
#[derive(Clone, Copy, Debug)]
pub struct IcmpError {
    /// Its content.
    pub kind: IcmpKind,
    /// Source address and port of the quoted packet: ours.
    pub local: Endpoint,
    /// Destination address and port of the quoted packet.
    pub remote: Endpoint,
    /// Protocol of the quoted packet.
    pub protocol: u8,
    /// TCP: sequence number of the quoted segment, which must be in flight for the error to be
    /// credible (RFC 5927 §4.1).
    pub seq: u32,
    /// The sender of the error.
    pub from: Address,
}
