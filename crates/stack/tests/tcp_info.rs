//! What `TCP_INFO` reports about a connection to a hand-made peer, with Linux's meaning of each
//! field.

mod tcp_support;

use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::PairConfig;
use tickwire_stack::tcp::{TcpInfo, TcpState};
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

/// The stack sends this many bytes at once.
fn sends(peer: &mut Peer, bytes: usize) {
    peer.wire.send(peer.id, &pattern(bytes, 1)).unwrap();
    assert_eq!(peer.wire.taken().len(), bytes.div_ceil(1000));
}

fn info(peer: &mut Peer) -> TcpInfo {
    let now = peer.wire.now;
    peer.wire.stack().tcp_info(peer.id, now).unwrap()
}

/// A segment counts as lost until it arrives, however often it is retransmitted meanwhile.
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

/// RFC 8985 §7.3: a probe retransmits a segment that is not deemed lost.
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

/// RFC 4015: a segment that was only late is not lost.
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

/// `tcpi_reordering` and `tcpi_reord_seen`: the distance, in segments, from one that was overtaken
/// to the highest that had arrived; each acknowledgement that reports any counts once. A
/// retransmission is not counted as overtaken.
#[test]
fn what_was_overtaken_counts_by_how_far_and_how_often() {
    let mut peer = peer();
    let told = |peer: &mut Peer| {
        let info = info(peer);
        (info.reordering, info.overtaken)
    };
    sends(&mut peer, 10_000);
    assert_eq!(told(&mut peer), (3, 0), "what Linux assumes");
    peer.wire.pass(MS);
    peer.ack(0, &[(6000, 7000)]);
    peer.ack(0, &[(4000, 5000), (6000, 7000)]);
    assert_eq!(told(&mut peer), (3, 1), "by three");
    peer.ack(0, &[(1000, 3000), (4000, 5000), (6000, 8000)]);
    assert_eq!(told(&mut peer), (7, 2), "up to what came with it");
    peer.wire.pass(MS);
    assert_eq!(peer.sent()[0], 0);
    peer.ack(1000, &[(1000, 3000), (4000, 5000), (6000, 8000)]);
    assert_eq!(told(&mut peer), (7, 2));
}

/// Bytes are payload, without SYN and FIN; segments are counted in total and with payload.
#[test]
fn bytes_and_segments_count_in_both_directions() {
    let mut peer = peer();
    sends(&mut peer, 9_500);
    peer.ack(5000, &[]);
    let told = info(&mut peer);
    assert_eq!((told.bytes_sent, told.bytes_acked, told.bytes_resent), (9_501, 5_001, 0));
    assert_eq!((told.data_segments_out, told.segments_out), (11, 12), "SYN-ACK and no acknowledgement");
    assert_eq!((told.delivered, told.outstanding), (7, 4_500), "the SYN, one, and five");
    assert_eq!((told.data_segments_in, told.segments_in, told.bytes_received), (0, 3, 0));

    let theirs = peer.theirs;
    let data = |peer: &mut Peer, at: u32| {
        let ack = peer.ours + 5000;
        peer.wire.put(Seg::new(ACK, theirs + at, ack).data(&pattern(1000, 1)));
        let told = info(peer);
        (told.bytes_received, told.data_segments_in, told.early)
    };
    assert_eq!(data(&mut peer, 1000), (0, 1, 1), "the second first");
    assert_eq!(data(&mut peer, 0), (2000, 2, 1));
    assert_eq!(data(&mut peer, 0), (2000, 3, 1), "a duplicate");
    peer.theirs += 2000;
    peer.wire.taken();

    peer.wire.recv(peer.id).unwrap();
    let now = peer.wire.now;
    peer.wire.stack().tcp_shutdown(peer.id, now, tickwire_stack::tcp::Shutdown::Write).unwrap();
    assert_eq!(peer.wire.one().bits & FIN, FIN);
    assert_eq!(info(&mut peer).bytes_acked, 5_001, "the FIN is under way");
    peer.ack(9_501, &[]);
    let told = info(&mut peer);
    assert_eq!((told.state, told.bytes_sent, told.bytes_acked), (TcpState::FinWait2, 9_501, 9_501));
    assert_eq!(told.delivered, 13, "the FIN alone is one");
}

/// Retransmissions are counted in bytes, and the duplicates that the peer reports (RFC 2883) in
/// segments.
#[test]
fn what_was_sent_again_and_reported_as_a_duplicate_counts() {
    let mut peer = peer();
    sends(&mut peer, 3000);
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [2000], "a probe");
    peer.ack(3000, &[(2000, 3000)]);
    let told = info(&mut peer);
    assert_eq!((told.bytes_sent, told.bytes_resent, told.bytes_acked), (4001, 1000, 3001));
    assert_eq!((told.total_retransmits, told.duplicates, told.data_segments_out), (1, 1, 5));
    peer.ack(3000, &[(0, 2000)]);
    assert_eq!(info(&mut peer).duplicates, 3, "two in one report");
    let (start, end) = (peer.ours.wrapping_sub(100_000), peer.ours + 3000);
    peer.wire.put(Seg::new(ACK, peer.theirs, end).sack(&[(start, end)]));
    assert_eq!(info(&mut peer).duplicates, 3, "more than any window held");
}

/// RFC 3168: segments acknowledged with ECE.
#[test]
fn what_is_acknowledged_with_a_mark_counts() {
    for (asks, marked) in [(ECE | CWR, 2), (0, 0)] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let syn = Seg::new(SYN | asks, 1000, 0).options(&[2, 4, 3, 232, 4, 2, 1, 1]);
        let accepted = wire.accepted_with(listener, syn);
        let mut peer = Peer::of(wire, accepted);
        sends(&mut peer, 3000);
        let echo = Seg::new(ACK | ECE, peer.theirs, peer.ours + 2000);
        peer.wire.put(echo);
        peer.ack(3000, &[]);
        assert_eq!((info(&mut peer).delivered, info(&mut peer).delivered_marked), (4, marked));
    }
}

/// A segment in several frames counts as one.
#[test]
fn jumbo_segments_count_as_one_each() {
    let mut wire = Wire::on(&PairConfig { mtu: 9000, ..PairConfig::default() });
    let listener = wire.listen(4);
    let accepted = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 0x23, 0, 4, 2, 1, 1]));
    let mut peer = Peer::of(wire, accepted);
    peer.wire.send(peer.id, &pattern(16_000, 1)).unwrap();
    let segments = peer.wire.taken();
    assert_eq!((segments.len(), segments[0].data.len() > 8000), (2, true));
    peer.wire.pass(MS);
    peer.ack(0, &[(segments[0].data.len() as u32, 16_000)]);
    assert_eq!(info(&mut peer).delivered, 2);
    peer.wire.pass(Span::from_millis(20));
    let told = info(&mut peer);
    assert!(told.total_retransmits > 0 && told.data_segments_out == 2 + told.total_retransmits);
    peer.ack(16_000, &[]);
    assert_eq!(info(&mut peer).delivered, 3);
}

/// `tcpi_busy_time`: from the first queued byte until all bytes are acknowledged.
#[test]
fn time_with_something_to_do_counts() {
    let mut peer = peer();
    let before = info(&mut peer).busy;
    assert_eq!(before, MS);
    peer.wire.pass(Span::from_secs(1));
    assert_eq!(info(&mut peer).busy, before);
    sends(&mut peer, 10);
    peer.wire.pass(MS);
    peer.ack(5, &[]);
    peer.wire.pass(MS);
    assert_eq!(info(&mut peer).busy, before + MS + MS);
    peer.ack(10, &[]);
    peer.wire.pass(MS);
    assert_eq!(info(&mut peer).busy, before + MS + MS);
}
