//! Where a frame's addresses, ports and end are. Every read is bounded by the frame.

use crate::extensions::{self, Walked};
use crate::fragments::Part;
use crate::header::{ETHERNET, header};
use crate::tables::{DatagramKey, Protocol};
use crate::vlan;
use tickwire_stack::addr::{Address, Endpoint, Family, Mac};

const IPV4: usize = 20;
const IPV6: usize = 40;
/// Both ports.
const PORTS: usize = 4;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// TCP or UDP.
    Found(Packet),
    /// IP with another protocol.
    Other(IpHeader),
    /// A VLAN tag follows the Ethernet header.
    Tagged,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// It ends too early, or its lengths contradict each other.
    Malformed,
}

/// What an IP header says, extension headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeader {
    pub(crate) source: Address,
    pub(crate) destination: Address,
    /// The protocol behind all extension headers; or that of the extension header with which the
    /// walk over them has ended.
    pub(crate) protocol: u8,
    pub(crate) part: Part,
    /// The identification of a fragment's datagram.
    pub(crate) id: u32,
    /// An extension header follows a fragment header. What a later fragment overlaps may then be
    /// the ports, and later fragments name the extension header, not the protocol.
    pub(crate) is_behind: bool,
    /// The header of IPv4 is longer than without options.
    pub(crate) has_options: bool,
    /// Where the transport header begins.
    pub(crate) transport: usize,
    /// Where the packet ends; what follows in the frame is padding. `None`: the header does not say
    /// so. The kernel has merged more than 64 KB (RFC 2675 has no other use here), or it is
    /// malformed.
    pub(crate) end: Option<usize>,
}

impl IpHeader {
    /// Whether the packet ends before this.
    pub(crate) fn ends_before(&self, at: usize) -> bool {
        self.end.is_some_and(|end| end < at)
    }
}

/// A TCP or UDP packet. The ports of a later fragment are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) ip: IpHeader,
    pub(crate) protocol: Protocol,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

impl Packet {
    pub(crate) const fn source(&self) -> Endpoint {
        Endpoint::new(self.ip.source, self.source_port)
    }

    pub(crate) const fn destination(&self) -> Endpoint {
        Endpoint::new(self.ip.destination, self.destination_port)
    }

    /// What its fragments have in common.
    pub(crate) const fn datagram(&self) -> DatagramKey {
        let IpHeader { source, destination, id, .. } = self.ip;
        DatagramKey { source, destination, id, protocol: self.protocol }
    }
}

/// The destination and source of an Ethernet header.
pub(crate) fn macs(frame: &[u8]) -> Option<(Mac, Mac)> {
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = header::<ETHERNET>(frame, 0)?;
    Some((Mac([a, b, c, d, e, f]), Mac([g, h, i, j, k, l])))
}

/// Describes a frame.
pub(crate) fn parse(frame: &[u8]) -> Parsed {
    let Some([.., high, low]) = header::<ETHERNET>(frame, 0) else { return Parsed::Malformed };
    match u16::from_be_bytes([high, low]) {
        ETHERTYPE_IPV4 => parse_ip(frame, ETHERNET, Family::V4),
        ETHERTYPE_IPV6 => parse_ip(frame, ETHERNET, Family::V6),
        ethertype if vlan::is_tag(ethertype) => Parsed::Tagged,
        _ => Parsed::NotIp,
    }
}

/// Describes the packet whose IP header is at an offset.
pub(crate) fn parse_ip(frame: &[u8], at: usize, family: Family) -> Parsed {
    let ip = match family {
        Family::V4 => parse_ipv4(frame, at),
        Family::V6 => parse_ipv6(frame, at),
    };
    let Some(ip) = ip else { return Parsed::Malformed };
    let Some(protocol) = Protocol::from_number(ip.protocol) else { return Parsed::Other(ip) };
    let ports = match ip.part {
        // Its headers lie in the packet, too.
        Part::Later if !ip.ends_before(ip.transport) => Some([0; PORTS]),
        // Ports in the padding are no ports: the receiver does not see them.
        Part::Whole | Part::First if !ip.ends_before(ip.transport + PORTS) => header(frame, ip.transport),
        _ => None,
    };
    let Some([source0, source1, destination0, destination1]) = ports else { return Parsed::Malformed };
    Parsed::Found(Packet {
        ip,
        protocol,
        source_port: u16::from_be_bytes([source0, source1]),
        destination_port: u16::from_be_bytes([destination0, destination1]),
    })
}

/// RFC 791 section 3.1.
fn parse_ipv4(frame: &[u8], at: usize) -> Option<IpHeader> {
    const OFFSET: u16 = 0x1fff;
    const MORE: u16 = 0x2000;
    let bytes = header::<IPV4>(frame, at)?;
    let [version_ihl, _, l0, l1, i0, i1, f0, f1, _, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = bytes;
    let length = usize::from(version_ihl & 15) * 4;
    if version_ihl >> 4 != 4 || length < IPV4 {
        return None;
    }
    let fragment = u16::from_be_bytes([f0, f1]);
    let total = usize::from(u16::from_be_bytes([l0, l1]));
    Some(IpHeader {
        source: Address::v4([s0, s1, s2, s3]),
        destination: Address::v4([d0, d1, d2, d3]),
        protocol,
        part: match (fragment & OFFSET, fragment & MORE) {
            (0, 0) => Part::Whole,
            (0, _) => Part::First,
            _ => Part::Later,
        },
        id: u16::from_be_bytes([i0, i1]).into(),
        is_behind: false,
        has_options: length > IPV4,
        transport: at + length,
        end: (total != 0).then_some(at + total),
    })
}

/// RFC 8200 section 3.
fn parse_ipv6(frame: &[u8], at: usize) -> Option<IpHeader> {
    let bytes = header::<IPV6>(frame, at)?;
    let (fixed, addresses) = bytes.split_first_chunk::<8>()?;
    let (source, destination) = addresses.split_first_chunk::<16>()?;
    let (source, destination) = (Address(*source), Address(destination.try_into().ok()?));
    let &[version, _, _, _, p0, p1, next, _] = fixed;
    // An IPv4 address in an IPv6 header would pass for that address here. RFC 6890 section 2.2.3:
    // such an address is neither source nor destination of a packet.
    if version >> 4 != 6 || source.to_v4().is_some() || destination.to_v4().is_some() {
        return None;
    }
    let transport = at + IPV6;
    let payload = usize::from(u16::from_be_bytes([p0, p1]));
    let Walked { next, at: transport, part, id, is_behind } = extensions::walk(frame, transport, next)?;
    Some(IpHeader {
        source,
        destination,
        protocol: next,
        part,
        id,
        is_behind,
        has_options: false,
        transport,
        end: (payload != 0).then_some(at + IPV6 + payload),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HERE, HERE_V6, PEER, PEER_V6, ends, udp};

    fn found(frame: &[u8]) -> Option<Packet> {
        match parse(frame) {
            Parsed::Found(packet) => Some(packet),
            _ => None,
        }
    }

    #[test]
    fn both_families_are_described() {
        for (from, to, transport) in [(PEER, HERE, 34), (PEER_V6, HERE_V6, 54)] {
            let packet = found(&udp(ends(from, 5), ends(to, 7), 8)).unwrap();
            assert_eq!((packet.source(), packet.destination()), (ends(from, 5), ends(to, 7)));
            assert_eq!((packet.ip.transport, packet.ip.end), (transport, Some(transport + 16)));
            assert_eq!((packet.ip.part, packet.ip.is_behind), (Part::Whole, false));
        }
    }

    #[test]
    fn a_frame_that_ends_too_early_is_malformed() {
        let frame = udp(ends(PEER, 5), ends(HERE, 7), 0);
        for length in 0..38 {
            assert_eq!(parse(&frame[..length]), Parsed::Malformed, "{length} bytes");
        }
        assert!(found(&frame[..38]).is_some(), "the ports are there");
    }

    #[test]
    fn lengths_and_versions_that_contradict_are_malformed() {
        let frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        let with = |at: usize, byte: u8| {
            let mut frame = frame.clone();
            frame[at] = byte;
            parse(&frame)
        };
        assert_eq!(with(14, 0x65), Parsed::Malformed, "version 6 in an IPv4 frame");
        assert_eq!(with(14, 0x44), Parsed::Malformed, "a header of 16 bytes");
        assert_eq!(with(17, 23), Parsed::Malformed, "the ports are padding");
        assert!(matches!(with(17, 24), Parsed::Found(_)));
        assert!(matches!(with(17, 0), Parsed::Found(Packet { ip: IpHeader { end: None, .. }, .. })));
    }

    #[test]
    fn options_of_ipv4_are_skipped() {
        let mut frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        frame[14] = 0x46;
        frame.splice(34..34, [1; 4]);
        frame[17] += 4;
        assert_eq!(found(&frame).map(|packet| packet.destination_port), Some(7));
    }

    #[test]
    fn fragments_are_told_apart() {
        let mut frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        for (field, part, port) in
            [(0x4000, Part::Whole, 7), (0x2000, Part::First, 7), (0x2001, Part::Later, 0), (1, Part::Later, 0)]
        {
            frame[20..22].copy_from_slice(&u16::to_be_bytes(field));
            let packet = found(&frame).unwrap();
            assert_eq!((packet.ip.part, packet.destination_port), (part, port));
        }
    }

    #[test]
    fn a_mapped_address_is_none_of_ipv6() {
        let mut frame = udp(ends(PEER_V6, 5), ends(HERE_V6, 7), 8);
        assert!(found(&frame).is_some());
        frame[38..54].copy_from_slice(&HERE.0);
        assert_eq!(parse(&frame), Parsed::Malformed);
    }

    #[test]
    fn other_frames_are_named() {
        let mut frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        frame[23] = 1;
        assert!(matches!(parse(&frame), Parsed::Other(_)));
        frame[12..14].copy_from_slice(&[0x81, 0]);
        assert_eq!(parse(&frame), Parsed::Tagged);
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(parse(&frame), Parsed::NotIp);
    }
}
