//! Random tables: few addresses, ports, lanes and numbers, so that frames often meet them.

use tickwire_sim::Rng;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_steer::tables::{
    AddressKey, Course, DatagramKey, EgressNic, Flow, FlowKey, Fragments, Group, GroupCourse, GroupFragments, GroupKey,
    Handshake, Hop, HopKey, LaneNumber, NicIndex, Owned, OwnedKey, PortKey, PortShare, Protocol, SourceKey, Tables,
};

/// The network cards: number, Ethernet address, MTU. Frames leave by the first one alone.
pub(crate) const NICS: [(NicIndex, Mac, u32); 2] =
    [(11, Mac([2, 0, 0, 0, 0, 0x11]), 1500), (12, Mac([2, 0, 0, 0, 0, 0x12]), 1300)];
/// A station on the cable.
pub(crate) const FAR: Mac = Mac([2, 0, 0, 0, 0, 0x21]);

pub(crate) const HOST: [Address; 2] = [Address::v4([10, 77, 0, 1]), Address::v4([10, 77, 1, 1])];
pub(crate) const HOST_V6: [Address; 2] = [v6(0xfd, 0, 1), v6(0xfd, 1, 1)];
pub(crate) const PEERS: [Address; 2] = [Address::v4([10, 77, 0, 2]), Address::v4([10, 77, 0, 3])];
pub(crate) const PEERS_V6: [Address; 2] = [v6(0xfd, 0, 2), v6(0xfd, 0, 3)];
pub(crate) const GROUPS: [Address; 2] = [Address::v4([239, 1, 2, 3]), Address::v4([224, 0, 0, 251])];
pub(crate) const GROUPS_V6: [Address; 2] = [v6(0xff, 5, 3), v6(0xff, 2, 0xfb)];

/// At the last one the kernel has a listener.
pub(crate) const LOCAL_PORTS: [u16; 4] = [7000, 7001, 7002, 7010];
/// Of the kernel's connections, in order: one that is established, one that is over, one that is
/// being opened from the second peer; and others.
pub(crate) const REMOTE_PORTS: [u16; 5] = [40000, 40001, 40002, 40003, 53];
const GROUP_PORTS: [u16; 3] = [7000, 7001, 0];

pub(crate) const LANES: [LaneNumber; 3] = [77, 78, 79];
/// A lane that has just gone: claims still name it.
pub(crate) const GONE: LaneNumber = 80;

/// Sequence numbers, among them those that fit to each other in a handshake.
pub(crate) const NUMBERS: [u32; 9] = [0, 99, 100, 101, 100 + (1 << 20), 101 + (1 << 20), 900, 901, u32::MAX];
/// Identifications of datagrams.
pub(crate) const IDS: [u32; 3] = [1, 2, 0x3ff];

const fn v6(first: u8, second: u8, last: u8) -> Address {
    Address([first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
}

/// One of several.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// True in so many of a hundred cases.
pub(crate) fn percent(rng: &mut Rng, chance: u32) -> bool {
    rng.chance(chance * 10_000)
}

/// The addresses of a family: the host's, peers', and groups'.
pub(crate) const fn family(is_v6: bool) -> [[Address; 2]; 3] {
    if is_v6 { [HOST_V6, PEERS_V6, GROUPS_V6] } else { [HOST, PEERS, GROUPS] }
}

fn protocol(rng: &mut Rng) -> Protocol {
    pick(rng, &[Protocol::Tcp, Protocol::Udp])
}

fn lane(rng: &mut Rng) -> LaneNumber {
    if percent(rng, 8) { GONE } else { pick(rng, &LANES) }
}

/// Distinct lanes, at least one.
fn lanes(rng: &mut Rng, most: u64) -> Vec<LaneNumber> {
    let mut lanes = vec![lane(rng)];
    for _ in 0..rng.below(most) {
        let another = lane(rng);
        if !lanes.contains(&another) {
            lanes.push(another);
        }
    }
    lanes
}

/// A local end, at an address of the host's or at any.
fn bound(rng: &mut Rng) -> Endpoint {
    let is_v6 = percent(rng, 40);
    let any = if is_v6 { Address::ANY } else { Address::ANY_V4 };
    let address = if percent(rng, 40) { any } else { pick(rng, &family(is_v6)[0]) };
    Endpoint::new(address, pick(rng, &LOCAL_PORTS))
}

/// The ends of a random connection.
pub(crate) fn flow(rng: &mut Rng) -> FlowKey {
    if percent(rng, 6) {
        // The kernel's, perhaps.
        let remote = Endpoint::new(pick(rng, &PEERS), pick(rng, &REMOTE_PORTS[..3]));
        return FlowKey { protocol: Protocol::Tcp, local: Endpoint::new(HOST[0], LOCAL_PORTS[3]), remote };
    }
    let [host, peers, _] = family(percent(rng, 40));
    FlowKey {
        protocol: protocol(rng),
        local: Endpoint::new(pick(rng, &host), pick(rng, &LOCAL_PORTS)),
        remote: Endpoint::new(pick(rng, &peers), pick(rng, &REMOTE_PORTS)),
    }
}

fn handshake(rng: &mut Rng) -> Handshake {
    let answer = pick(rng, &NUMBERS);
    match rng.below(7) {
        0 => Handshake::Asked,
        1 => Handshake::Followed { answer },
        2 | 3 => Handshake::Answered { answer },
        _ => Handshake::None,
    }
}

/// A datagram between a peer and the host or a group.
fn datagram(rng: &mut Rng, is_to_group: bool) -> DatagramKey {
    let [host, peers, groups] = family(percent(rng, 40));
    let protocol = if is_to_group { Protocol::Udp } else { protocol(rng) };
    let destination = pick(rng, if is_to_group { &groups } else { &host });
    DatagramKey { source: pick(rng, &peers), destination, id: pick(rng, &IDS), protocol }
}

/// When something was noted: just now, or so long ago that it no longer holds.
fn seen(rng: &mut Rng, now_ns: u64) -> u64 {
    if percent(rng, 30) { now_ns - 2_000_000_000 } else { now_ns }
}

/// Random tables.
pub(crate) fn tables(rng: &mut Rng, now_ns: u64) -> Tables {
    let mut tables = Tables { lanes: LANES.into(), ..Tables::default() };
    for (nic, mac, mtu) in NICS {
        tables.nics.insert(nic, EgressNic { mtu });
        for (at, address) in [HOST, HOST_V6].as_flattened().iter().copied().enumerate() {
            let is_own = at % 2 == nic as usize % 11;
            if percent(rng, if is_own { 95 } else { 40 }) {
                tables.addresses.insert(AddressKey { nic, address }, mac);
            }
            if percent(rng, if is_own { 95 } else { 40 }) {
                tables.sources.insert(SourceKey { address, mac }, nic);
            }
        }
    }
    for is_v6 in [false, true] {
        let [host, peers, _] = family(is_v6);
        for (source, destination) in host.into_iter().flat_map(|source| peers.map(|peer| (source, peer))) {
            if percent(rng, 60) {
                let (nic, mac, _) = pick(rng, &NICS);
                let source_mac = if percent(rng, 10) { FAR } else { mac };
                let hop = Hop { destination: Mac([2, 0, 0, 0, 0, 0x31]), source: source_mac, nic };
                tables.hops.insert(HopKey { source, destination }, hop);
            }
        }
    }
    for _ in 0..rng.below(24) {
        let owner = if percent(rng, 20) { None } else { Some(lane(rng)) };
        let key = flow(rng);
        let is_tcp = key.protocol == Protocol::Tcp;
        let handshake = if is_tcp { handshake(rng) } else { Handshake::None };
        let next = if handshake == Handshake::None { 0 } else { pick(rng, &NUMBERS) };
        tables.flows.insert(key, Flow { owner, next, handshake });
        if percent(rng, 60) {
            // Another lane has the port, too.
            let (lane, FlowKey { protocol, local, .. }) = (pick(rng, &LANES), key);
            tables.owned.insert(OwnedKey { lane, protocol, local }, Owned::Whole);
            tables.ports.insert(PortKey { protocol, local }, PortShare { lanes: vec![lane], settled: 1 });
        }
    }
    for _ in 0..rng.below(16) {
        let lanes = lanes(rng, 4);
        let settled = 1 + rng.below(lanes.len() as u64) as usize;
        tables.ports.insert(PortKey { protocol: protocol(rng), local: bound(rng) }, PortShare { lanes, settled });
    }
    for _ in 0..rng.below(6) {
        tables.handshakes.insert(flow(rng), lane(rng));
    }
    for _ in 0..rng.below(20) {
        let share = match rng.below(4) {
            0 => Owned::One(flow(rng).remote),
            1 => Owned::Flows,
            _ => Owned::Whole,
        };
        tables.owned.insert(OwnedKey { lane: pick(rng, &LANES), protocol: protocol(rng), local: bound(rng) }, share);
    }
    groups(rng, &mut tables, now_ns);
    for _ in 0..rng.below(5) {
        let course = if percent(rng, 40) { Course::Early } else { Course::Led(Some(lane(rng))) };
        tables.fragments.insert(datagram(rng, false), Fragments { seen_ns: seen(rng, now_ns), course });
        let port = pick(rng, &LOCAL_PORTS);
        let course = if percent(rng, 40) { GroupCourse::Early(3) } else { GroupCourse::Led(port) };
        tables.group_fragments.insert(datagram(rng, true), GroupFragments { seen_ns: seen(rng, now_ns), course });
        let DatagramKey { source, destination, id, protocol } = datagram(rng, false);
        let sent = DatagramKey { source: destination, destination: source, id, protocol };
        tables.sent_fragments.insert((pick(rng, &LANES), sent), seen(rng, now_ns));
    }
    tables
}

fn groups(rng: &mut Rng, tables: &mut Tables, now_ns: u64) {
    for group in [GROUPS, GROUPS_V6].as_flattened() {
        for ((nic, ..), port) in NICS.into_iter().flat_map(|nic| GROUP_PORTS.map(|port| (nic, port))) {
            if percent(rng, 40) {
                continue;
            }
            let mut lanes = lanes(rng, 4);
            let mut value = Group::default();
            if port == 0 {
                if percent(rng, 20) {
                    // More than there is room for, of which most have gone.
                    lanes.extend(1..=18);
                }
                if percent(rng, 30) {
                    // Hardly any more early ones.
                    (value.early, value.since_ns) = (508, seen(rng, now_ns));
                }
            }
            value.lanes = lanes;
            tables.groups.insert(GroupKey { nic, group: Endpoint::new(*group, port) }, value);
        }
    }
}
