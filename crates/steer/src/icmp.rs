//! Which flow an ICMP error is about: the one of the packet that it quotes (RFC 792, RFC 4443
//! section 3).
//!
//! The quoted packet must be one that this host has sent from the address to which the error comes.
//! An error is never longer than the least MTU (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4), so
//! one in fragments is none of ours: the kernel gets all of it.

use crate::fragments::Part;
use crate::header::header;
use crate::parse::{IpHeader, Packet, Parsed, parse_ip};
use crate::segment::{Role, Segment};
use crate::tables::{FlowKey, Protocol};
use core::ops::RangeInclusive;
use tickwire_stack::addr::Family;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Destination unreachable, time exceeded, parameter problem.
const ERRORS: [u8; 3] = [3, 11, 12];
/// Destination unreachable, packet too big, time exceeded, parameter problem.
const ERRORS_V6: RangeInclusive<u8> = 1..=4;

/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// Of the quoted transport header: the ports, and the sequence number of TCP behind them.
const PORTS: usize = 4;
const SEQUENCE: usize = 4;

/// The flow of the packet that an ICMP error quotes, seen from this host, and which segment that
/// was.
pub(crate) fn quoted_flow(outer: &IpHeader, frame: &[u8]) -> Option<(FlowKey, Segment)> {
    let [kind, ..] = header::<HEADER>(frame, outer.transport)?;
    let family = outer.source.family();
    let is_error = match family {
        Family::V4 => outer.protocol == ICMP && ERRORS.contains(&kind),
        Family::V6 => outer.protocol == ICMPV6 && ERRORS_V6.contains(&kind),
    };
    let quote = outer.transport + HEADER;
    if !is_error || outer.part != Part::Whole || outer.is_behind || outer.ends_before(quote) {
        return None;
    }
    let Parsed::Found(quoted) = parse_ip(frame, quote, family) else { return None };
    let Packet { ip, protocol, .. } = quoted;
    if ip.part == Part::Later || ip.source != outer.destination || outer.ends_before(ip.transport + PORTS) {
        return None;
    }
    let flow = FlowKey { protocol, local: quoted.source(), remote: quoted.destination() };
    let sequence = header(frame, ip.transport + PORTS).map(u32::from_be_bytes);
    let segment = match sequence {
        Some(sequence) if protocol == Protocol::Tcp && !outer.ends_before(ip.transport + PORTS + SEQUENCE) => {
            Segment { role: Role::Quoted, sequence, acknowledged: 0 }
        }
        _ => Segment::default(),
    };
    Some((flow, segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::testing::{HERE, HERE_V6, PEER, PEER_V6, ROUTER, ROUTER_V6, ends, error, tcp, udp};

    fn quoted(frame: &[u8]) -> Option<(FlowKey, Segment)> {
        let Parsed::Other(ip) = parse(frame) else { panic!("ICMP") };
        quoted_flow(&ip, frame)
    }

    #[test]
    fn an_error_is_about_the_flow_of_the_packet_that_it_quotes() {
        for (here, peer, router, kind) in [(HERE, PEER, ROUTER, 3), (HERE_V6, PEER_V6, ROUTER_V6, 2)] {
            let sent = tcp(ends(here, 7), ends(peer, 5), 0x10, 100, 200);
            let (flow, segment) = quoted(&error(router, here, kind, &sent)).unwrap();
            assert_eq!(flow, FlowKey { protocol: Protocol::Tcp, local: ends(here, 7), remote: ends(peer, 5) });
            assert_eq!((segment.role, segment.sequence), (Role::Quoted, 100));
        }
    }

    #[test]
    fn other_messages_and_strange_quotes_are_about_none() {
        let sent = udp(ends(HERE, 7), ends(PEER, 5), 8);
        assert_eq!(quoted(&error(ROUTER, HERE, 8, &sent)), None, "an echo request");
        let others = udp(ends(PEER, 7), ends(PEER, 5), 8);
        assert_eq!(quoted(&error(ROUTER, HERE, 3, &others)), None, "not sent by the receiver");
        let mut later = sent.clone();
        later[21] = 1;
        assert_eq!(quoted(&error(ROUTER, HERE, 3, &later)), None, "without ports");
        let mut fragment = error(ROUTER, HERE, 3, &sent);
        fragment[20] = 0x20;
        assert_eq!(quoted(&fragment), None, "the first fragment of an error");
        let mut cut = error(ROUTER, HERE, 3, &sent);
        cut[17] = 20 + 8 + 20 + 3;
        assert_eq!(quoted(&cut), None, "the ports are padding");
        cut[17] += 1;
        assert!(quoted(&cut).is_some());
    }
}
