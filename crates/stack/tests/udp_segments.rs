//! One send of many packets (UDP_SEGMENT): it is sent whole, or not at all.

mod common;

use common::{counter, open, pattern, received, send};
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Span;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{Limits, Ready, StackError, UdpId};

/// Two hosts whose stacks have this many frames, a socket on each, and the second one's endpoint.
fn hosts(frames: u32, paths: bool) -> (SimulatedPair, UdpId, UdpId, Endpoint) {
    let limits = Limits { frames, ..Limits::DEFAULT };
    let link = LinkConfig { rate: 1_000_000_000, ..LinkConfig::default() };
    let mut pair = SimulatedPair::new(&PairConfig { limits, paths, ..PairConfig::default() }.with_link(link));
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let (a, b) = (open(&mut pair, 0, from, 1000), open(&mut pair, 1, to, 2000));
    (pair, a, b, Endpoint::new(to, 2000))
}

/// The datagrams of the next two milliseconds, read as they arrive: neither the receiver's queue
/// nor its frames are tested here.
fn arrived(pair: &mut SimulatedPair, id: UdpId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        pair.run_for(Span::from_micros(2));
        all.append(&mut received(pair, 1, id));
    }
    all
}

/// Sends `bytes` in datagrams of `segment` bytes.
fn send_cut(
    pair: &mut SimulatedPair,
    id: UdpId,
    to: Endpoint,
    bytes: &[u8],
    segment: u16,
) -> Result<usize, StackError> {
    let now = pair.now();
    let to = SendTo { destination: Some(to), segment: Some(segment), ..SendTo::default() };
    pair.stack(0).udp_send(id, now, &to, &mut &bytes[..])
}

#[test]
fn what_is_cut_into_datagrams_arrives_in_order() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let (a, b) = (open(&mut pair, 0, from, 1000), open(&mut pair, 1, to, 2000));
        let to = Endpoint::new(to, 2000);
        for (len, segment) in [(0, 100), (99, 100), (100, 100), (101, 100), (12_800, 100), (60_000, 1_452)] {
            let sent = pattern(len, 7);
            assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
            let got = arrived(&mut pair, b);
            assert_eq!(got.len(), len.div_ceil(segment.into()).max(1));
            assert!(got.iter().rev().skip(1).all(|datagram| datagram.len() == usize::from(segment)));
            assert!(got.concat() == sent);
        }
        assert_eq!(
            send_cut(&mut pair, a, to, &[0; 12_801], 100),
            Err(StackError::Invalid),
            "as in the kernel, 128 at most"
        );
        assert_eq!(send_cut(&mut pair, a, to, &[0; 2_000], 1_480), Err(StackError::MessageTooLong), "each is a packet");
    }
}

/// A writable socket accepts the largest send, and an unwritable one none. If `poll` reported a
/// socket writable whose send is refused, its program would retry in a busy loop.
#[test]
fn readiness_agrees_with_what_a_send_answers() {
    for (len, segment) in [(12_800, 100), (65_507, 0)] {
        let mut refused = 0;
        for busy in (100..500).step_by(3) {
            let (mut pair, a, b, to) = hosts(512, true);
            for _ in 0..busy {
                let _ = send(&mut pair, 0, a, to, b"before");
            }
            let before = counter(&mut pair, 0, "UdpOutDatagrams");
            let (sent, held) = (pattern(len, 3), pair.frames_held(0));
            let writable = pair.stack(0).readiness(a.into()).unwrap().contains(Ready::OUT);
            let answer = send_cut(&mut pair, a, to, &sent, segment);
            assert_eq!(
                answer,
                if writable { Ok(len) } else { Err(StackError::WouldBlock) },
                "{len} bytes after {busy}"
            );
            if !writable {
                refused += 1;
                assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "UdpOutDatagrams")), (held, before));
                assert_eq!(arrived(&mut pair, b).len() as u64, before, "nothing of what was refused");
                assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
            }
        }
        assert!((1..100).contains(&refused), "{refused} of 134");
    }
}

/// The kernel copies all of a send into its buffer, or reports that it never can; so a program
/// counts accepted data as sent.
#[test]
fn a_send_of_more_frames_than_are_promised_is_sent_whole_or_not_at_all() {
    let (mut pair, a, b, to) = hosts(256, true);
    let mut before = 0;
    while pair.stack(0).frames_in_use() < 256 - 80 {
        assert_eq!(send(&mut pair, 0, a, to, b"before"), Ok(6));
        before += 1;
    }
    let (sent, held) = (pattern(9_000, 3), pair.frames_held(0));
    assert_eq!(send_cut(&mut pair, a, to, &sent, 90), Err(StackError::NoBuffers));
    assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "UdpOutDatagrams")), (held, before));
    assert_eq!(arrived(&mut pair, b).len() as u64, before);
    assert_eq!(send_cut(&mut pair, a, to, &sent, 90), Ok(9_000));
    assert!(arrived(&mut pair, b).concat() == sent);
}

/// Two hosts of which the first has not resolved the second yet, a socket on each, and the second
/// one's endpoint.
fn unresolved() -> (SimulatedPair, UdpId, UdpId, Endpoint) {
    let (mut pair, a, b, to) = hosts(4096, false);
    let (destination, source, now) = (to.address, pair.host(0).addresses[0], pair.now());
    let info = PathInfo {
        query: Query::to(destination).from(source),
        source,
        mtu: 1500,
        state: PathState::Resolving,
        ..PathInfo::default()
    };
    pair.stack(0).path_set(info, now);
    (pair, a, b, to)
}

#[test]
fn the_largest_send_waits_whole_for_the_neighbour() {
    for (len, segment) in [(5_000, 100), (12_800, 100), (65_507, 0), (65_507, 512)] {
        let (mut pair, a, b, to) = unresolved();
        assert_eq!(send(&mut pair, 0, a, to, b"first"), Ok(5));
        let sent = pattern(len, 3);
        assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
        assert!(arrived(&mut pair, b).is_empty());
        pair.resolve(0);
        let mut got = arrived(&mut pair, b);
        if counter(&mut pair, 0, "PathDrops") == 0 {
            assert_eq!(got.remove(0), b"first");
        }
        assert!(got.concat() == sent, "{} datagrams of {len} bytes", got.len());
        assert_eq!(pair.frames_held(0), 0);
    }
}

/// RFC 4861 §7.2.2, like the kernel's queue of a neighbour: a new packet replaces the oldest. If it
/// were refused, the socket would still be writable, and its program would retry in a busy loop.
#[test]
fn of_what_waits_for_a_neighbour_the_oldest_gives_way_and_the_socket_stays_writable() {
    let (mut pair, a, b, to) = unresolved();
    let sent: Vec<Vec<u8>> = (0..100).map(|n| pattern(1_000, n)).collect();
    for datagrams in &sent {
        assert_eq!(send_cut(&mut pair, a, to, datagrams, 100), Ok(1_000));
        assert!(pair.stack(0).readiness(a.into()).unwrap().contains(Ready::OUT));
    }
    assert_eq!(pair.frames_held(0), 128);
    assert_eq!(counter(&mut pair, 0, "PathDrops"), 1_000 - 128);
    pair.resolve(0);
    assert!(arrived(&mut pair, b).concat() == sent.concat()[100_000 - 12_800..], "the newest, in order");
    assert_eq!(pair.frames_held(0), 0);
}

/// No waiter is woken for a send that would be refused again.
#[test]
fn what_is_sent_to_an_absent_neighbour_wakes_no_waiter() {
    let (mut pair, a, _, to) = unresolved();
    let set = pair.stack(0).set_create().unwrap();
    pair.stack(0).item_add(set, a.into(), 0, Interest::edge(Ready::OUT), 5).unwrap();
    assert_eq!(pair.stack(0).set_wait(set, 9, |_| {}), Ok(1));
    for _ in 0..10 {
        assert_eq!(send_cut(&mut pair, a, to, &[0; 12_800], 100), Ok(12_800));
        pair.run_for(Span::from_millis(10));
        assert_eq!(pair.stack(0).set_wait(set, 9, |_| {}), Ok(0));
    }
    pair.run_for(Span::from_secs(4));
    assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "PathDrops")), (0, 1_280));
    assert_eq!(send(&mut pair, 0, a, to, b"x"), Err(StackError::NoPath));
}

/// Packets waiting for other neighbours are not dropped for it, and nothing is refused.
#[test]
fn when_others_have_all_places_a_packet_is_dropped_and_counted() {
    let limits = Limits { waiting: 4, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, paths: false, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let (a, now) = (open(&mut pair, 0, from, 1000), pair.now());
    let absent = Address::v4([10, 0, 0, 77]);
    for destination in [absent, to] {
        let info = PathInfo {
            query: Query::to(destination).from(from),
            source: from,
            mtu: 1500,
            state: PathState::Resolving,
            ..PathInfo::default()
        };
        pair.stack(0).path_set(info, now);
    }
    for _ in 0..4 {
        assert_eq!(send(&mut pair, 0, a, Endpoint::new(absent, 1), b"absent"), Ok(6));
    }
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &[7; 4_000]), Ok(4_000));
    assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "PathDrops")), (4, 3));
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(absent, 1), b"again"), Ok(5));
    assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "PathDrops")), (4, 4));
}
