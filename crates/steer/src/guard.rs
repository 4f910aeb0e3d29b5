//! guard: which frames a lane may send. TCP and UDP over IPv4 and IPv6, from an address and
//! Ethernet address of the host and a port that the lane owns.
//!
//! The program writes whole frames and is not trusted: what the receiver will see counts, not what
//! the frame seems to say. The first rule that a frame breaks is the reason of its refusal.

use crate::counters::GuardRefusal;
use crate::fragments::{self, Part};
use crate::handshake::note_answer;
use crate::header::ETHERNET;
use crate::ownership::{flow_of, owns};
use crate::parse::{Packet, Parsed, macs, parse};
use crate::segment::{Role, segment_of};
use crate::tables::{Hop, HopKey, LaneNumber, NicIndex, SourceKey, Tables};

/// The shortest frame on an Ethernet, without its checksum (IEEE 802.3). A shorter one that leaves
/// is filled up with zeros.
pub const LEAST_FRAME: usize = 60;

/// How a frame leaves a lane.
#[derive(Clone, Copy, Debug)]
pub struct FrameDeparture {
    /// The time, of a clock that is never set.
    pub now_ns: u64,
    /// A VLAN tag beside the frame.
    pub tag: Option<u16>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It leaves.
    Out {
        /// By this network card.
        nic: NicIndex,
        /// With these Ethernet addresses, not its own.
        path: Option<Hop>,
    },
    /// It is dropped.
    Refused(GuardRefusal),
}

/// A packet that may leave.
pub(crate) struct Checked {
    pub(crate) nic: NicIndex,
    pub(crate) path: Option<Hop>,
    pub(crate) packet: Packet,
}

/// Judges a frame that a lane sends.
pub fn guard(tables: &mut Tables, lane: LaneNumber, frame: &[u8], departure: &FrameDeparture) -> GuardVerdict {
    let checked = check(tables, lane, frame, departure);
    let checked = checked.and_then(|checked| {
        let is_short = longest_frame(tables, checked.nic).is_some_and(|most| frame.len() <= most);
        if is_short { Ok(checked) } else { Err(GuardRefusal::Length) }
    });
    count(tables, lane, checked, 1, frame.len() as u64)
}

/// The longest frame that a network card sends.
pub(crate) fn longest_frame(tables: &Tables, nic: NicIndex) -> Option<usize> {
    tables.nics.get(&nic).map(|nic| nic.mtu as usize + ETHERNET)
}

/// Counts what becomes of a frame.
pub(crate) fn count(
    tables: &mut Tables,
    lane: LaneNumber,
    checked: Result<Checked, GuardRefusal>,
    packets: u64,
    bytes: u64,
) -> GuardVerdict {
    let counters = tables.lane_counters.entry(lane).or_default();
    match checked {
        Ok(Checked { nic, path, .. }) => {
            counters.out_packets += packets;
            counters.out_bytes += bytes;
            GuardVerdict::Out { nic, path }
        }
        Err(refusal) => {
            counters.refused[refusal as usize] += packets;
            GuardVerdict::Refused(refusal)
        }
    }
}

/// The rules that hold for every frame.
pub(crate) fn check(
    tables: &mut Tables,
    lane: LaneNumber,
    frame: &[u8],
    departure: &FrameDeparture,
) -> Result<Checked, GuardRefusal> {
    // A frame of a VLAN is none of the network card's own.
    if departure.tag.is_some() {
        return Err(GuardRefusal::Protocol);
    }
    let (_, mac) = macs(frame).ok_or(GuardRefusal::Malformed)?;
    let packet = match parse(frame) {
        Parsed::Malformed => return Err(GuardRefusal::Malformed),
        // A lane's stack always states where its packets end.
        Parsed::Found(Packet { ip, .. }) | Parsed::Other(ip) if ip.end.is_none() => {
            return Err(GuardRefusal::Malformed);
        }
        // Later fragments may overwrite such ports, and need not name the same protocol.
        Parsed::Found(Packet { ip, .. }) | Parsed::Other(ip) if ip.is_behind => return Err(GuardRefusal::Fragment),
        // ARP, neighbour discovery, ICMP, DHCP's raw packets are the host's.
        Parsed::Other(_) | Parsed::NotIp | Parsed::Tagged => return Err(GuardRefusal::Protocol),
        // An option may be a source route, which names further hosts (RFC 791 section 3.1).
        Parsed::Found(packet) if packet.ip.has_options => return Err(GuardRefusal::Protocol),
        Parsed::Found(packet) => packet,
    };
    let nic = *tables.sources.get(&SourceKey { address: packet.ip.source, mac }).ok_or(GuardRefusal::Source)?;
    let datagram = (lane, packet.datagram());
    if packet.ip.part == Part::Later {
        // It has no ports: the first one, with the same identification, has shown them.
        let first = tables.sent_fragments.get(&datagram);
        let is_led = first.is_some_and(|&seen_ns| fragments::is_fresh(seen_ns, departure.now_ns));
        return if is_led { Ok(Checked { nic, path: None, packet }) } else { Err(GuardRefusal::Fragment) };
    }
    if !owns(tables, lane, &packet) {
        return Err(GuardRefusal::Port);
    }
    let path = path_of_answer(tables, lane, &packet, frame);
    if packet.ip.part == Part::First {
        tables.sent_fragments.insert(datagram, departure.now_ns);
    }
    Ok(Checked { nic: path.map_or(nic, |hop| hop.nic), path, packet })
}

/// The host's path to a peer, for an answer to a SYN between the ends of another lane's flow.
///
/// The lane may know its own path from the SYN alone, which may be forged, and a station that sees
/// the answer can end the other lane's flow. So the answer takes the path that the host has found,
/// as the flow does. A path by a network card that is no longer accelerated, or has another address
/// now, is not used.
fn path_of_answer(tables: &mut Tables, lane: LaneNumber, packet: &Packet, frame: &[u8]) -> Option<Hop> {
    let segment = segment_of(packet, frame);
    let is_noted = segment.role == Role::Answers && note_answer(&mut tables.flows, &flow_of(packet), lane, &segment);
    let (source, destination) = (packet.ip.source, packet.ip.destination);
    let hop = tables.hops.get(&HopKey { source, destination }).filter(|_| is_noted)?;
    let nic = tables.sources.get(&SourceKey { address: source, mac: hop.source })?;
    (*nic == hop.nic).then_some(*hop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::LIFE_NS;
    use crate::tables::{Flow, FlowKey, Handshake, Owned, OwnedKey, Protocol};
    use crate::testing::{HERE, HERE_V6, NIC, NIC_MAC, PEER, PEER_V6, ends, host, tcp, udp};
    use tickwire_stack::addr::Mac;

    const DEPARTURE: FrameDeparture = FrameDeparture { now_ns: 5, tag: None };
    const OUT: GuardVerdict = GuardVerdict::Out { nic: NIC, path: None };

    /// A host where lane 77 owns port 7 of both families and protocols.
    fn owned_host() -> Tables {
        let mut tables = host();
        for (here, protocol) in [(HERE, Protocol::Udp), (HERE_V6, Protocol::Udp), (HERE, Protocol::Tcp)] {
            tables.owned.insert(OwnedKey { lane: 77, protocol, local: ends(here, 7) }, Owned::Whole);
        }
        tables
    }

    fn with(at: usize, bytes: &[u8]) -> alloc::vec::Vec<u8> {
        let mut frame = udp(ends(HERE, 7), ends(PEER, 5), 64);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    }

    #[test]
    fn what_a_lane_owns_leaves_and_everything_else_is_refused_for_a_reason() {
        let mut tables = owned_host();
        let mut sent = |frame: &[u8]| guard(&mut tables, 77, frame, &DEPARTURE);
        assert_eq!(sent(&udp(ends(HERE, 7), ends(PEER, 5), 64)), OUT);
        assert_eq!(sent(&udp(ends(HERE_V6, 7), ends(PEER_V6, 5), 64)), OUT);
        for (frame, refusal) in [
            (with(6, &[2, 9, 9, 9, 9, 9]), GuardRefusal::Source),
            (with(26, &[10, 77, 0, 9]), GuardRefusal::Source),
            (with(34, &[0, 53]), GuardRefusal::Port),
            (with(23, &[1]), GuardRefusal::Protocol),
            (with(12, &[8, 6]), GuardRefusal::Protocol),
            (with(12, &[0x81, 0]), GuardRefusal::Protocol),
            (with(14, &[0x41]), GuardRefusal::Malformed),
            (with(16, &[0, 0]), GuardRefusal::Malformed),
            (with(20, &[0, 9]), GuardRefusal::Fragment),
            (udp(ends(HERE, 7), ends(PEER, 5), 1473), GuardRefusal::Length),
        ] {
            assert_eq!(sent(&frame), GuardVerdict::Refused(refusal));
        }
        assert_eq!(tables.lane_counters[&77].refused, [2, 3, 2, 1, 1, 1, 0]);
        assert_eq!(tables.lane_counters[&77].out_packets, 2);
    }

    #[test]
    fn ports_that_a_later_fragment_may_overwrite_are_refused() {
        let mut tables = owned_host();
        let mut frame = udp(ends(HERE_V6, 7), ends(PEER_V6, 5), 8);
        frame[20] = 44;
        frame[19] += 16;
        frame.splice(54..54, [60, 0, 0, 1, 0, 0, 0, 7, 17, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(guard(&mut tables, 77, &frame, &DEPARTURE), GuardVerdict::Refused(GuardRefusal::Fragment));
    }

    #[test]
    fn a_packet_with_options_of_ipv4_which_may_be_a_source_route_is_refused() {
        let mut tables = owned_host();
        let mut frame = udp(ends(HERE, 7), ends(PEER, 5), 8);
        frame[14] += 2;
        frame[17] += 8;
        frame.splice(34..34, [131, 7, 4, 10, 77, 0, 9, 0]);
        assert_eq!(guard(&mut tables, 77, &frame, &DEPARTURE), GuardVerdict::Refused(GuardRefusal::Protocol));
    }

    #[test]
    fn a_packet_for_the_hosts_of_a_routing_header_is_refused() {
        let mut tables = owned_host();
        let mut frame = udp(ends(HERE_V6, 7), ends(PEER_V6, 5), 8);
        frame[20] = 43;
        frame[19] += 8;
        frame.splice(54..54, [17, 0, 4, 1, 0, 0, 0, 0]);
        assert_eq!(guard(&mut tables, 77, &frame, &DEPARTURE), GuardVerdict::Refused(GuardRefusal::Protocol));
        frame[54 + 3] = 0;
        assert_eq!(guard(&mut tables, 77, &frame, &DEPARTURE), OUT, "it has no segments left");
    }

    #[test]
    fn later_fragments_leave_for_a_second_after_the_lanes_first_one() {
        let mut tables = owned_host();
        let (first, later) = (with(20, &[0x20, 0]), with(20, &[0, 9]));
        let mut at =
            |lane, frame: &[u8], now_ns| guard(&mut tables, lane, frame, &FrameDeparture { now_ns, ..DEPARTURE });
        assert_eq!(at(77, &first, 5), OUT);
        assert_eq!(at(77, &later, 6), OUT);
        assert_eq!(at(78, &later, 6), GuardVerdict::Refused(GuardRefusal::Fragment));
        assert_eq!(at(77, &later, 5 + LIFE_NS), GuardVerdict::Refused(GuardRefusal::Fragment));
    }

    #[test]
    fn an_answer_between_the_ends_of_anothers_flow_takes_the_hosts_path() {
        let mut tables = owned_host();
        let answer = tcp(ends(HERE, 7), ends(PEER, 5), 0x12, 900, 101);
        assert_eq!(guard(&mut tables, 77, &answer, &DEPARTURE), OUT, "there is no such flow");
        let flow = FlowKey { protocol: Protocol::Tcp, local: ends(HERE, 7), remote: ends(PEER, 5) };
        tables.flows.insert(flow, Flow::new(Some(78)));
        let hop = Hop { destination: Mac([2, 0, 0, 0, 0, 2]), source: NIC_MAC, nic: NIC };
        tables.hops.insert(HopKey { source: HERE, destination: PEER }, hop);
        assert_eq!(guard(&mut tables, 77, &answer, &DEPARTURE), GuardVerdict::Out { nic: NIC, path: Some(hop) });
        let expected = Flow { owner: Some(78), next: 101, handshake: Handshake::Answered { answer: 901 } };
        assert_eq!(tables.flows[&flow], expected);
        tables.hops.insert(HopKey { source: HERE, destination: PEER }, Hop { nic: NIC + 1, ..hop });
        assert_eq!(guard(&mut tables, 77, &answer, &DEPARTURE), OUT, "not by a network card that is not the source's");
    }
}
