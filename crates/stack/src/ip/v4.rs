//! Parsing an IPv4 header (RFC 791 §3.1, RFC 1122 §3.2.1).

use super::input::{Arrival, Drop, Fragment, Parsed, is_source};
use super::output::IPV4;
use super::packet::Packet;
use crate::addr::Address;
use crate::checksum::Sum;
use smoltcp::wire::Ipv4Packet;

/// Parses the header in front of `bytes`, which reach to the end of the packet's first frame.
pub(super) fn parse(bytes: &[u8], arrival: &Arrival) -> Parsed {
    if bytes.len() < IPV4 {
        return Err(Drop::Truncated);
    }
    // The view's own check requires the packet in one piece, which a jumbo frame is not; our checks
    // follow.
    let view = Ipv4Packet::new_unchecked(bytes);
    let header = usize::from(view.header_len());
    let total = u32::from(view.total_len());
    if view.version() != 4 || header < IPV4 || total < header as u32 {
        return Err(Drop::Header);
    }
    if header > bytes.len() || total > arrival.available {
        return Err(Drop::Truncated);
    }
    if !Sum::ZERO.bytes(&bytes[..header]).is_good() {
        return Err(Drop::Header);
    }
    // With a source route a sender can pose as any host and still get the answers (RFC 7126 §4.3,
    // §4.4).
    if header > IPV4 && has_source_route(&bytes[IPV4..header]) {
        return Err(Drop::Header);
    }
    let (source, destination) = (Address::from(view.src_addr()), Address::from(view.dst_addr()));
    if !is_source(source) || destination.is_unspecified() || destination.is_loopback() {
        return Err(Drop::Address);
    }
    let fragment = (view.more_frags() || view.frag_offset() != 0).then(|| Fragment {
        offset: u32::from(view.frag_offset()),
        more: view.more_frags(),
        id: u32::from(view.ident()),
    });
    let packet = Packet {
        source,
        destination,
        protocol: view.next_header().into(),
        tos: bytes[1],
        ttl: view.hop_limit(),
        frame: arrival.frame,
        offset: arrival.network + header as u16,
        len: 0,
        total: total - header as u32,
        source_mac: arrival.source_mac,
        destination_mac: arrival.destination_mac,
    };
    // ICMPv6 over IPv4 is invalid (and would be checked with the wrong sum).
    if packet.protocol == super::ICMPV6 { Err(Drop::Protocol) } else { Ok((packet, fragment)) }
}

/// Whether one of the options is a source route, loose (131) or strict (137), or the options are
/// malformed.
fn has_source_route(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] | [0, ..] => return false,
            [1, ref rest @ ..] => options = rest,
            [131 | 137, ..] => return true,
            [_, len, ..] if len >= 2 && usize::from(len) <= options.len() => options = &options[usize::from(len)..],
            _ => return true,
        }
    }
}
