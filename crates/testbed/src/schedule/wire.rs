//! How long a message occupies a link, with all overhead, frame by frame.

use crate::pattern::Transport;
use std::time::Duration;

/// Overhead of an Ethernet frame in bytes (IEEE 802.3 §3.1.1, §3.2, §4.4.2): preamble and start
/// delimiter 8, addresses and type 14, frame check sequence 4, and the interpacket gap 12. No VLAN
/// tag.
const AROUND_FRAME: u64 = 8 + 14 + 4 + 12;
/// The least payload of a frame; a shorter one is padded (IEEE 802.3 §3.2.8: 64 bytes from
/// addresses to frame check sequence).
const LEAST_PAYLOAD: u64 = 46;
/// A TCP header (RFC 9293 §3.1) with the timestamps option and its padding (RFC 7323 §3.2, appendix
/// A), as Linux and Tickwire have it.
const TCP_HEADER: u64 = 20 + 12;
/// RFC 768.
const UDP_HEADER: u64 = 8;

/// A cable of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableLink {
    /// Bits per second, on the wire.
    pub rate_bps: u64,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
}

impl CableLink {
    /// Gigabit Ethernet.
    pub const GIGABIT: Self = Self { rate_bps: 1_000_000_000, mtu: 1500 };

    /// Transmission time of `bytes`, rounded up to nanoseconds; at most 584 years.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Duration {
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.rate_bps.max(1)));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// From the first bit of a message on its sender's link to the last on the consumer's. Both are
    /// such links, with a store-and-forward switch between them. The IP version makes little
    /// difference, so the longer time counts.
    #[must_use]
    pub(super) fn occupied(&self, transport: Transport, size: u32) -> Duration {
        let bytes = |v6| {
            let frames = Frames::of(transport, size, self, v6);
            frames.first() + frames.all()
        };
        self.time(bytes(false).max(bytes(true)))
    }
}

/// Bytes that a message of `size` occupies on a link: all its frames with preambles, gaps, padding
/// and headers; no acknowledgements (they use the other direction), and no retransmissions.
#[must_use]
pub fn wire_bytes(transport: Transport, size: u32, link: &CableLink, v6: bool) -> u64 {
    Frames::of(transport, size, link, v6).all()
}

/// A message as IP packets: a number of equal ones, and a last, shorter one. Lengths include the IP
/// header.
struct Frames {
    equal: u64,
    length: u64,
    last: u64,
}

impl Frames {
    fn of(transport: Transport, size: u32, link: &CableLink, v6: bool) -> Self {
        // RFC 791 §3.1 and RFC 8200 §3; and the least MTU that each needs: RFC 791 §3.2, RFC 8200
        // §5.
        let (header, least) = if v6 { (40, 1280) } else { (20, 68) };
        let room = u64::from(link.mtu).max(least) - header;
        let size = u64::from(size);
        if transport.is_tcp() {
            let segment = room - TCP_HEADER;
            let equal = size.saturating_sub(1) / segment;
            return Self {
                equal,
                length: header + TCP_HEADER + segment,
                last: header + TCP_HEADER + size - equal * segment,
            };
        }
        let datagram = UDP_HEADER + size;
        if datagram <= room {
            return Self { equal: 0, length: 0, last: header + datagram };
        }
        // Fragments, each with an IP header, and in IPv6 a fragment header (RFC 8200 §4.5). All but
        // the last carry a multiple of 8 bytes (RFC 791 §3.2, RFC 8200 §4.5).
        let header = if v6 { header + 8 } else { header };
        let room = if v6 { room - 8 } else { room };
        let fragment = room / 8 * 8;
        let equal = (datagram - room).div_ceil(fragment);
        Self { equal, length: header + fragment, last: header + datagram - equal * fragment }
    }

    /// Bytes on the wire of the frame around a packet.
    const fn frame(packet: u64) -> u64 {
        AROUND_FRAME + if packet < LEAST_PAYLOAD { LEAST_PAYLOAD } else { packet }
    }

    fn first(&self) -> u64 {
        Self::frame(if self.equal > 0 { self.length } else { self.last })
    }

    fn all(&self) -> u64 {
        self.equal * Self::frame(self.length) + Self::frame(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{GREATEST_DATAGRAM, GREATEST_SIZE};
    use proptest::prelude::*;

    #[test]
    fn frames_are_counted_to_the_byte() {
        let bytes = |transport, size, v6| wire_bytes(transport, size, &CableLink::GIGABIT, v6);
        for (transport, size, v6, expected) in [
            // One segment: 38 + 20 + 32 + 10, and 38 + 40 + 32 + 10.
            (Transport::Tcp, 10, false, 100),
            (Transport::LowLatencyTcp, 10, true, 120),
            // The longest segment fills a frame, one byte more takes another.
            (Transport::Tcp, 1448, false, 1538),
            (Transport::Tcp, 1449, false, 1538 + 38 + 53),
            (Transport::Tcp, 1428, true, 1538),
            (Transport::Tcp, 2896, false, 2 * 1538),
            // 441 whole segments and 1432 bytes.
            (Transport::Tcp, 640_000, false, 441 * 1538 + 38 + 52 + 1432),
            // 20 + 8 + 10 bytes are padded to 46.
            (Transport::Udp, 10, false, 84),
            (Transport::Udp, 10, true, 38 + 58),
            (Transport::UdpMulticast, 1472, false, 1538),
            // Fragments of 1480 bytes, the UDP header uses 8; in IPv6 of 1448, and the last may
            // have 1452.
            (Transport::UdpMulticast, 1473, false, 1538 + 38 + LEAST_PAYLOAD),
            (Transport::UdpMulticast, 4000, false, 2 * 1538 + 38 + 20 + 1048),
            (Transport::UdpMulticast, 1452, true, 1538),
            (Transport::UdpMulticast, 1453, true, 38 + 48 + 1448 + 38 + 48 + 13),
            (Transport::UdpMulticast, 1448 + 1444, true, 38 + 48 + 1448 + 38 + 48 + 1452),
            (Transport::UdpMulticast, 1448 + 1445, true, 2 * (38 + 48 + 1448) + 38 + 48 + 5),
        ] {
            assert_eq!(bytes(transport, size, v6), expected, "{transport} {size} {v6}");
        }
        assert_eq!(CableLink::GIGABIT.time(1538), Duration::from_nanos(12_304));
        assert_eq!(CableLink { rate_bps: 3, mtu: 1500 }.time(1), Duration::from_nanos(2_666_666_667));
        // Two frames: the first counts twice. A single frame counts twice. IPv6 takes longer in
        // both.
        assert_eq!(
            CableLink::GIGABIT.occupied(Transport::UdpMulticast, 1472),
            CableLink::GIGABIT.time(2 * 1534 + 38 + 48 + 32)
        );
        assert_eq!(CableLink::GIGABIT.occupied(Transport::Tcp, 10), CableLink::GIGABIT.time(2 * 120));
    }

    proptest! {
        #[test]
        fn all_bytes_are_in_frames_and_frames_within_the_mtu(size in 1..GREATEST_SIZE, mtu in 0u32..70_000, v6: bool, tcp: bool, rate_bps: u64) {
            let transport = if tcp { Transport::Tcp } else { Transport::UdpMulticast };
            let size = if tcp { size } else { size.min(GREATEST_DATAGRAM) };
            let link = CableLink { rate_bps, mtu };
            let frames = Frames::of(transport, size, &link, v6);
            let mtu = u64::from(mtu).max(if v6 { 1280 } else { 68 });
            prop_assert!(frames.length <= mtu && frames.last <= mtu);
            let (ip, fragment) = if v6 { (40, 8) } else { (20, 0) };
            let header = ip + if tcp { TCP_HEADER } else if frames.equal > 0 { fragment } else { 0 };
            let once = if tcp { 0 } else { UDP_HEADER };
            prop_assert_eq!(frames.equal * frames.length.saturating_sub(header) + frames.last - header, u64::from(size) + once);
            prop_assert!(frames.last > header);
            prop_assert!(tcp || frames.equal == 0 || (frames.length - header).is_multiple_of(8));
            prop_assert!(link.occupied(transport, size) >= link.time(wire_bytes(transport, size, &link, v6)));
        }
    }
}
