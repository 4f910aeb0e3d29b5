//! ICMP errors: the socket concerned receives them, forged ones have no effect.

mod common;

use common::{counter, frame, icmp, ip, open, received, send, udp};
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, Query};
use tickwire_stack::time::Span;
use tickwire_stack::udp::MtuDiscover;
use tickwire_stack::{Ready, StackError, UdpId};

/// A connected socket on host 0, and both endpoints.
fn connected(pair: &mut SimulatedPair, family: usize) -> (UdpId, Endpoint, Endpoint) {
    let [own, peer] = [0, 1].map(|h| pair.host(h).addresses[family]);
    let (own, peer) = (Endpoint::new(own, 1000), Endpoint::new(peer, 2000));
    let id = open(pair, 0, own.address, own.port);
    let now = pair.now();
    pair.stack(0).udp_connect(id, now, Some(peer), 0).unwrap();
    (id, own, peer)
}

fn give(pair: &mut SimulatedPair, packet: &[u8]) {
    let now = pair.now();
    assert!(pair.host_mut(0).receive(now, &frame(packet)));
}

/// A router reports that a datagram of the socket exceeds a path MTU of `mtu` bytes. As on Linux
/// the socket receives the error once.
fn too_big(pair: &mut SimulatedPair, id: UdpId, (own, peer): (Endpoint, Endpoint), mtu: u32) {
    let family = usize::from(own.address.to_v4().is_none());
    let quoted = ip(own.address, peer.address, 17, &udp(own, peer, &[0; 100]));
    let (kind, code) = [(3, 4), (2, 0)][family];
    give(pair, &icmp(router(family), own.address, kind, code, mtu, &quoted));
    assert_eq!(pair.stack(0).udp_take_error(id), Ok(Some(StackError::MessageTooLong)));
}

fn router(family: usize) -> Address {
    let mut v6 = [0; 16];
    (v6[0], v6[15]) = (0xfd, 99);
    [Address::v4([10, 0, 0, 99]), Address(v6)][family]
}

/// RFC 1122 §4.1.3.3.
#[test]
fn port_unreachable_refuses_the_connected_socket() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let (id, own, peer) = connected(&mut pair, family);
        let quoted = ip(own.address, peer.address, 17, &udp(own, peer, b"ping"));
        let (kind, code) = [(3, 3), (1, 4)][family];
        give(&mut pair, &icmp(peer.address, own.address, kind, code, 0, &quoted));
        assert!(pair.stack(0).readiness(id.into()).unwrap().contains(Ready::ERR));
        assert_eq!(pair.stack(0).udp_recv(id, false, &mut Vec::new()), Err(StackError::Refused));
        assert_eq!(
            pair.stack(0).udp_recv(id, false, &mut Vec::new()),
            Err(StackError::WouldBlock),
            "an error is told once"
        );
    }
}

/// RFC 5927 §4.
#[test]
fn errors_that_quote_what_no_socket_sent_do_nothing() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let (id, own, peer) = connected(&mut pair, family);
        let (kind, code) = [(3, 3), (1, 4)][family];
        let other = Endpoint::new(peer.address, 2001);
        let quoted = ip(own.address, other.address, 17, &udp(own, other, b"ping"));
        give(&mut pair, &icmp(peer.address, own.address, kind, code, 0, &quoted));
        let port = Endpoint::new(own.address, 1001);
        let quoted = ip(port.address, peer.address, 17, &udp(port, peer, b"ping"));
        give(&mut pair, &icmp(peer.address, own.address, kind, code, 0, &quoted));
        // Quoting a packet of another host.
        let quoted = ip(router(family), peer.address, 17, &udp(Endpoint::new(router(family), 1000), peer, b"ping"));
        give(&mut pair, &icmp(peer.address, own.address, kind, code, 0, &quoted));
        assert_eq!(counter(&mut pair, 0, "IcmpInUnmatched"), 3);
        // Truncated, and with a flipped bit.
        let quoted = ip(own.address, peer.address, 17, &udp(own, peer, b"ping"));
        give(&mut pair, &icmp(peer.address, own.address, kind, code, 0, &quoted[..[27, 47][family]]));
        assert_eq!(counter(&mut pair, 0, "IcmpInErrors"), 1);
        let mut flipped = icmp(peer.address, own.address, kind, code, 0, &quoted);
        *flipped.last_mut().unwrap() ^= 1;
        give(&mut pair, &flipped);
        assert_eq!(counter(&mut pair, 0, "IcmpInCsumErrors"), 1);
        assert_eq!(pair.stack(0).readiness(id.into()), Ok(Ready::OUT));
        assert_eq!(pair.frames_held(0), 0);
    }
}

/// RFC 1122 §4.1.3.3, as Linux implements it.
#[test]
fn an_unconnected_socket_is_not_bothered() {
    let mut pair = SimulatedPair::seeded(1);
    let [own, peer] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let (own, peer) = (Endpoint::new(own, 1000), Endpoint::new(peer, 2000));
    let id = open(&mut pair, 0, Address::ANY_V4, 1000);
    let quoted = ip(own.address, peer.address, 17, &udp(own, peer, b"ping"));
    give(&mut pair, &icmp(peer.address, own.address, 3, 3, 0, &quoted));
    assert_eq!(pair.stack(0).readiness(id.into()), Ok(Ready::OUT));
}

/// RFC 5927 §7.2: ports are easily guessed. An error about UDP must not slow TCP down.
#[test]
fn an_error_about_a_datagram_does_not_concern_tcp_nor_other_destinations() {
    let mut pair = SimulatedPair::seeded(1);
    let (_, own, peer) = connected(&mut pair, 0);
    let stranger = Endpoint::new(Address::v4([10, 0, 0, 77]), 2000);
    let now = pair.now();
    let info = pair.stack(0).path_get(&Query::to(peer.address).from(own.address)).unwrap().info;
    pair.stack(0).path_set(PathInfo { query: Query::to(stranger.address), ..info }, now);
    open(&mut pair, 0, Address::ANY_V4, 1001);
    for (from, to) in [(own, peer), (Endpoint::new(own.address, 1001), stranger)] {
        let quoted = ip(own.address, to.address, 17, &udp(from, to, &[0; 100]));
        give(&mut pair, &icmp(router(0), own.address, 3, 4, 600, &quoted));
    }
    let mtus = |pair: &mut SimulatedPair, to: Endpoint| {
        let now = pair.now();
        let stack = pair.stack(0);
        let known = |query: Query| stack.path_get(&query);
        let path = known(Query::to(to.address).from(own.address)).or_else(|| known(Query::to(to.address))).unwrap();
        (path.mtu(now), path.udp_mtu(now))
    };
    assert_eq!(mtus(&mut pair, peer), (1500, 600));
    assert_eq!(mtus(&mut pair, stranger), (1500, 1500));
    assert_eq!(counter(&mut pair, 0, "IcmpInUnmatched"), 1);
}

/// The destinations of other sends do not affect the path MTU to the connected peer, as on Linux
/// (`IP_MTU`).
#[test]
fn the_path_mtu_of_a_connected_socket_is_that_of_its_peer() {
    let mut pair = SimulatedPair::seeded(1);
    let (id, own, peer) = connected(&mut pair, 0);
    let other = Endpoint::new(Address::v4([10, 0, 0, 77]), 2000);
    let now = pair.now();
    let info = pair.stack(0).path_get(&Query::to(peer.address).from(own.address)).unwrap().info;
    pair.stack(0).path_set(PathInfo { query: Query::to(other.address).from(own.address), mtu: 1400, ..info }, now);
    let mtu = |pair: &mut SimulatedPair| {
        let now = pair.now();
        pair.stack(0).udp_path_mtu(id, now)
    };
    assert_eq!(mtu(&mut pair), Ok(1500));
    send(&mut pair, 0, id, other, b"elsewhere").unwrap();
    assert_eq!(mtu(&mut pair), Ok(1500));
    send(&mut pair, 0, id, peer, b"back").unwrap();
    too_big(&mut pair, id, (own, peer), 1300);
    send(&mut pair, 0, id, other, b"elsewhere").unwrap();
    assert_eq!(mtu(&mut pair), Ok(1300));
    pair.stack(0).path_forget(&Query::to(peer.address).from(own.address));
    assert_eq!(mtu(&mut pair), Err(StackError::NotConnected));
}

/// RFC 1191 §6.3, RFC 8201 §4.
#[test]
fn a_smaller_path_mtu_is_learnt_obeyed_and_forgotten_after_ten_minutes() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let (id, own, peer) = connected(&mut pair, family);
        let b = open(&mut pair, 1, peer.address, 2000);
        let packets = |pair: &mut SimulatedPair, size: usize| {
            let before = pair.link_stats(0).sent;
            send(pair, 0, id, peer, &vec![5; size]).unwrap();
            pair.run_for(Span::from_millis(1));
            assert_eq!(received(pair, 1, b), [vec![5; size]]);
            pair.link_stats(0).sent - before
        };
        assert_eq!(packets(&mut pair, 1440), 1);
        too_big(&mut pair, id, (own, peer), 1300);
        assert_eq!(packets(&mut pair, 1440), 2);
        assert_eq!(packets(&mut pair, 1300 - 48), 1);
        // Absurdly small values are clamped to the floor, larger ones ignored.
        too_big(&mut pair, id, (own, peer), 68);
        let floor = [552, 1280][family];
        let now = pair.now();
        assert_eq!(pair.stack(0).path_get(&Query::to(peer.address).from(own.address)).unwrap().udp_mtu(now), floor);
        too_big(&mut pair, id, (own, peer), 9000);
        assert_eq!(pair.stack(0).path_get(&Query::to(peer.address).from(own.address)).unwrap().udp_mtu(now), floor);
        pair.run_for(Span::from_secs(601));
        assert_eq!(packets(&mut pair, 1440), 1);
    }
}

/// RFC 1191 §3: less than 552 bytes is not believed, but packets are sent without DF, unless the
/// program requests otherwise.
#[test]
fn rfc1191_3_datagrams_on_a_path_that_is_too_narrow_to_be_believed_may_be_fragmented() {
    let mut pair = SimulatedPair::seeded(1);
    let (id, own, peer) = connected(&mut pair, 0);
    let may_fragment = |pair: &mut SimulatedPair| {
        send(pair, 0, id, peer, &[5; 500]).unwrap();
        let now = pair.now();
        let packets = pair.host_mut(0).transmit(now);
        assert_eq!(packets.len(), 1);
        packets[0][20] & 0x40 == 0
    };
    assert!(!may_fragment(&mut pair));
    too_big(&mut pair, id, (own, peer), 400);
    assert!(may_fragment(&mut pair));
    for (mode, may) in [(MtuDiscover::Do, false), (MtuDiscover::Dont, true), (MtuDiscover::Want, true)] {
        let mut options = pair.stack(0).udp_options(id).unwrap();
        options.mtu_discover = mode;
        pair.stack(0).udp_set_options(id, options).unwrap();
        assert_eq!(may_fragment(&mut pair), may, "{mode:?}");
    }
    pair.run_for(Span::from_secs(601));
    assert!(!may_fragment(&mut pair));
}
