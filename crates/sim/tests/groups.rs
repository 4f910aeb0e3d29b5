//! Multicast: every socket that wants a datagram gets its own copy, and its filter is obeyed.

mod common;

use common::{counter, open, open_with, received, send};
use tickwire_sim::Pair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Span;
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{Error, UdpId};

const GROUP: Address = Address::v4([239, 1, 2, 3]);
const OTHER: Address = Address::v4([239, 1, 2, 4]);

/// A sender on host 0 that knows the way to both groups.
fn sender(pair: &mut Pair) -> (UdpId, Address) {
    let source = pair.host(0).addresses[0];
    let now = pair.now();
    for destination in [GROUP, OTHER] {
        let source_mac = pair.host(0).mac;
        let info = PathInfo {
            query: Query::to(destination).from(source),
            source,
            mtu: 1500,
            source_mac,
            state: PathState::Ready,
            ..PathInfo::default()
        };
        pair.stack(0).path_set(info, now);
    }
    (open(pair, 0, source, 1000), source)
}

fn say(pair: &mut Pair, from: UdpId, group: Address, bytes: &[u8]) {
    send(pair, 0, from, Endpoint::new(group, 5000), bytes).unwrap();
    pair.run_for(Span::from_millis(1));
}

/// RFC 1112 §7.1.
#[test]
fn every_member_gets_its_own_copy() {
    let mut pair = Pair::seeded(1);
    let (from, _) = sender(&mut pair);
    let members: Vec<UdpId> = (0..3).map(|_| open(&mut pair, 1, Address::ANY_V4, 5000)).collect();
    for &member in &members {
        pair.stack(1).udp_join(member, GROUP, None).unwrap();
    }
    let bound_to_group = open(&mut pair, 1, GROUP, 5000);
    let other_port = open(&mut pair, 1, Address::ANY_V4, 5001);
    let long = common::pattern(4000, 1);
    say(&mut pair, from, GROUP, &long);
    for &member in members.iter().chain([&bound_to_group]) {
        assert_eq!(received(&mut pair, 1, member), std::slice::from_ref(&long));
    }
    assert_eq!(received(&mut pair, 1, other_port).len(), 0);
    assert_eq!(pair.frames_held(1), 0);
}

#[test]
fn a_group_that_was_not_joined_is_taken_only_if_the_program_did_not_forbid_it() {
    let mut pair = Pair::seeded(1);
    let (from, _) = sender(&mut pair);
    let lax = open(&mut pair, 1, Address::ANY_V4, 5000);
    let strict = UdpOptions { multicast_all: false, ..UdpOptions::default() };
    let strict = open_with(&mut pair, 1, Address::ANY_V4, 5000, strict);
    pair.stack(1).udp_join(strict, GROUP, None).unwrap();
    say(&mut pair, from, GROUP, b"1");
    say(&mut pair, from, OTHER, b"2");
    assert_eq!(received(&mut pair, 1, lax).len(), 2);
    assert_eq!(received(&mut pair, 1, strict), [b"1"]);
    assert_eq!(counter(&mut pair, 1, "UdpFiltered"), 1);
}

/// RFC 3678 §3.
#[test]
fn source_filters_are_obeyed() {
    let mut pair = Pair::seeded(1);
    let (from, source) = sender(&mut pair);
    let elsewhere = Address::v4([10, 0, 0, 77]);
    let id = open(&mut pair, 1, Address::ANY_V4, 5000);
    let heard = |pair: &mut Pair| {
        say(pair, from, GROUP, b"x");
        !received(pair, 1, id).is_empty()
    };
    pair.stack(1).udp_join(id, GROUP, Some(elsewhere)).unwrap();
    assert!(!heard(&mut pair), "joined for another source");
    pair.stack(1).udp_join(id, GROUP, Some(source)).unwrap();
    assert!(heard(&mut pair));
    assert_eq!(pair.stack(1).udp_join(id, GROUP, Some(source)), Err(Error::AddressInUse));
    pair.stack(1).udp_leave(id, GROUP, Some(source)).unwrap();
    assert!(!heard(&mut pair));
    pair.stack(1).udp_leave(id, GROUP, None).unwrap();
    assert_eq!(pair.stack(1).udp_leave(id, GROUP, None), Err(Error::Invalid));
    pair.stack(1).udp_join(id, GROUP, None).unwrap();
    assert!(heard(&mut pair));
    pair.stack(1).udp_block_source(id, GROUP, source, true).unwrap();
    assert!(!heard(&mut pair));
    pair.stack(1).udp_block_source(id, GROUP, source, false).unwrap();
    assert!(heard(&mut pair));
    assert_eq!(pair.stack(1).udp_join(id, source, None), Err(Error::Invalid));
}

/// RFC 4291 §2.7.
#[test]
fn ipv6_groups_work_alike() {
    let mut pair = Pair::seeded(1);
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x05, 0x42);
    let group = Address(group);
    let [_, source] = pair.host(0).addresses;
    let (now, source_mac) = (pair.now(), pair.host(0).mac);
    let info = PathInfo {
        query: Query::to(group),
        source,
        mtu: 1500,
        source_mac,
        state: PathState::Ready,
        ..PathInfo::default()
    };
    pair.stack(0).path_set(info, now);
    let from = open(&mut pair, 0, Address::ANY, 1000);
    let id = open(&mut pair, 1, Address::ANY, 5000);
    pair.stack(1).udp_join(id, group, None).unwrap();
    say(&mut pair, from, group, b"six");
    assert_eq!(received(&mut pair, 1, id), [b"six"]);
}
