//! Which lanes get a copy of a multicast datagram: those that joined its group, at its port, on the
//! network card. The kernel keeps the original. The lanes' stacks filter sources (RFC 3376, RFC
//! 3810).
//!
//! Later fragments follow the first one of their datagram, which alone names the port. Those that
//! arrive before it go to all lanes that joined the group at any port, and their stacks drop what
//! turns out not to be for them. A flood of fragments without a first one would fill these lanes'
//! frames, so [`MOST_EARLY`] a second are copied that no first one has confirmed.

use crate::fragments::{Part, is_fresh};
use crate::parse::Packet;
use crate::tables::{GroupCourse, GroupFragments, GroupKey, LaneNumber, MAX_MEMBERS, NicIndex, Protocol, Tables};
use alloc::vec::Vec;
use tickwire_stack::addr::Endpoint;

/// At most so many early fragments of a group are copied in a second before first ones show that
/// earlier ones were for a lane: eleven datagrams of 64 KB whose fragments arrive in reverse order,
/// and a quarter of the frames that a lane can receive into.
pub(crate) const MOST_EARLY: u32 = 512;

/// The lanes that get a copy of a datagram to a group.
pub(crate) fn members(tables: &mut Tables, packet: &Packet, nic: NicIndex, now_ns: u64) -> Vec<LaneNumber> {
    let group = packet.ip.destination;
    if packet.protocol != Protocol::Udp || !group.is_multicast() {
        return Vec::new();
    }
    let port = match packet.ip.part {
        Part::Later => known_port(tables, packet, now_ns),
        // Port 0 is no port (RFC 768), and here it stands for any.
        Part::Whole | Part::First if packet.destination_port == 0 => return Vec::new(),
        Part::Whole | Part::First => Some(packet.destination_port),
    };
    let key = GroupKey { nic, group: Endpoint::new(group, port.unwrap_or(0)) };
    let lanes = tables.groups.get(&key).map(|group| group.lanes.clone());
    if packet.ip.part == Part::First {
        note_first(tables, packet, nic, lanes.is_some(), now_ns);
    }
    let Some(mut lanes) = lanes else { return Vec::new() };
    if port.is_none() && !may_be_early(tables, packet, &key, now_ns) {
        tables.counters.stray_fragments += 1;
        return Vec::new();
    }
    if lanes.len() > MAX_MEMBERS {
        lanes.truncate(MAX_MEMBERS);
        tables.counters.stray_fragments += 1;
    }
    lanes
}

/// The port that the first fragment of a later one's datagram has named.
fn known_port(tables: &Tables, packet: &Packet, now_ns: u64) -> Option<u16> {
    let known = tables.group_fragments.get(&packet.datagram())?;
    match known.course {
        GroupCourse::Led(port) if is_fresh(known.seen_ns, now_ns) => Some(port),
        _ => None,
    }
}

/// Notes a first fragment, also when no lane has joined at its port: its later ones are then not
/// taken for early ones. If lanes have, it confirms those that arrived before.
fn note_first(tables: &mut Tables, packet: &Packet, nic: NicIndex, is_joined: bool, now_ns: u64) {
    let group = Endpoint::new(packet.ip.destination, 0);
    let Some(any) = tables.groups.get_mut(&GroupKey { nic, group }) else { return };
    let course = GroupCourse::Led(packet.destination_port);
    let before = tables.group_fragments.insert(packet.datagram(), GroupFragments { seen_ns: now_ns, course });
    if let Some(GroupFragments { seen_ns, course: GroupCourse::Early(early) }) = before
        && is_joined
        && is_fresh(seen_ns, now_ns)
    {
        any.early = any.early.saturating_sub(early.into());
    }
}

/// Counts an early fragment; false if there are too many.
fn may_be_early(tables: &mut Tables, packet: &Packet, any: &GroupKey, now_ns: u64) -> bool {
    let Some(any) = tables.groups.get_mut(any) else { return false };
    if !is_fresh(any.since_ns, now_ns) {
        any.since_ns = now_ns;
        any.early = 0;
    }
    if any.early >= MOST_EARLY {
        return false;
    }
    any.early += 1;
    let fragments = tables.group_fragments.entry(packet.datagram());
    let new = GroupFragments { seen_ns: now_ns, course: GroupCourse::Early(1) };
    fragments
        .and_modify(|known| match &mut known.course {
            GroupCourse::Early(early) if is_fresh(known.seen_ns, now_ns) => *early = early.saturating_add(1),
            _ => *known = new,
        })
        .or_insert(new);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::LIFE_NS;
    use crate::parse::{Parsed, parse};
    use crate::tables::Group;
    use crate::testing::{GROUP, NIC, PEER, ends, udp};

    fn joined(port: u16, lanes: &[LaneNumber]) -> (GroupKey, Group) {
        (GroupKey { nic: NIC, group: ends(GROUP, port) }, Group { lanes: lanes.to_vec(), ..Group::default() })
    }

    /// A datagram, or a fragment of one, to a port of the group.
    fn packet(port: u16, fragment: u16, id: u8) -> Packet {
        let mut frame = udp(ends(PEER, 5), ends(GROUP, port), 8);
        frame[19] = id;
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        let Parsed::Found(packet) = parse(&frame) else { panic!("a datagram") };
        packet
    }

    const FIRST: u16 = 0x2000;
    const LATER: u16 = 1;

    #[test]
    fn members_at_the_port_get_a_copy() {
        let mut tables = Tables { groups: [joined(9, &[77, 78])].into(), ..Tables::default() };
        assert_eq!(members(&mut tables, &packet(9, 0, 0), NIC, 5), [77, 78]);
        assert!(members(&mut tables, &packet(8, 0, 0), NIC, 5).is_empty());
        assert!(members(&mut tables, &packet(9, 0, 0), NIC + 1, 5).is_empty());
    }

    #[test]
    fn later_fragments_follow_the_first_and_early_ones_go_to_all() {
        let groups = [joined(9, &[77]), joined(8, &[78]), joined(0, &[77, 78])].into();
        let mut tables = Tables { groups, ..Tables::default() };
        assert_eq!(members(&mut tables, &packet(9, LATER, 1), NIC, 5), [77, 78], "whose it is, is not known");
        assert_eq!(members(&mut tables, &packet(9, FIRST, 1), NIC, 6), [77]);
        assert_eq!(members(&mut tables, &packet(9, LATER, 1), NIC, 7), [77]);
        assert!(members(&mut tables, &packet(7, FIRST, 2), NIC, 8).is_empty());
        assert!(members(&mut tables, &packet(7, LATER, 2), NIC, 9).is_empty(), "of a port of no lane");
        assert_eq!(members(&mut tables, &packet(9, LATER, 1), NIC, 6 + LIFE_NS), [77, 78], "too old");
    }

    #[test]
    fn early_fragments_are_bounded_and_first_ones_confirm_them() {
        let groups = [joined(9, &[77]), joined(0, &[77])].into();
        let mut tables = Tables { groups, ..Tables::default() };
        let mut copied = |id, fragment, now| members(&mut tables, &packet(9, fragment, id), NIC, now).len();
        let now = 2 * LIFE_NS;
        assert_eq!((0..600).map(|_| copied(1, LATER, now)).sum::<usize>(), 512);
        assert_eq!(copied(1, FIRST, now), 1);
        assert_eq!(copied(2, LATER, now), 1, "the others were for a lane");
        assert_eq!((0..600).map(|_| copied(3, LATER, now)).sum::<usize>(), 511);
        assert_eq!(copied(3, LATER, now + LIFE_NS), 1, "another second");
        assert_eq!(tables.counters.stray_fragments, 88 + 89);
    }

    #[test]
    fn lanes_beyond_the_room_for_them_get_no_early_fragments() {
        let lanes: Vec<_> = (1..=20).collect();
        let mut tables = Tables { groups: [joined(0, &lanes)].into(), ..Tables::default() };
        assert_eq!(members(&mut tables, &packet(9, LATER, 1), NIC, 5), lanes[..16]);
        assert_eq!(tables.counters.stray_fragments, 1);
        assert!(members(&mut tables, &packet(0, 0, 1), NIC, 5).is_empty(), "port 0 is no port");
    }
}
