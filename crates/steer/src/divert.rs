//! divert: whether a received frame belongs to the kernel, to a lane, or to the kernel with copies
//! to lanes.
//!
//! Only what an accelerated socket has claimed is taken from the kernel. The order: tags, then
//! groups or this host; of what is for this host later fragments follow their first one, and the
//! rest is looked up as a flow, an ICMP error as the flow that it quotes.
//!
//! Where one place sees all frames, it is [`divert`]. On Linux XDP sees them earlier but cannot
//! copy: there [`divert_unicast`] sees them first, and [`divert_groups`] what that has left to the
//! kernel.

use crate::fragments::Part;
use crate::handshake::Kernel;
use crate::merged::{Merged, weight};
use crate::parse::{Packet, Parsed, macs, parse};
use crate::segment::segment_of;
use crate::tables::{FlowKey, LaneNumber, NicIndex, Tables};
use crate::{flows, fragments, groups, icmp, vlan};
use alloc::vec::Vec;

/// How a frame has arrived.
#[derive(Clone, Copy)]
pub struct FrameArrival<'a> {
    /// The network card.
    pub nic: NicIndex,
    /// The time, of a clock that is never set.
    pub now_ns: u64,
    /// The VLAN tag that the network card has taken out of the frame.
    pub tag: Option<u16>,
    /// What the receiver has merged into this frame.
    pub merged: Option<Merged>,
    /// The kernel's sockets.
    pub kernel: &'a dyn Kernel,
}

/// Where a frame goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DivertVerdict {
    /// To the kernel, as without divert.
    Kernel {
        /// Copies of it go to these lanes.
        copies: Vec<LaneNumber>,
    },
    /// To this lane alone.
    Lane(LaneNumber),
}

impl DivertVerdict {
    const KERNEL: Self = Self::Kernel { copies: Vec::new() };
}

/// Judges a received frame, where no other divert has seen it.
pub fn divert(tables: &mut Tables, frame: &[u8], arrival: &FrameArrival<'_>) -> DivertVerdict {
    if vlan::is_of_other_vlan(arrival.tag) {
        tables.counters.vlan += 1;
        tables.counters.passed += 1;
        return DivertVerdict::KERNEL;
    }
    let parsed = parse(frame);
    if let Some(lane) = take(tables, frame, &parsed, arrival) {
        return DivertVerdict::Lane(lane);
    }
    let copies = copy(tables, frame, &parsed, arrival);
    count_passed(tables, &parsed);
    DivertVerdict::Kernel { copies }
}

/// Judges a received frame where none can be copied: groups are left to [`divert_groups`]. So are
/// frames whose tag carries a priority alone, and they are counted there.
pub fn divert_unicast(tables: &mut Tables, frame: &[u8], arrival: &FrameArrival<'_>) -> DivertVerdict {
    let parsed = parse(frame);
    if let Some(lane) = take(tables, frame, &parsed, arrival) {
        return DivertVerdict::Lane(lane);
    }
    if parsed != Parsed::Tagged || !vlan::carries_a_priority_alone(frame) {
        count_passed(tables, &parsed);
    }
    DivertVerdict::KERNEL
}

/// Judges a frame that [`divert_unicast`] has left to the kernel: those to groups, and those whose
/// tag carried a priority alone, which the kernel has taken out since.
pub fn divert_groups(tables: &mut Tables, frame: &[u8], arrival: &FrameArrival<'_>) -> DivertVerdict {
    if vlan::is_of_other_vlan(arrival.tag) {
        return DivertVerdict::KERNEL;
    }
    if arrival.tag.is_some() {
        return divert(tables, frame, arrival);
    }
    let copies = copy(tables, frame, &parse(frame), arrival);
    DivertVerdict::Kernel { copies }
}

/// Counts a frame that no lane takes.
fn count_passed(tables: &mut Tables, parsed: &Parsed) {
    tables.counters.vlan += u64::from(*parsed == Parsed::Tagged);
    tables.counters.passed += 1;
}

/// The lane that gets a frame alone, which is counted. A lane that has just gone gets none: the
/// kernel gets a packet that it does not know, as without divert.
fn take(tables: &mut Tables, frame: &[u8], parsed: &Parsed, arrival: &FrameArrival<'_>) -> Option<LaneNumber> {
    let lane = find(tables, frame, parsed, arrival)?;
    if !tables.lanes.contains(&lane) {
        return None;
    }
    let packet = if let Parsed::Found(packet) = parsed { Some(packet) } else { None };
    tables.counters.diverted += receive(tables, lane, packet, frame, arrival);
    Some(lane)
}

/// The lanes that get a copy of a frame, which is counted.
fn copy(tables: &mut Tables, frame: &[u8], parsed: &Parsed, arrival: &FrameArrival<'_>) -> Vec<LaneNumber> {
    let Parsed::Found(packet) = parsed else { return Vec::new() };
    let mut members = groups::members(tables, packet, arrival.nic, arrival.now_ns);
    members.retain(|lane| tables.lanes.contains(lane));
    for &lane in &members {
        tables.counters.group_copies += receive(tables, lane, Some(packet), frame, arrival);
    }
    members
}

/// Counts a frame for a lane; returns as how many packets.
fn receive(
    tables: &mut Tables,
    lane: LaneNumber,
    packet: Option<&Packet>,
    frame: &[u8],
    arrival: &FrameArrival<'_>,
) -> u64 {
    let weight = weight(packet, frame, arrival.merged);
    let counters = tables.lane_counters.entry(lane).or_default();
    counters.in_packets += weight.packets;
    counters.in_bytes += weight.bytes;
    weight.packets
}

/// The lane that a frame belongs to. Only one to an address of this host, with the network card's
/// own Ethernet address, is claimed: what is only forwarded, or not sent to this host, changes
/// nothing.
fn find(tables: &mut Tables, frame: &[u8], parsed: &Parsed, arrival: &FrameArrival<'_>) -> Option<LaneNumber> {
    let ip = match parsed {
        Parsed::Malformed | Parsed::NotIp | Parsed::Tagged => return None,
        Parsed::Found(Packet { ip, .. }) | Parsed::Other(ip) => ip,
    };
    let (mac, _) = macs(frame)?;
    if !tables.is_addressed_to_us(arrival.nic, ip.destination, mac) {
        return None;
    }
    let Parsed::Found(packet) = parsed else {
        let (flow, segment) = icmp::quoted_flow(ip, frame)?;
        return flows::lane_of(tables, &flow, &segment, arrival.kernel);
    };
    match ip.part {
        Part::Later => fragments::follow(tables, packet.datagram(), arrival.now_ns),
        Part::Whole => claimed(tables, packet, frame, arrival.kernel),
        Part::First => {
            let lane = claimed(tables, packet, frame, arrival.kernel);
            fragments::lead(tables, packet.datagram(), lane, arrival.now_ns)
        }
    }
}

/// The lane that claimed a packet with ports. Behind a fragment header and another extension header
/// they are not looked at: later fragments of such a datagram name another protocol, so they could
/// not follow.
fn claimed(tables: &mut Tables, packet: &Packet, frame: &[u8], kernel: &dyn Kernel) -> Option<LaneNumber> {
    if packet.ip.is_behind {
        return None;
    }
    let flow = FlowKey { protocol: packet.protocol, local: packet.destination(), remote: packet.source() };
    flows::lane_of(tables, &flow, &segment_of(packet, frame), kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Group, GroupKey, PortKey, PortShare, Protocol};
    use crate::testing::{GROUP, HERE, HERE_V6, NIC, NoSockets, PEER, PEER_V6, ROUTER, ends, error, host, udp};
    use alloc::vec;

    const ARRIVAL: FrameArrival<'static> =
        FrameArrival { nic: NIC, now_ns: 5, tag: None, merged: None, kernel: &NoSockets };

    /// A host where lane 77 has port 7 of both families, and joined the group at port 9.
    fn claimed_host() -> Tables {
        let mut tables = host();
        for here in [HERE, HERE_V6] {
            let key = PortKey { protocol: Protocol::Udp, local: ends(here, 7) };
            tables.ports.insert(key, PortShare { lanes: vec![77], settled: 1 });
        }
        for port in [9, 0] {
            let group = GroupKey { nic: NIC, group: ends(GROUP, port) };
            tables.groups.insert(group, Group { lanes: vec![77, 78], ..Group::default() });
        }
        tables
    }

    #[test]
    fn claimed_packets_are_a_lanes_and_all_others_the_kernels() {
        let mut tables = claimed_host();
        for (from, to) in [(PEER, HERE), (PEER_V6, HERE_V6)] {
            assert_eq!(divert(&mut tables, &udp(ends(from, 5), ends(to, 7), 8), &ARRIVAL), DivertVerdict::Lane(77));
            assert_eq!(divert(&mut tables, &udp(ends(from, 5), ends(to, 8), 8), &ARRIVAL), DivertVerdict::KERNEL);
        }
        assert_eq!((tables.counters.diverted, tables.counters.passed), (2, 2));
        assert_eq!(tables.lane_counters[&77].in_bytes, 50 + 70);
    }

    #[test]
    fn a_lane_that_has_gone_gets_nothing() {
        let mut tables = claimed_host();
        tables.lanes.clear();
        assert_eq!(divert(&mut tables, &udp(ends(PEER, 5), ends(HERE, 7), 8), &ARRIVAL), DivertVerdict::KERNEL);
        assert_eq!(divert(&mut tables, &udp(ends(PEER, 5), ends(GROUP, 9), 8), &ARRIVAL), DivertVerdict::KERNEL);
        assert_eq!((tables.counters.diverted, tables.counters.group_copies, tables.counters.passed), (0, 0, 2));
    }

    #[test]
    fn members_of_a_group_get_copies_and_the_kernel_the_original() {
        let mut tables = claimed_host();
        let frame = udp(ends(PEER, 5), ends(GROUP, 9), 8);
        let copied = DivertVerdict::Kernel { copies: vec![77, 78] };
        assert_eq!(divert_unicast(&mut tables, &frame, &ARRIVAL), DivertVerdict::KERNEL);
        assert_eq!(divert_groups(&mut tables, &frame, &ARRIVAL), copied);
        assert_eq!(divert(&mut tables, &frame, &ARRIVAL), copied);
        assert_eq!((tables.counters.group_copies, tables.counters.passed), (4, 2));
    }

    #[test]
    fn tagged_frames_are_the_kernels_except_those_of_no_vlan() {
        let mut tables = claimed_host();
        let frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        let of = |tag| FrameArrival { tag: Some(tag), ..ARRIVAL };
        assert_eq!(divert(&mut tables, &frame, &of(5)), DivertVerdict::KERNEL);
        assert_eq!(divert_groups(&mut tables, &frame, &of(5)), DivertVerdict::KERNEL);
        assert_eq!(divert(&mut tables, &frame, &of(0xe000)), DivertVerdict::Lane(77));
        assert_eq!(divert_groups(&mut tables, &frame, &of(0xe000)), DivertVerdict::Lane(77));
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(divert_unicast(&mut tables, &tagged, &ARRIVAL), DivertVerdict::KERNEL);
        assert_eq!((tables.counters.vlan, tables.counters.passed), (2, 2));
    }

    #[test]
    fn a_frame_of_no_vlan_is_counted_once() {
        let mut tables = claimed_host();
        for (port, counted) in [(7, (1, 0)), (8, (1, 1))] {
            let untagged = udp(ends(PEER, 5), ends(HERE, port), 8);
            let mut tagged = untagged.clone();
            tagged.splice(12..12, [0x81, 0, 0xe0, 0]);
            assert_eq!(divert_unicast(&mut tables, &tagged, &ARRIVAL), DivertVerdict::KERNEL);
            divert_groups(&mut tables, &untagged, &FrameArrival { tag: Some(0xe000), ..ARRIVAL });
            assert_eq!((tables.counters.diverted, tables.counters.passed), counted);
        }
        assert_eq!(tables.counters.vlan, 0);
    }

    #[test]
    fn what_was_not_sent_to_this_host_is_not_claimed() {
        let mut tables = claimed_host();
        let frame = udp(ends(PEER, 5), ends(HERE, 7), 8);
        let mut others = frame.clone();
        others[5] = 9;
        assert_eq!(divert(&mut tables, &others, &ARRIVAL), DivertVerdict::KERNEL, "for another station");
        let elsewhere = FrameArrival { nic: NIC + 1, ..ARRIVAL };
        assert_eq!(divert(&mut tables, &frame, &elsewhere), DivertVerdict::KERNEL, "by another network card");
        tables.addresses.clear();
        assert_eq!(divert(&mut tables, &frame, &ARRIVAL), DivertVerdict::KERNEL, "for another host");
    }

    #[test]
    fn an_icmp_error_goes_to_the_lane_whose_packet_it_quotes() {
        let mut tables = claimed_host();
        let about = |port| error(ROUTER, HERE, 3, &udp(ends(HERE, port), ends(PEER, 5), 8));
        assert_eq!(divert(&mut tables, &about(7), &ARRIVAL), DivertVerdict::Lane(77));
        assert_eq!(divert(&mut tables, &about(8), &ARRIVAL), DivertVerdict::KERNEL);
    }

    #[test]
    fn fragments_follow_their_first_one() {
        let mut tables = claimed_host();
        let mut piece = |port, fragment: [u8; 2], id| {
            let mut frame = udp(ends(PEER, 5), ends(HERE, port), 8);
            frame[19] = id;
            frame[20..22].copy_from_slice(&fragment);
            divert(&mut tables, &frame, &ARRIVAL)
        };
        assert_eq!(piece(7, [0x20, 0], 1), DivertVerdict::Lane(77));
        assert_eq!(piece(9, [0, 2], 1), DivertVerdict::Lane(77), "which has no ports");
        assert_eq!(piece(8, [0x20, 0], 1), DivertVerdict::KERNEL);
        assert_eq!(piece(7, [0, 2], 1), DivertVerdict::KERNEL);
        assert_eq!(piece(7, [0, 2], 2), DivertVerdict::KERNEL);
        assert_eq!(piece(7, [0x20, 0], 2), DivertVerdict::KERNEL, "of which the kernel has a part");
    }

    #[test]
    fn a_packet_with_segments_left_is_not_for_this_host() {
        let mut tables = claimed_host();
        let mut frame = udp(ends(PEER_V6, 5), ends(HERE_V6, 7), 8);
        frame[20] = 43;
        frame[19] += 24;
        let mut routing = vec![17, 2, 4, 1];
        routing.resize(24, 0);
        frame.splice(54..54, routing);
        assert_eq!(divert(&mut tables, &frame, &ARRIVAL), DivertVerdict::KERNEL);
        frame[54 + 3] = 0;
        assert_eq!(divert(&mut tables, &frame, &ARRIVAL), DivertVerdict::Lane(77), "its last segment is this host");
    }

    #[test]
    fn ports_behind_a_fragment_header_and_another_are_not_looked_at() {
        let mut tables = claimed_host();
        let whole = udp(ends(PEER_V6, 5), ends(HERE_V6, 7), 8);
        let mut frame = whole.clone();
        frame[20] = 44;
        frame[19] += 16;
        frame.splice(54..54, [60, 0, 0, 1, 0, 0, 0, 7, 17, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(divert(&mut tables, &frame, &ARRIVAL), DivertVerdict::KERNEL);
        assert_eq!(divert(&mut tables, &whole, &ARRIVAL), DivertVerdict::Lane(77));
    }
}
