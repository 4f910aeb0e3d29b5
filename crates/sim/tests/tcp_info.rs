//! What a program is told of its connection (`TCP_INFO`), with Linux's meaning of each figure, towards a peer made by hand.

mod tcp_support;

use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tcp_support::*;
use tickwire_stack::tcp::TcpInfo;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

/// A connection with SACK, MSS 1000, and a measured round trip of 1 ms.
fn peer() -> Peer {
    let mut wire = Wire::new();
    let accepted = wire.accepted();
    let mut peer = Peer::of(wire, accepted);
    sends(&mut peer, 1);
    peer.wire.pass(MS);
    peer.ack(1, &[]);
    peer.ours += 1;
    peer
}

/// The stack sends so many bytes at once.
fn sends(peer: &mut Peer, bytes: usize) {
    peer.wire.send(peer.id, &pattern(bytes, 1)).unwrap();
    assert_eq!(peer.wire.taken().len(), bytes.div_ceil(1000));
}

fn info(peer: &mut Peer) -> TcpInfo {
    let now = peer.wire.now;
    peer.wire.stack().tcp_info(peer.id, now).unwrap()
}

/// What is deemed lost stays so until it arrives, however often it is sent meanwhile.
#[test]
fn what_is_lost_counts_until_it_arrives_and_what_is_sent_again_beside_it() {
    let mut peer = peer();
    let told = |peer: &mut Peer| {
        let info = info(peer);
        (info.lost, info.resent)
    };
    sends(&mut peer, 10_000);
    peer.wire.pass(MS);
    peer.ack(0, &[(2000, 3000)]);
    peer.ack(0, &[(2000, 3000), (6000, 7000)]);
    peer.ack(0, &[(2000, 3000), (6000, 7000), (8000, 9000)]);
    assert_eq!(peer.sent(), [0]);
    assert_eq!(told(&mut peer), (6000, 1000), "all before 8000 that has not arrived");
    peer.ack(0, &[(2000, 4000), (6000, 7000), (8000, 9000)]);
    assert_eq!(peer.sent(), [1000]);
    assert_eq!(told(&mut peer), (5000, 2000));
    peer.ack(1000, &[(2000, 4000), (6000, 7000), (8000, 9000)]);
    let again = peer.sent().len() as u32;
    assert_eq!(told(&mut peer), (4000, 1000 + again * 1000), "one of them has arrived");
    peer.ack(10_000, &[]);
    assert_eq!(told(&mut peer), (0, 0));
}

/// A probe repeats what nobody deems lost.
#[test]
fn what_a_probe_repeats_is_sent_again_and_not_lost() {
    let mut peer = peer();
    sends(&mut peer, 3000);
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [2000], "a probe");
    assert_eq!((info(&mut peer).lost, info(&mut peer).resent), (0, 1000));
    peer.ack(3000, &[]);
    assert_eq!(info(&mut peer).resent, 0);
}

/// RFC 4015: what was only late is not lost.
#[test]
fn a_recovery_that_is_taken_back_leaves_nothing_lost() {
    let mut peer = peer();
    sends(&mut peer, 10_000);
    peer.wire.pass(MS);
    for end in [4000, 5000, 6000] {
        peer.ack(0, &[(3000, end)]);
    }
    assert_eq!(peer.sent(), [0]);
    assert_eq!((info(&mut peer).lost, info(&mut peer).resent), (3000, 1000));
    peer.ack(1000, &[(0, 1000), (3000, 6000)]);
    assert_eq!((info(&mut peer).lost, info(&mut peer).resent), (0, 0));
}
