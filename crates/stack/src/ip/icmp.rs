//! ICMP and ICMPv6 errors about our packets (RFC 792, RFC 4443). The host handles all other ICMP:
//! the stack answers nothing and originates nothing.
//!
//! Any host can forge an error. Each must quote a packet that a live socket could have sent (RFC
//! 5927 §4). The protocols check that, TCP by the sequence number, too.

use super::output::{IPV4, IPV6};
use super::packet::{IcmpError, IcmpKind, Packet};
use super::{ICMP, ICMPV6};
use crate::Stack;
use crate::addr::{Address, Endpoint};
use crate::checksum::Sum;
use crate::demux::{TCP, UDP};
use crate::error::StackError;
use crate::path::Path;
use crate::time::{Instant, Span};

/// No smaller MTU is believed of an IPv4 path: such a report may be an attack on performance (RFC
/// 791 says 68, RFC 1191 §3 names 296 as the smallest in use; Linux's floor is 552). If it is true,
/// packets arrive only because routers may fragment them from then on, as on Linux.
const LEAST_MTU_V4: u32 = 552;
/// No IPv6 path has a smaller MTU (RFC 8200 §5).
const LEAST_MTU_V6: u32 = 1280;
/// How long a learned path MTU is valid (RFC 1191 §6.3, RFC 8201 §4).
const PMTU_TIME: Span = Span::from_secs(600);

impl Stack<'_> {
    #[inline(never)]
    pub(super) fn icmp_input(&mut self, now: Instant, packet: &Packet) {
        let counters = self.mem.counters;
        counters.icmp_in_msgs.inc();
        // Errors are short: at most 1280 bytes (RFC 4443 §2.4). A packet in several frames is none.
        if packet.total != u32::from(packet.len) {
            return counters.icmp_in_errors.inc();
        }
        let bytes = packet.bytes(&self.mem.frames);
        let good = match packet.protocol {
            ICMP => Sum::ZERO.bytes(bytes).is_good(),
            _ => packet.checksum_is_good(&self.mem.frames),
        };
        if !good {
            return counters.icmp_in_csum_errors.inc();
        }
        let Some((head, quoted)) = bytes.split_first_chunk::<8>() else { return counters.icmp_in_errors.inc() };
        let kind = match packet.protocol {
            ICMP => kind_v4(head),
            _ => kind_v6(head),
        };
        // Echo, neighbour discovery and the like reach the stack only by mistake.
        let Some(kind) = kind else { return };
        match kind {
            IcmpKind::TooBig(_) => &counters.icmp_in_too_big,
            _ if matches!((packet.protocol, head[0]), (ICMP, 11) | (ICMPV6, 3)) => &counters.icmp_in_time_excds,
            IcmpKind::Undelivered { .. } => &counters.icmp_in_dest_unreachs,
        }
        .inc();
        let quote = match packet.protocol {
            ICMPV6 => quote_v6(quoted),
            _ => quote_v4(quoted),
        };
        let Some(quote) = quote else { return counters.icmp_in_errors.inc() };
        // The quoted source is not the address to which the error was sent: we did not send that
        // packet.
        if quote.local.address != packet.destination {
            return counters.icmp_in_unmatched.inc();
        }
        let error = IcmpError { kind, from: packet.source, ..quote };
        match error.protocol {
            TCP => self.tcp_icmp(now, &error),
            UDP => self.udp_icmp(now, &error),
            _ => counters.icmp_in_unmatched.inc(),
        }
    }

    /// Learns a smaller path MTU from a credible error, for all paths to the destination: the quote
    /// does not show which of them the packet took. Returns whether a path MTU decreased, or became
    /// too narrow for the least that is believed. `proven`: the quoted packet could not be guessed.
    pub(crate) fn learn_pmtu(&mut self, now: Instant, destination: Address, mtu: u32, proven: bool) -> bool {
        let mut learnt = false;
        self.each_path_to(destination, |path| learnt |= path.learn_mtu(now, mtu, proven));
        learnt
    }
}

impl Path {
    fn learn_mtu(&mut self, now: Instant, mtu: u32, proven: bool) -> bool {
        let (known, was_narrow) = match proven {
            true => (self.mtu(now), self.is_narrow(now)),
            false => (self.udp_mtu(now), self.udp_is_narrow(now)),
        };
        let v4 = self.info.query.destination.to_v4().is_some();
        let floor = if v4 { LEAST_MTU_V4 } else { LEAST_MTU_V6 };
        // An old router reports none: use the floor at once (the plateaus of RFC 1191 §5 are
        // obsolete).
        let narrow = v4 && mtu < floor;
        let mtu = mtu.max(floor).min(known);
        if mtu == known && (!narrow || was_narrow) {
            return false;
        }
        let until = now + PMTU_TIME;
        if proven {
            (self.pmtu, self.pmtu_until, self.narrow) = (mtu, until, narrow);
        } else {
            (self.udp_pmtu, self.udp_pmtu_until, self.udp_narrow) = (mtu, until, narrow);
        }
        true
    }
}

/// The codes of "destination unreachable" (RFC 792, RFC 1812 §5.2.7.1), as Linux reports them to
/// programs (`icmp_err_convert`): the error, and whether it is hard. RFC 1122 §3.2.2.1 names fewer;
/// programs get the same errors as on Linux.
const UNREACHABLE_V4: [(StackError, bool); 16] = [
    (StackError::NetworkUnreachable, false),
    (StackError::HostUnreachable, false),
    (StackError::ProtocolUnreachable, true),
    (StackError::Refused, true),
    (StackError::MessageTooLong, false), // handled as `TooBig`
    (StackError::SourceRoute, false),
    (StackError::NetworkUnreachable, true), // network unknown
    (StackError::HostDown, true),           // host unknown
    (StackError::Isolated, true),
    (StackError::NetworkUnreachable, true),  // prohibited: the network,
    (StackError::HostUnreachable, true),     // the host
    (StackError::NetworkUnreachable, false), // for this type of service: the network,
    (StackError::HostUnreachable, false),    // the host
    (StackError::HostUnreachable, true),     // filtered,
    (StackError::HostUnreachable, true),     // for its precedence,
    (StackError::HostUnreachable, true),     // which is too low
];

/// Likewise for IPv6 (RFC 4443 §3.1; Linux's `icmpv6_err_convert`).
const UNREACHABLE_V6: [(StackError, bool); 7] = [
    (StackError::NetworkUnreachable, false),
    (StackError::Prohibited, true),
    (StackError::HostUnreachable, false), // beyond the scope of our address
    (StackError::HostUnreachable, false),
    (StackError::Refused, true),
    (StackError::Prohibited, true), // our address failed a policy
    (StackError::Prohibited, true), // reject route
];

/// The hop limit was exceeded in transit, or reassembly timed out.
const EXPIRED: IcmpKind = IcmpKind::Undelivered { error: StackError::HostUnreachable, hard: false };
/// The peer rejected the header, including an unknown extension or protocol (RFC 792, RFC 4443
/// §3.4).
const MALFORMED: IcmpKind = IcmpKind::Undelivered { error: StackError::Malformed, hard: true };

fn kind_v4(head: &[u8; 8]) -> Option<IcmpKind> {
    let mtu = u32::from(u16::from_be_bytes([head[6], head[7]]));
    Some(match (head[0], head[1]) {
        (3, 4) => IcmpKind::TooBig(mtu),
        (3, code) => {
            let &(error, hard) = UNREACHABLE_V4.get(usize::from(code))?;
            IcmpKind::Undelivered { error, hard }
        }
        (11, _) => EXPIRED,
        (12, _) => MALFORMED,
        _ => return None,
    })
}

fn kind_v6(head: &[u8; 8]) -> Option<IcmpKind> {
    let mtu = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    Some(match (head[0], head[1]) {
        (1, code) => {
            let &(error, hard) = UNREACHABLE_V6.get(usize::from(code)).unwrap_or(&(StackError::Malformed, true));
            IcmpKind::Undelivered { error, hard }
        }
        (2, _) => IcmpKind::TooBig(mtu),
        (3, _) => EXPIRED,
        (4, _) => MALFORMED,
        _ => return None,
    })
}

/// The error as far as the quoted packet determines it; the caller fills in the rest.
fn quote(source: Address, destination: Address, protocol: u8, transport: &[u8]) -> Option<IcmpError> {
    // At least eight bytes of the transport header are quoted (RFC 792): ports, and TCP's sequence
    // number.
    let &[a, b, c, d, s0, s1, s2, s3, ..] = transport else { return None };
    Some(IcmpError {
        kind: EXPIRED,
        local: Endpoint::new(source, u16::from_be_bytes([a, b])),
        remote: Endpoint::new(destination, u16::from_be_bytes([c, d])),
        protocol,
        seq: u32::from_be_bytes([s0, s1, s2, s3]),
        from: Address::ANY,
    })
}

fn quote_v4(bytes: &[u8]) -> Option<IcmpError> {
    let header = bytes.first_chunk::<IPV4>()?;
    let len = usize::from(header[0] & 15) * 4;
    // Only a first fragment carries ports.
    if header[0] >> 4 != 4 || len < IPV4 || u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
        return None;
    }
    let [source, destination] =
        [12, 16].map(|at| Address::v4([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    quote(source, destination, header[9], bytes.get(len..)?)
}

fn quote_v6(bytes: &[u8]) -> Option<IcmpError> {
    let (header, rest) = bytes.split_first_chunk::<IPV6>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| header[at..at + 16].try_into().map(Address);
    let (source, destination) = (address(8).ok()?, address(24).ok()?);
    // The only extension header that we ever send is the fragment header.
    let (protocol, rest) = match header[6] {
        44 => {
            let (fragment, rest) = rest.split_first_chunk::<8>()?;
            if u16::from_be_bytes([fragment[2], fragment[3]]) & !7 != 0 {
                return None;
            }
            (fragment[0], rest)
        }
        other => (other, rest),
    };
    quote(source, destination, protocol, rest)
}
