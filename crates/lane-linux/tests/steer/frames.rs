//! Random frames: valid ones of every kind between the few ends that the tables know, and those
//! with faults.

use crate::world::{FAR, IDS, LANES, NICS, NUMBERS, REMOTE_PORTS, family, flow, percent, pick};
use std::collections::BTreeMap;
use tickwire_sim::Rng;
use tickwire_stack::addr::{Address, Endpoint, Family, Mac};
use tickwire_steer::Tables;
use tickwire_steer::tables::{FlowKey, Handshake, LaneNumber, Owned, OwnedKey, PortKey, Protocol};

const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
const DESTINATION: u8 = 60;

/// The longest frame with which the kernel runs a program.
pub(crate) const LONGEST: usize = 3300;

/// Whether a frame arrives or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// A frame, and what is known of it.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// The network card by which it arrives, by its place.
    pub(crate) nic: usize,
    /// The lane that sends it.
    pub(crate) lane: LaneNumber,
    /// It is a valid TCP or UDP packet.
    pub(crate) is_plain: bool,
}

/// An IP packet in the making.
struct Ip {
    is_v6: bool,
    source: Address,
    destination: Address,
}

/// What a random frame is about: the ends of a connection or port that the tables have, or others.
#[derive(Clone, Copy)]
struct About {
    ends: FlowKey,
    lane: LaneNumber,
    /// The numbers with which the peer goes on and which it acknowledges, if it opens a connection.
    next: u32,
    answer: u32,
}

/// One of the entries of a table, if there are any.
fn entry<'a, K, V>(rng: &mut Rng, table: &'a BTreeMap<K, V>) -> Option<(&'a K, &'a V)> {
    let at = rng.below(table.len().max(1) as u64);
    table.iter().nth(at as usize)
}

/// An address of the host's in the place of any.
fn near(rng: &mut Rng, local: Endpoint) -> Endpoint {
    let is_v6 = local.address.family() == Family::V6;
    let address = if local.address.is_unspecified() { pick(rng, &family(is_v6)[0]) } else { local.address };
    Endpoint { address, ..local }
}

/// A random peer's end, of the family of a local one.
fn peer(rng: &mut Rng, local: Endpoint) -> Endpoint {
    let is_v6 = local.address.family() == Family::V6;
    Endpoint::new(pick(rng, &family(is_v6)[1]), pick(rng, &REMOTE_PORTS))
}

fn about(rng: &mut Rng, tables: &Tables, way: Way) -> About {
    let mut about =
        About { ends: flow(rng), lane: pick(rng, &LANES), next: pick(rng, &NUMBERS), answer: pick(rng, &NUMBERS) };
    let which = rng.below(100);
    match way {
        _ if which < 40 => {
            if let Some((ends, flow)) = entry(rng, &tables.flows) {
                about = About { ends: *ends, next: flow.next, ..about };
                if let Handshake::Followed { answer } | Handshake::Answered { answer } = flow.handshake {
                    about.answer = answer;
                }
            }
        }
        Way::In if which < 75 => {
            if let Some((&PortKey { protocol, local }, _)) = entry(rng, &tables.ports) {
                let local = near(rng, local);
                about.ends = FlowKey { protocol, local, remote: peer(rng, local) };
            }
        }
        Way::Out if which < 90 => {
            if let Some((&OwnedKey { lane, protocol, local }, owned)) = entry(rng, &tables.owned) {
                let local = near(rng, local);
                let remote = match *owned {
                    Owned::One(remote) if percent(rng, 80) && remote.address.family() == local.address.family() => {
                        remote
                    }
                    _ => peer(rng, local),
                };
                about = About { ends: FlowKey { protocol, local, remote }, lane, ..about };
            }
        }
        _ => {}
    }
    if percent(rng, 4) {
        about.ends.local = peer(rng, about.ends.local);
    }
    if percent(rng, 4) {
        about.ends.local.port = rng.next_u64() as u16 & 0x1f;
    }
    about
}

/// A random frame that arrives, or leaves by a lane. `data`: how long its data may be.
pub(crate) fn frame(rng: &mut Rng, tables: &Tables, way: Way, data: u64) -> Frame {
    let about = about(rng, tables, way);
    let (near, far) = (about.ends.local.address, about.ends.remote.address);
    let is_v6 = near.family() == Family::V6;
    let [host, _, groups] = family(is_v6);
    // Each address belongs to one of the network cards.
    let nic = host.iter().position(|&address| address == near).filter(|_| percent(rng, 85));
    let nic = nic.unwrap_or_else(|| rng.below(NICS.len() as u64) as usize);
    let is_group = percent(rng, if way == Way::In { 30 } else { 5 });
    let (source, destination) = match (way, is_group) {
        (Way::In, true) => (far, pick(rng, &groups)),
        (Way::In, false) => (far, near),
        (Way::Out, true) => (near, pick(rng, &groups)),
        (Way::Out, false) => (near, far),
    };
    let ip = Ip { is_v6, source, destination };
    let mut is_plain = true;
    let (protocol, payload) = match rng.below(100) {
        0..8 if way == Way::In => {
            is_plain = false;
            (if is_v6 { ICMPV6 } else { ICMP }, icmp(rng, tables, &about))
        }
        0..3 => {
            is_plain = false;
            (pick(rng, &[ICMP, 2, 41, ICMPV6, 89, 132]), noise(rng, 40))
        }
        _ if is_group && percent(rng, 95) => (UDP, udp(rng, &about, way, data)),
        _ if about.ends.protocol == Protocol::Tcp => (TCP, tcp(rng, &about, way, data)),
        _ => (UDP, udp(rng, &about, way, data)),
    };
    let (packet, is_whole) = packet(rng, &ip, protocol, &payload);
    let (own, other) = (NICS[nic].1, NICS[1 - nic].1);
    let near_mac = if percent(rng, 94) { own } else { pick(rng, &[other, FAR]) };
    let far_mac = if is_group { destination.multicast_mac() } else { FAR };
    let (to, from) = match way {
        Way::In if is_group => (far_mac, FAR),
        Way::In => (near_mac, FAR),
        Way::Out => (far_mac, near_mac),
    };
    let mut bytes = ethernet(rng, to, from, is_v6);
    is_plain &= is_whole && bytes.len() == 14;
    bytes.extend(packet);
    if percent(rng, 25) {
        is_plain = false;
        for _ in 0..1 + rng.below(2) {
            spoil(rng, &mut bytes, is_v6);
        }
    }
    bytes.truncate(LONGEST);
    Frame { bytes, nic, lane: about.lane, is_plain }
}

/// An Ethernet header, now and then with VLAN tags.
fn ethernet(rng: &mut Rng, to: Mac, from: Mac, is_v6: bool) -> Vec<u8> {
    let mut bytes = [to.0, from.0].concat();
    if percent(rng, 2) {
        for _ in 0..1 + rng.below(2) {
            bytes.extend(pick(rng, &[[0x81, 0], [0x88, 0xa8]]));
            bytes.extend(pick(rng, &[[0, 0], [0xe0, 0], [0, 5], [0xff, 0xff]]));
        }
    }
    bytes.extend(if is_v6 { [0x86, 0xdd] } else { [8, 0] });
    bytes
}

fn noise(rng: &mut Rng, most: u64) -> Vec<u8> {
    let length = rng.below(most + 1);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Local and remote port in the order of a packet.
fn ports(ends: &FlowKey, way: Way) -> [u8; 4] {
    let (local, remote) = (ends.local.port, ends.remote.port);
    let (source, destination) = if way == Way::In { (remote, local) } else { (local, remote) };
    let ([a, b], [c, d]) = (source.to_be_bytes(), destination.to_be_bytes());
    [a, b, c, d]
}

fn udp(rng: &mut Rng, about: &About, way: Way, data: u64) -> Vec<u8> {
    let length = rng.below(data + 1) as u16;
    let mut bytes = ports(&about.ends, way).to_vec();
    bytes.extend((8 + length).to_be_bytes());
    bytes.resize(8 + usize::from(length), 0);
    bytes
}

fn tcp(rng: &mut Rng, about: &About, way: Way, data: u64) -> Vec<u8> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PSH: u8 = 8;
    const ACK: u8 = 16;
    let mut bytes = ports(&about.ends, way).to_vec();
    // What the peer sends goes on there; what the host sends is the answer, and acknowledges that.
    let (sequence, acknowledged) =
        if way == Way::In { (about.next, about.answer) } else { (about.answer.wrapping_sub(1), about.next) };
    for fits in [sequence, acknowledged] {
        let number = match rng.below(9) {
            0 => fits.wrapping_add(1),
            1 => fits.wrapping_sub(1),
            2 => fits.wrapping_add((1 << 20) - rng.below(2) as u32),
            3 | 4 => pick(rng, &NUMBERS),
            _ => fits,
        };
        bytes.extend(number.to_be_bytes());
    }
    let usual = [SYN, SYN | ACK, ACK, ACK, ACK | PSH, ACK | FIN, RST, RST | ACK, SYN | 0xc0, SYN | ACK | RST];
    let flags = if percent(rng, 95) { pick(rng, &usual) } else { rng.next_u64() as u8 };
    let options = if percent(rng, 30) { 4 * rng.below(11) as usize } else { 0 };
    bytes.extend([((20 + options) / 4 * 16) as u8, flags, 1, 0, 0, 0, 0, 0]);
    bytes.resize(20 + options + rng.below(data + 1) as usize, 1);
    bytes
}

/// An ICMP message that quotes a packet, which the receiver has mostly sent.
fn icmp(rng: &mut Rng, tables: &Tables, about: &About) -> Vec<u8> {
    let is_v6 = about.ends.local.address.family() == Family::V6;
    let usual: &[u8] = if is_v6 { &[1, 2, 3, 4] } else { &[3, 11, 12] };
    let kind = if percent(rng, 80) { pick(rng, usual) } else { rng.next_u64() as u8 };
    let mut bytes = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    let about = if percent(rng, 90) { *about } else { self::about(rng, tables, Way::In) };
    let (source, destination) = (about.ends.local.address, about.ends.remote.address);
    let quoted = Ip { is_v6: source.family() == Family::V6, source, destination };
    let (protocol, payload) = match about.ends.protocol {
        _ if percent(rng, 5) => (ICMP, noise(rng, 20)),
        Protocol::Tcp => (TCP, tcp(rng, &about, Way::Out, 20)),
        Protocol::Udp => (UDP, udp(rng, &about, Way::Out, 20)),
    };
    let (packet, _) = packet(rng, &quoted, protocol, &payload);
    bytes.extend(packet);
    if percent(rng, 40) {
        let end = 8 + rng.below(bytes.len() as u64 - 7) as usize;
        bytes.truncate(end);
    }
    bytes
}

/// An IP packet, perhaps a fragment; and whether it is a whole one.
fn packet(rng: &mut Rng, ip: &Ip, protocol: u8, payload: &[u8]) -> (Vec<u8>, bool) {
    if ip.is_v6 { packet_v6(rng, ip, protocol, payload) } else { packet_v4(rng, ip, protocol, payload) }
}

fn packet_v4(rng: &mut Rng, ip: &Ip, protocol: u8, payload: &[u8]) -> (Vec<u8>, bool) {
    let options = if percent(rng, 15) { 4 * rng.below(11) as usize } else { 0 };
    let fragment: u16 = match rng.below(10) {
        0 => 0x2000,
        1 => 0x2000 | (1 + rng.below(200) as u16),
        2 => 1 + rng.below(200) as u16,
        3 => 0x8000,
        _ => 0x4000,
    };
    let mut bytes = vec![0x45 + (options / 4) as u8, 0];
    bytes.extend(((20 + options + payload.len()) as u16).to_be_bytes());
    bytes.extend((pick(rng, &IDS) as u16).to_be_bytes());
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(ip.source.to_v4().unwrap_or_default());
    bytes.extend(ip.destination.to_v4().unwrap_or_default());
    bytes.resize(20 + options, 1);
    bytes.extend(payload);
    (bytes, fragment & 0x3fff == 0)
}

fn packet_v6(rng: &mut Rng, ip: &Ip, protocol: u8, payload: &[u8]) -> (Vec<u8>, bool) {
    let mut kinds: Vec<u8> = Vec::new();
    if percent(rng, 25) {
        let some = 1 + rng.below(6);
        kinds.extend((0..some).map(|_| pick(rng, &[HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT])));
    } else if percent(rng, 30) {
        kinds.push(FRAGMENT);
    }
    let mut headers = Vec::new();
    for (at, &kind) in kinds.iter().enumerate() {
        let next = kinds.get(at + 1).copied().unwrap_or(protocol);
        if kind == FRAGMENT {
            let offset_more: u16 = pick(rng, &[0, 1, 1, 8, 9, 9, 6, 0x5c1]);
            headers.extend([next, 0]);
            headers.extend(offset_more.to_be_bytes());
            headers.extend(pick(rng, &IDS).to_be_bytes());
        } else {
            let eights = match rng.below(20) {
                0 => 100 + rng.below(28),
                1..4 => rng.below(4),
                _ => 0,
            };
            // Of a Routing header the last one is the number of segments left, of others the
            // length of an option.
            let last = if kind == ROUTING { pick(rng, &[0, 0, 1, 4]) } else { rng.next_u64() as u8 };
            headers.extend([next, eights as u8, 1, last]);
            headers.resize(headers.len() + 4 + 8 * eights as usize, 0);
        }
    }
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(((headers.len() + payload.len()) as u16).to_be_bytes());
    bytes.extend([kinds.first().copied().unwrap_or(protocol), 64]);
    bytes.extend(ip.source.0);
    bytes.extend(ip.destination.0);
    bytes.extend(headers);
    bytes.extend(payload);
    (bytes, kinds.is_empty())
}

/// Puts a fault into a frame.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>, is_v6: bool) {
    let length_at = if is_v6 { 18 } else { 16 };
    match rng.below(9) {
        // The end is missing: near the headers, or anywhere.
        0 => {
            let most = if percent(rng, 70) { bytes.len().min(100) } else { bytes.len() };
            bytes.truncate(14 + rng.below(most as u64 - 13) as usize);
        }
        // Padding.
        1 => bytes.resize(bytes.len() + rng.below(60) as usize, 0x12),
        // The length is another one.
        2 | 3 => {
            let now = bytes.len() as u16 - 14;
            let near = now.wrapping_sub(rng.below(120) as u16);
            let length = pick(rng, &[0, 1, 20, 23, 24, 27, 33, near, near, near, now + 1, u16::MAX]);
            put(bytes, length_at, &length.to_be_bytes());
        }
        // Any byte of the headers.
        4 | 5 => {
            let at = rng.below(bytes.len().min(100) as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        // Another kind of frame.
        6 => put(bytes, 12, &pick(rng, &[[8, 6], [8, 0], [0x86, 0xdd], [0, 64], [0x88, 0xcc]])),
        // Another version or header length.
        7 => {
            let byte = pick(rng, &[0x40, 0x44, 0x46, 0x4f, 0x65, 0x00, 0x60]);
            put(bytes, 14, &[byte]);
        }
        // An IPv4 address in an IPv6 header.
        _ if is_v6 => {
            let at = pick(rng, &[22, 38]);
            let address = pick(rng, family(false).as_flattened());
            put(bytes, at, &address.0);
        }
        // The fragment field.
        _ => put(bytes, 20, &(rng.next_u64() as u16).to_be_bytes()),
    }
}

/// Overwrites bytes, if they are there.
fn put(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + with.len()) {
        place.copy_from_slice(with);
    }
}
