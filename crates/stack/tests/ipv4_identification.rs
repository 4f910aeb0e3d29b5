//! The identification of IPv4 packets (RFC 6864) and of fragments (RFC 7739).

mod common;
mod tcp_support;

use tcp_support::{connected, pattern, send};
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, Query};
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::{Instant, Span};

/// The identification of a packet, and whether it has DF set.
fn header(packet: &[u8]) -> (u16, bool) {
    (u16::from_be_bytes([packet[18], packet[19]]), packet[20] & 0x40 != 0)
}

/// The packets that host 0 sends until `end`, none of which arrives.
fn lost(pair: &mut SimulatedPair, now: &mut Instant, end: Instant) -> Vec<Vec<u8>> {
    let mut packets = pair.host_mut(0).transmit(*now);
    while let Some(due) = pair.stack(0).deadline().filter(|&due| due <= end) {
        *now = (*now).max(due);
        pair.stack(0).on_time(*now);
        packets.extend(pair.host_mut(0).transmit(*now));
    }
    packets
}

/// RFC 6864 §4.2 and §4.3: where routers may fragment, no two packets have the same identification,
/// not even a retransmission. §4.1: with DF it has no meaning.
#[test]
fn a_retransmission_that_may_be_fragmented_has_an_identification_of_its_own() {
    for may_fragment in [true, false] {
        for len in [11, 512, 1200] {
            let mut pair = SimulatedPair::new(&PairConfig::default());
            let (client, _, _) = connected(&mut pair, 0);
            let mut now = pair.now();
            pair.stack(0).tcp_set(client, now, TcpSetting::DontFragment(!may_fragment)).unwrap();
            send(&mut pair, 0, client, &pattern(len, 1)).unwrap();
            let end = now + Span::from_millis(200); // later in pieces: the path might take no large packets
            let packets = lost(&mut pair, &mut now, end);
            assert!(packets.len() > 4, "{} packets", packets.len());
            let payloads: Vec<_> = packets.iter().map(|packet| &packet[packet.len() - len..]).collect();
            assert!(payloads.iter().all(|&bytes| bytes == pattern(len, 1)), "the same again and again");
            assert!(packets.iter().all(|packet| header(packet).1 != may_fragment));
            let mut ids: Vec<_> = packets.iter().map(|packet| header(packet).0).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert!(!may_fragment || ids.len() == count, "{} of {count} are different", ids.len());
        }
    }
}

/// RFC 6864 §4.3: the packets of two connections to one peer differ, too.
#[test]
fn packets_of_different_connections_have_identifications_of_their_own() {
    let mut pair = SimulatedPair::new(&PairConfig::default());
    let (first, _, _) = connected(&mut pair, 0);
    let second = tcp_support::connect(&mut pair, 0, 4001);
    pair.run_for(Span::from_millis(10));
    let mut now = pair.now();
    for id in [first, second] {
        pair.stack(0).tcp_set(id, now, TcpSetting::DontFragment(false)).unwrap();
        send(&mut pair, 0, id, &pattern(10_000, 1)).unwrap();
    }
    let end = now + Span::from_secs(1);
    let packets = lost(&mut pair, &mut now, end);
    let mut ids: Vec<_> = packets.iter().map(|packet| header(packet).0).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(packets.len() > 20 && ids.len() == packets.len(), "{} of {}", ids.len(), packets.len());
}

/// RFC 7739 §5.3: the identifications that one peer sees do not reveal those sent to another peer,
/// in whose name it could inject fragments. Those to one peer are consecutive, so that none recurs
/// soon.
#[test]
fn rfc7739_5_3_identifications_for_one_peer_tell_nothing_of_anothers() {
    let mut pair = SimulatedPair::new(&PairConfig::default());
    let [from, to] = [0, 1].map(|host| pair.host(host).addresses[0]);
    let others: Vec<_> = (10..30).map(|last| Address::v4([10, 0, 0, last])).collect();
    let now = pair.now();
    for &destination in &others {
        let path = *pair
            .stack(0)
            .path_get(&Query::to(to).from(from))
            .map(|path| &path.info)
            .expect("the way to the peer is known");
        pair.stack(0).path_set(PathInfo { query: Query::to(destination).from(from), ..path }, now);
    }
    let socket = common::open(&mut pair, 0, from, 1000);
    let mut next = |destination: Address| {
        let to = Endpoint::new(destination, 2000);
        common::send(&mut pair, 0, socket, to, &pattern(3000, 1)).unwrap();
        let packets = pair.host_mut(0).transmit(now);
        let ids: Vec<_> = packets.iter().map(|packet| header(packet).0).collect();
        assert!(ids.len() > 1 && ids.iter().all(|&id| id == ids[0]), "fragments of one datagram: {ids:?}");
        ids[0]
    };
    let mut steps: Vec<_> = others.iter().map(|&other| next(other).wrapping_sub(next(to))).collect();
    steps.sort_unstable();
    steps.dedup();
    assert!(steps.len() > 15, "a step of its own for nearly each: {steps:?}");
    let first = next(to);
    assert_eq!(next(to), first.wrapping_add(1));
}
