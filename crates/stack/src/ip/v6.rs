//! Parsing an IPv6 header and its extension headers (RFC 8200).

use super::input::{Arrival, Drop, Fragment, Parsed, is_source};
use super::output::IPV6;
use super::packet::Packet;
use crate::addr::Address;
use smoltcp::wire::Ipv6Packet;

/// Most extension headers that are walked. A legitimate packet has one or two; long chains only
/// serve attacks.
const MOST_HEADERS: usize = 6;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Parses the headers in front of `bytes`, which reach to the end of the packet's first frame. All
/// headers must be in that frame.
pub(super) fn parse(bytes: &[u8], arrival: &Arrival) -> Parsed {
    if bytes.len() < IPV6 {
        return Err(Drop::Truncated);
    }
    let view = Ipv6Packet::new_unchecked(bytes);
    let end = IPV6 as u32 + u32::from(view.payload_len());
    if view.version() != 6 {
        return Err(Drop::Header);
    }
    if end > arrival.available {
        return Err(Drop::Truncated);
    }
    let (source, destination) = (Address::from(view.src_addr()), Address::from(view.dst_addr()));
    // Mapped addresses on the wire (RFC 4291 §2.5.5.2) would pass for IPv4 ones here.
    let mapped = source.to_v4().is_some() || destination.to_v4().is_some();
    if mapped || !is_source(source) || destination.is_unspecified() || destination.is_loopback() {
        return Err(Drop::Address);
    }
    // Bounded by the packet's length and the first frame.
    let bytes = &bytes[..bytes.len().min(end as usize)];
    let Chain { protocol, offset, fragment } = walk(bytes, view.next_header().into())?;
    let packet = Packet {
        source,
        destination,
        protocol,
        tos: view.traffic_class(),
        ttl: view.hop_limit(),
        frame: arrival.frame,
        offset: arrival.network + offset as u16,
        len: 0,
        total: end - offset as u32,
        source_mac: arrival.source_mac,
        destination_mac: arrival.destination_mac,
    };
    // ICMP (version 4) over IPv6 is invalid.
    if protocol == super::ICMP { Err(Drop::Protocol) } else { Ok((packet, fragment)) }
}

struct Chain {
    protocol: u8,
    offset: usize,
    fragment: Option<Fragment>,
}

/// Walks the extension headers to the transport header or to what a fragment carries.
fn walk(bytes: &[u8], first: u8) -> Result<Chain, Drop> {
    let (mut next, mut at) = (first, IPV6);
    for number in 0..MOST_HEADERS {
        match next {
            // Only directly behind the IPv6 header (§4.1).
            HOP_BY_HOP if number > 0 => return Err(Drop::Header),
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let rest = bytes.get(at..).unwrap_or_default();
                let &[following, units, ..] = rest else { return Err(Drop::Truncated) };
                let len = (usize::from(units) + 1) * 8;
                let header = rest.get(..len).ok_or(Drop::Truncated)?;
                match next {
                    // We are no router: segments left would make us forward the packet (§4.4, RFC
                    // 5095).
                    ROUTING if header[3] != 0 => return Err(Drop::Header),
                    ROUTING => {}
                    _ => options(&header[2..])?,
                }
                (next, at) = (following, at + len);
            }
            FRAGMENT => {
                let header = bytes.get(at..at + 8).ok_or(Drop::Truncated)?;
                let field = u16::from_be_bytes([header[2], header[3]]);
                let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let fragment = Fragment { offset: u32::from(field & !7), more: field & 1 != 0, id };
                (next, at) = (header[0], at + 8);
                // A lone fragment is a whole datagram (atomic fragment, RFC 6946).
                if fragment.offset != 0 || fragment.more {
                    return Ok(Chain { protocol: next, offset: at, fragment: Some(fragment) });
                }
            }
            protocol => return Ok(Chain { protocol, offset: at, fragment: None }),
        }
    }
    Err(Drop::Header)
}

/// Checks the options of a hop-by-hop or destination header (§4.2): an unknown one may demand that
/// the packet is dropped.
fn options(mut bytes: &[u8]) -> Result<(), Drop> {
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind == 0 {
            bytes = rest;
            continue;
        }
        let (&len, rest) = rest.split_first().ok_or(Drop::Header)?;
        if kind != 1 && kind >> 6 != 0 {
            return Err(Drop::Header);
        }
        bytes = rest.get(usize::from(len)..).ok_or(Drop::Header)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(first: u8, headers: &[u8]) -> Result<(u8, usize), Drop> {
        let mut bytes = vec![0; IPV6];
        bytes.extend_from_slice(headers);
        walk(&bytes, first).map(|c| (c.protocol, c.offset - IPV6))
    }

    #[test]
    fn known_headers_are_walked_over() {
        let padding = [17, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(chain(17, &[]), Ok((17, 0)));
        assert_eq!(chain(HOP_BY_HOP, &padding), Ok((17, 8)));
        assert_eq!(chain(DESTINATION, &padding), Ok((17, 8)));
        assert_eq!(chain(ROUTING, &[6, 0, 4, 0, 0, 0, 0, 0]), Ok((6, 8)));
    }

    #[test]
    fn what_asks_to_be_routed_or_refused_is_dropped() {
        assert_eq!(chain(ROUTING, &[6, 0, 0, 1, 0, 0, 0, 0]), Err(Drop::Header), "segments left");
        assert_eq!(
            chain(DESTINATION, &[6, 0, 0xc2, 4, 0, 0, 0, 0]),
            Err(Drop::Header),
            "unknown option with action bits"
        );
        assert_eq!(chain(DESTINATION, &[6, 0, 5, 200, 0, 0, 0, 0]), Err(Drop::Header), "option longer than its header");
        let twice = [HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(chain(HOP_BY_HOP, &twice), Err(Drop::Header), "hop-by-hop twice");
        assert_eq!(chain(DESTINATION, &[17, 1, 1, 4, 0, 0, 0, 0]), Err(Drop::Truncated), "longer than the packet");
    }

    #[test]
    fn a_chain_without_end_is_dropped() {
        let headers: Vec<u8> = (0..20).flat_map(|_| [DESTINATION, 0, 1, 4, 0, 0, 0, 0]).collect();
        assert_eq!(chain(DESTINATION, &headers), Err(Drop::Header));
    }

    #[test]
    fn a_lone_fragment_is_a_whole_datagram() {
        assert_eq!(chain(FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 9]), Ok((17, 8)));
    }
}
