//! Which datagrams a socket receives and may send, by its bound address (RFC 1122 §4.1.3.5, RFC
//! 3493 §3.7; Linux's choices where these leave one).

mod common;

use common::{frame, ip, open, pattern, received, send, udp};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::udp::{GroupFilter, SendTo};
use tickwire_stack::{StackError, UdpId};

const PORT: u16 = 5000;

/// Empty, small, and about the size of a packet.
const SIZES: [usize; 3] = [0, 11, 1000];

fn all_systems(family: usize) -> Address {
    let mut v6 = [0; 16];
    (v6[0], v6[1], v6[15]) = (0xff, 2, 1);
    [Address::v4([224, 0, 0, 1]), Address(v6)][family]
}

/// Delivers a datagram from host 1 to host 0; returns whether the socket has received it intact.
fn hears(pair: &mut SimulatedPair, socket: UdpId, to: Address, bytes: &[u8]) -> bool {
    let peer = pair.host(1).addresses[usize::from(to.to_v4().is_none())];
    let (from, to) = (Endpoint::new(peer, 9), Endpoint::new(to, PORT));
    let mut packet = frame(&ip(peer, to.address, 17, &udp(from, to, bytes)));
    if to.address.is_multicast() {
        packet[..6].copy_from_slice(&to.address.multicast_mac().0);
    }
    let now = pair.now();
    assert!(pair.host_mut(0).receive(now, &packet));
    let got = received(pair, 0, socket);
    assert!(got.is_empty() || got == [bytes], "{} datagrams", got.len());
    !got.is_empty()
}

/// RFC 1122 §4.1.3.5, RFC 3493 §3.7: the wildcard address of a family means all of our addresses
/// and the groups of that family, and `::` includes IPv4. A specific address means that one. A
/// socket receives only groups that it has joined.
#[test]
fn a_socket_hears_what_is_sent_to_the_address_that_it_is_bound_to() {
    let addresses = SimulatedPair::seeded(1).host(0).addresses;
    let [own_v4, own_v6] = addresses;
    let elsewhere = Address::v4([10, 0, 0, 77]);
    let to = [own_v4, own_v6, all_systems(0), all_systems(1), elsewhere];
    for (bound, heard) in [
        (Address::ANY_V4, [true, false, true, false, true]),
        (Address::ANY, [true, true, true, true, true]),
        (own_v4, [true, false, false, false, false]),
        (own_v6, [false, true, false, false, false]),
        (all_systems(0), [false, false, true, false, false]),
        (all_systems(1), [false, false, false, true, false]),
        (elsewhere, [false, false, false, false, true]),
    ] {
        let mut pair = SimulatedPair::seeded(1);
        let socket = open(&mut pair, 0, bound, PORT);
        for group in [0, 1].map(all_systems) {
            assert!(!hears(&mut pair, socket, group, b"x"));
            pair.stack(0).udp_set_filter(socket, &GroupFilter::all(group)).unwrap();
        }
        for (to, heard) in to.into_iter().zip(heard) {
            for size in SIZES {
                let bytes = pattern(size, 1);
                assert_eq!(hears(&mut pair, socket, to, &bytes), heard, "bound to {bound:?}, {size} bytes to {to:?}");
            }
        }
        assert_eq!(pair.frames_held(0), 0);
    }
}

/// A dual-stack socket receives the IPv4 groups that it has joined.
#[test]
fn a_socket_of_both_families_hears_the_ipv4_groups_that_it_asked_for() {
    let mut pair = SimulatedPair::seeded(1);
    let socket = open(&mut pair, 0, Address::ANY, PORT);
    let group = Address::v4([239, 1, 2, 3]);
    assert!(!hears(&mut pair, socket, group, b"x"));
    pair.stack(0).udp_set_filter(socket, &GroupFilter::all(group)).unwrap();
    assert!(hears(&mut pair, socket, group, b"x"));
    assert!(!hears(&mut pair, socket, all_systems(0), b"x"));
}

/// RFC 3493 §3.7: a socket sends within the family of its bound address, `::` in both. A packet to
/// a group has the group's Ethernet address (RFC 1112 §6.4, RFC 2464 §7), as the host resolves it.
#[test]
fn a_socket_sends_within_its_family() {
    let addresses = SimulatedPair::seeded(1).host(0).addresses;
    let [own_v4, own_v6] = addresses;
    for (bound, may) in [
        (Address::ANY_V4, [true, false]),
        (Address::ANY, [true, true]),
        (own_v4, [true, false]),
        (own_v6, [false, true]),
        (all_systems(0), [true, false]),
        (all_systems(1), [false, true]),
    ] {
        let mut pair = SimulatedPair::seeded(1);
        let now = pair.now();
        for (family, source) in addresses.into_iter().enumerate() {
            let destination = all_systems(family);
            let source_mac = pair.host(0).mac;
            let next_hop_mac = destination.multicast_mac();
            let state = PathState::Ready;
            let info = PathInfo { source, mtu: 1500, source_mac, next_hop_mac, state, ..PathInfo::default() };
            for query in [Query::to(destination), Query::to(destination).from(source)] {
                pair.stack(0).path_set(PathInfo { query, ..info }, now);
            }
        }
        let socket = open(&mut pair, 0, bound, PORT);
        for (family, may) in may.into_iter().enumerate() {
            for to in [pair.host(1).addresses[family], all_systems(family)] {
                for size in SIZES {
                    let sent = send(&mut pair, 0, socket, Endpoint::new(to, 9), &pattern(size, 1));
                    let what = format!("bound to {bound:?}, {size} bytes to {to:?}");
                    assert_eq!(sent, if may { Ok(size) } else { Err(StackError::NetworkUnreachable) }, "{what}");
                    let packets = pair.host_mut(0).transmit(now);
                    assert_eq!(packets.len(), usize::from(may), "{what}");
                    for packet in packets {
                        let mac = if to.is_multicast() { to.multicast_mac() } else { pair.host(1).mac };
                        assert_eq!(packet[..6], mac.0, "{what}");
                        let source = if family == 0 { &packet[26..30] } else { &packet[22..38] };
                        assert!(addresses[family].0.ends_with(source), "{what}");
                        assert!(packet.ends_with(&pattern(size, 1)), "{what}");
                    }
                }
            }
        }
    }
}

/// The host's routes may depend on the source (`ip rule from`), or on an interface that a socket
/// names.
#[test]
fn what_is_sent_from_another_address_or_by_another_interface_has_a_way_of_its_own() {
    let mut pair = SimulatedPair::seeded(1);
    let ([own, _], [peer, _], now) = (pair.host(0).addresses, pair.host(1).addresses, pair.now());
    let second = Address::v4([10, 0, 0, 77]);
    let socket = open(&mut pair, 0, Address::ANY_V4, PORT);
    let queries = [
        Query::to(peer),
        Query::to(peer).from(own),
        Query::to(peer).from(second),
        Query::to(peer).by(4),
        Query::to(peer).from(second).by(4),
    ];
    for (number, query) in queries.into_iter().enumerate() {
        let way = PathInfo {
            query,
            source: own,
            mtu: 1500,
            next_hop_mac: Mac([2, 0, 0, 0, 9, number as u8]),
            state: PathState::Ready,
            ..PathInfo::default()
        };
        pair.stack(0).path_set(way, now);
    }
    for (number, query) in queries.into_iter().enumerate() {
        let to = SendTo {
            destination: Some(Endpoint::new(peer, 9)),
            source: (query.source != Address::ANY).then_some(query.source),
            interface: query.interface,
            ..SendTo::default()
        };
        let mut bytes = &b"x"[..];
        assert_eq!(pair.stack(0).udp_send(socket, now, &to, &mut bytes), Ok(1), "{query:?}");
        let [packet] = &pair.host_mut(0).transmit(now)[..] else { panic!("one packet: {query:?}") };
        assert_eq!(packet[..6], [2, 0, 0, 0, 9, number as u8], "{query:?}");
        let source = if number == 0 || number == 3 { own } else { query.source };
        assert_eq!(packet[26..30], source.0[12..], "{query:?}");
    }
    pair.stack(0).path_forget(&queries[2]);
    let to = SendTo { destination: Some(Endpoint::new(peer, 9)), source: Some(second), ..SendTo::default() };
    let refused = pair.stack(0).udp_send(socket, now, &to, &mut &b"x"[..]);
    assert_eq!(refused, Err(StackError::NeedPath), "another's way is none");
}
