//! Frames that the kernel (GRO), the network card (LRO) or a hypervisor has merged out of several
//! packets. A lane splits them again, so they count as the packets that they were, each with its
//! headers.

use crate::header::header;
use crate::parse::Packet;
use crate::tables::Protocol;

/// What the receiver says about a frame that it has merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Bytes of data of each packet, the last one perhaps less; not 0.
    pub segment: u32,
    /// How many packets there were. Some hypervisors do not say so.
    pub packets: Option<u32>,
}

/// As how many packets and bytes a frame counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

const UDP_HEADER: usize = 8;
/// Without options.
const TCP_HEADER: usize = 20;
/// The byte whose upper half is the header's length, in words (RFC 9293 section 3.1).
const DATA_OFFSET: usize = 12;

/// Bytes before the data.
pub(crate) fn headers(packet: &Packet, frame: &[u8]) -> usize {
    let transport = match packet.protocol {
        Protocol::Udp => UDP_HEADER,
        Protocol::Tcp => header::<1>(frame, packet.ip.transport + DATA_OFFSET)
            .map_or(TCP_HEADER, |[offset]| usize::from(offset >> 4) * 4),
    };
    packet.ip.transport + transport
}

/// As what a frame counts.
pub(crate) fn weight(packet: Option<&Packet>, frame: &[u8], merged: Option<Merged>) -> Weight {
    let bytes = frame.len() as u64;
    let Some(Merged { segment, packets }) = merged else { return Weight { packets: 1, bytes } };
    let Some(packet) = packet else {
        return Weight { packets: packets.map_or(1, u64::from), bytes };
    };
    let headers = headers(packet, frame);
    let data = frame.len().saturating_sub(headers) as u64;
    let packets = packets.map_or_else(|| data.div_ceil(u64::from(segment.max(1))).max(1), u64::from);
    Weight { packets, bytes: bytes + (packets - 1) * headers as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse};
    use crate::testing::{HERE, PEER, ends, udp};

    #[test]
    fn a_merged_frame_counts_as_the_packets_that_it_was() {
        for (data, segment, packets, counted) in
            [(2500, 1000, None, 3), (2000, 1000, None, 2), (2500, 1000, Some(3), 3), (0, 1000, None, 1)]
        {
            let frame = udp(ends(PEER, 5), ends(HERE, 7), data);
            let Parsed::Found(packet) = parse(&frame) else { panic!("a datagram") };
            let weight = weight(Some(&packet), &frame, Some(Merged { segment, packets }));
            assert_eq!((weight.packets, weight.bytes), (counted, data as u64 + counted * 42));
        }
    }
}
