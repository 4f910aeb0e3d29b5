//! Multicast: every socket that joined receives its own copy, subject to its source filter.

mod common;

use common::{counter, open, received, send};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Span;
use tickwire_stack::udp::GroupFilter;
use tickwire_stack::{Limits, StackError, UdpId};

const GROUP: Address = Address::v4([239, 1, 2, 3]);
const OTHER: Address = Address::v4([239, 1, 2, 4]);

/// A sender on host 0 that has paths to both groups.
fn sender(pair: &mut SimulatedPair) -> (UdpId, Address) {
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

fn say(pair: &mut SimulatedPair, from: UdpId, group: Address, bytes: &[u8]) {
    send(pair, 0, from, Endpoint::new(group, 5000), bytes).unwrap();
    pair.run_for(Span::from_millis(1));
}

/// RFC 1112 §7.1.
#[test]
fn every_member_gets_its_own_copy() {
    let mut pair = SimulatedPair::seeded(1);
    let (from, _) = sender(&mut pair);
    let members: Vec<UdpId> = (0..3).map(|_| open(&mut pair, 1, Address::ANY_V4, 5000)).collect();
    for &member in &members {
        pair.stack(1).udp_set_filter(member, &GroupFilter::all(GROUP)).unwrap();
    }
    let bound_to_group = open(&mut pair, 1, GROUP, 5000);
    pair.stack(1).udp_set_filter(bound_to_group, &GroupFilter::all(GROUP)).unwrap();
    let other_port = open(&mut pair, 1, Address::ANY_V4, 5001);
    let long = common::pattern(4000, 1);
    say(&mut pair, from, GROUP, &long);
    for &member in members.iter().chain([&bound_to_group]) {
        assert_eq!(received(&mut pair, 1, member), std::slice::from_ref(&long));
    }
    assert_eq!(received(&mut pair, 1, other_port).len(), 0);
    assert_eq!(pair.frames_held(1), 0);
}

/// The kernel delivers groups that other sockets joined to the host's socket (`IP_MULTICAST_ALL`),
/// so the lane must not deliver them again.
#[test]
fn a_group_that_was_not_joined_is_not_taken() {
    let mut pair = SimulatedPair::seeded(1);
    let (from, _) = sender(&mut pair);
    let without = open(&mut pair, 1, Address::ANY_V4, 5000);
    let member = open(&mut pair, 1, Address::ANY_V4, 5000);
    pair.stack(1).udp_set_filter(member, &GroupFilter::all(GROUP)).unwrap();
    say(&mut pair, from, GROUP, b"1");
    say(&mut pair, from, OTHER, b"2");
    assert_eq!(received(&mut pair, 1, without).len(), 0);
    assert_eq!(received(&mut pair, 1, member), [b"1"]);
    assert_eq!(counter(&mut pair, 1, "UdpFiltered"), 3);
}

/// RFC 3678 §3.
#[test]
fn source_filters_are_obeyed() {
    let mut pair = SimulatedPair::seeded(1);
    let (from, source) = sender(&mut pair);
    let elsewhere = Address::v4([10, 0, 0, 77]);
    let id = open(&mut pair, 1, Address::ANY_V4, 5000);
    for (exclude, sources, heard) in [
        (false, &[elsewhere][..], false),
        (false, &[elsewhere, source], true),
        (false, &[], false),
        (true, &[], true),
        (true, &[source], false),
        (true, &[elsewhere], true),
    ] {
        let filter = GroupFilter { group: GROUP, interface: 0, exclude, sources };
        pair.stack(1).udp_set_filter(id, &filter).unwrap();
        say(&mut pair, from, GROUP, b"x");
        assert_eq!(!received(&mut pair, 1, id).is_empty(), heard, "{filter:?}");
    }
    assert_eq!(pair.stack(1).udp_set_filter(id, &GroupFilter::all(source)), Err(StackError::Invalid));
}

/// A filter that does not fit changes nothing.
#[test]
fn a_filter_that_is_too_long_leaves_the_one_that_was_there() {
    let mut pair = SimulatedPair::seeded(1);
    let (from, source) = sender(&mut pair);
    let id = open(&mut pair, 1, Address::ANY_V4, 5000);
    pair.stack(1).udp_set_filter(id, &GroupFilter::all(GROUP)).unwrap();
    let many = vec![source; Limits::DEFAULT.groups as usize + 1];
    let filter = GroupFilter { group: GROUP, interface: 0, exclude: true, sources: &many };
    assert_eq!(pair.stack(1).udp_set_filter(id, &filter), Err(StackError::NoBuffers));
    say(&mut pair, from, GROUP, b"x");
    assert_eq!(received(&mut pair, 1, id), [b"x"]);
}

/// RFC 4291 §2.7.
#[test]
fn ipv6_groups_work_alike() {
    let mut pair = SimulatedPair::seeded(1);
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
    pair.stack(1).udp_set_filter(id, &GroupFilter::all(group)).unwrap();
    say(&mut pair, from, group, b"six");
    assert_eq!(received(&mut pair, 1, id), [b"six"]);
}
