//! IP packets, as WinDivert has them, and Ethernet frames, as divert, guard and stack have them.

use tickwire_stack::addr::{Family, Mac};

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Bytes of an IPv4 header without options, and of an IPv6 header.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Without options.
const TCP: usize = 20;
/// The protocol number of TCP.
const TCP_NUMBER: u8 = 6;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// The Ethernet address from which all packets seem to come: the driver does not tell the
/// neighbour's, and does not need it. It is one of those that belong to no maker of network cards.
pub const NEIGHBOUR: Mac = Mac([0x02, 0x57, 0x44, 0x00, 0x00, 0x01]);

/// The family and the length of the packet at the beginning of these bytes, if it is complete.
#[must_use]
pub fn extent(bytes: &[u8]) -> Option<(Family, usize)> {
    let (family, length) = match bytes.first()? >> 4 {
        4 => {
            let header = usize::from(bytes[0] & 0xf) * 4;
            let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
            (header >= IPV4 && length >= header).then_some((Family::V4, length))?
        }
        6 => (Family::V6, IPV6 + usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]))),
        _ => return None,
    };
    (length <= bytes.len()).then_some((family, length))
}

/// The Ethernet header of an arriving packet, whose [`extent`] is known: to this host's own
/// address, or to that of the packet's group.
#[must_use]
pub fn ethernet_header(packet: &[u8], family: Family, own: Mac) -> [u8; ETHERNET] {
    let (destination, ethertype) = match family {
        Family::V4 => (v4_destination(packet, own), ETHERTYPE_IPV4),
        Family::V6 => (v6_destination(packet, own), ETHERTYPE_IPV6),
    };
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&NEIGHBOUR.0);
    header[12..].copy_from_slice(&ethertype);
    header
}

/// RFC 1112 section 6.4.
fn v4_destination(packet: &[u8], own: Mac) -> Mac {
    match packet.get(16..20) {
        Some(&[255, 255, 255, 255]) => Mac([0xff; 6]),
        Some(&[224..=239, a, b, c]) => Mac([0x01, 0x00, 0x5e, a & 0x7f, b, c]),
        _ => own,
    }
}

/// RFC 2464 section 7.
fn v6_destination(packet: &[u8], own: Mac) -> Mac {
    match (packet.get(24), packet.get(36..40)) {
        (Some(0xff), Some(&[a, b, c, d])) => Mac([0x33, 0x33, a, b, c, d]),
        _ => own,
    }
}

/// The IP packet in a frame, without padding; `None`: the frame has none that is complete.
#[must_use]
pub fn packet_of(frame: &[u8]) -> Option<(Family, &[u8])> {
    let (header, packet) = frame.split_at_checked(ETHERNET)?;
    let (family, length) = extent(packet)?;
    let ethertype = match family {
        Family::V4 => ETHERTYPE_IPV4,
        Family::V6 => ETHERTYPE_IPV6,
    };
    (header[12..] == ethertype).then(|| (family, &packet[..length]))
}

/// Which transport protocol follows the IP header.
#[must_use]
pub fn protocol(packet: &[u8], family: Family) -> Option<u8> {
    packet
        .get(match family {
            Family::V4 => 9,
            Family::V6 => 6,
        })
        .copied()
}

/// The payload of the segments of which a packet was merged (receive coalescing), or 0 if it is a
/// single one. The driver does not tell, but no single segment is longer than the MTU; and merged
/// ones were as long as the MTU allowed, except for the last. Other packets that are longer were
/// reassembled.
#[must_use]
pub fn merged_segment(packet: &[u8], family: Family, mtu: u32) -> u16 {
    let mtu = mtu as usize;
    if packet.len() <= mtu || protocol(packet, family) != Some(TCP_NUMBER) {
        return 0;
    }
    let ip = match family {
        Family::V4 => usize::from(packet[0] & 0xf) * 4,
        Family::V6 => IPV6,
    };
    let tcp = packet.get(ip + 12).map_or(TCP, |offset| usize::from(offset >> 4) * 4).max(TCP);
    u16::try_from(mtu.saturating_sub(ip + tcp)).unwrap_or(u16::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 7]);

    /// An IPv4 packet of a protocol to an address, with so many bytes behind its header.
    pub(crate) fn v4(protocol: u8, destination: [u8; 4], payload: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2];
        packet.extend(destination);
        packet.extend((0..payload).map(|n| n as u8));
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    /// As [`v4`], of IPv6.
    pub(crate) fn v6(protocol: u8, destination: [u8; 16], payload: usize) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        packet[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        packet.extend([0xfd; 16]);
        packet.extend(destination);
        packet.extend((0..payload).map(|n| n as u8));
        packet
    }

    #[test]
    fn a_packets_length_is_that_of_its_header() {
        let (four, six) = (v4(17, [10, 0, 0, 1], 30), v6(17, [0xfd; 16], 30));
        assert_eq!(extent(&four), Some((Family::V4, 50)));
        assert_eq!(extent(&six), Some((Family::V6, 70)));
        let followed: Vec<u8> = four.iter().chain(&six).copied().collect();
        assert_eq!(extent(&followed), Some((Family::V4, 50)));
    }

    #[test]
    fn what_is_no_complete_packet_has_no_length() {
        for packet in [v4(17, [10, 0, 0, 1], 30), v6(17, [0xfd; 16], 30)] {
            for length in 0..packet.len() {
                assert_eq!(extent(&packet[..length]), None, "{length}");
                let frame = [&[0; ETHERNET][..], &packet[..length]].concat();
                assert_eq!(packet_of(&frame), None);
            }
            for version in [0, 1, 5, 7, 15] {
                let other: Vec<u8> = [&[version << 4 | 5][..], &packet[1..]].concat();
                assert_eq!(extent(&other), None);
            }
        }
        let mut short = v4(17, [10, 0, 0, 1], 30);
        short[0] = 0x44;
        assert_eq!(extent(&short), None, "a header of 16 bytes");
        short[0] = 0x4f;
        assert_eq!(extent(&short), None, "a header that is longer than the packet");
        short[0] = 0x45;
        short[2..4].copy_from_slice(&19_u16.to_be_bytes());
        assert_eq!(extent(&short), None, "a packet that is shorter than its header");
    }

    #[test]
    fn a_header_is_put_on_and_taken_off() {
        let header = |packet: &[u8], family| ethernet_header(packet, family, OWN);
        for (packet, family) in [(v4(6, [10, 0, 0, 1], 9), Family::V4), (v6(6, [0xfd; 16], 9), Family::V6)] {
            let mut frame = [&header(&packet, family)[..], &packet].concat();
            assert_eq!((&frame[..6], &frame[6..12]), (&OWN.0[..], &NEIGHBOUR.0[..]));
            frame.extend([0; 20]);
            assert_eq!(packet_of(&frame), Some((family, &packet[..])), "padding is left out");
            frame[13] ^= 1;
            assert_eq!(packet_of(&frame), None, "another protocol's number");
        }
        assert_eq!(header(&v4(17, [255; 4], 9), Family::V4)[..6], [0xff; 6]);
        assert_eq!(header(&v4(17, [239, 129, 2, 3], 9), Family::V4)[..6], [1, 0, 0x5e, 1, 2, 3]);
        let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3];
        assert_eq!(header(&v6(17, group, 9), Family::V6)[..6], [0x33, 0x33, 0, 1, 0, 3]);
    }

    #[test]
    fn a_segment_that_is_longer_than_the_mtu_was_merged() {
        let segment = |packet: &[u8], family| merged_segment(packet, family, 1500);
        let mut long = v4(6, [10, 0, 0, 1], 4000);
        long[20 + 12] = 8 << 4;
        assert_eq!(segment(&long, Family::V4), 1448);
        let mut long_v6 = v6(6, [0xfd; 16], 4000);
        long_v6[40 + 12] = 8 << 4;
        assert_eq!(segment(&long_v6, Family::V6), 1428);
        assert_eq!(segment(&v4(6, [10, 0, 0, 1], 1480), Family::V4), 0);
        assert_eq!(segment(&v4(17, [10, 0, 0, 1], 4000), Family::V4), 0, "a datagram was reassembled");
        assert_eq!(merged_segment(&long, Family::V4, 30), 0, "an MTU that no headers fit into");
    }
}
