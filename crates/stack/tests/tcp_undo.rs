//! Spurious reductions of the window are undone, and only those (RFC 2883, RFC 3522, RFC 3708, RFC
//! 4015).

mod tcp_support;

use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::LinkConfig;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

impl Peer {
    /// A connection with SACK, without timestamps, MSS 1000, and a measured round trip of 1 ms.
    fn new() -> Self {
        let mut wire = Wire::new();
        let accepted = wire.accepted();
        let mut peer = Self::of(wire, accepted);
        peer.sends(1);
        peer.wire.pass(MS);
        peer.ack(1, &[]);
        peer.ours += 1;
        peer
    }

    /// The stack sends this many bytes at once.
    fn sends(&mut self, bytes: usize) {
        self.wire.send(self.id, &pattern(bytes, 1)).unwrap();
        assert_eq!(self.wire.taken().len(), bytes.div_ceil(1000));
    }

    fn cwnd(&mut self) -> u32 {
        let now = self.wire.now;
        self.wire.stack().tcp_info(self.id, now).unwrap().cwnd
    }
}

/// RFC 3708 §3, RFC 4015: the duplicate is reported a round trip after the original has ended the
/// recovery.
#[test]
fn rfc3708_3_a_retransmission_that_is_reported_as_a_duplicate_after_the_recovery_gives_the_window_back() {
    let mut peer = Peer::new();
    peer.sends(10_000);
    let before = peer.cwnd();
    peer.wire.pass(MS);
    peer.ack(0, &[(1000, 4000)]);
    assert_eq!(peer.sent()[0], 0, "deemed lost");
    peer.ack(10_000, &[]);
    assert!(peer.cwnd() < before);
    peer.wire.pass(MS);
    peer.ack(10_000, &[(0, 1000)]);
    assert!(peer.cwnd() >= before, "{} of {before}", peer.cwnd());
    assert_eq!(peer.wire.count("TcpRetransSegs"), 1);
}

/// As above, with new data in flight when the report arrives, and two segments that the peer
/// received and reports as one (its network card merges them).
#[test]
fn rfc3708_3_one_report_may_stand_for_several_segments() {
    let mut peer = Peer::new();
    peer.sends(10_000);
    let before = peer.cwnd();
    peer.wire.pass(MS);
    peer.ack(0, &[(2000, 5000)]);
    peer.ack(0, &[(2000, 8000)]);
    assert_eq!(peer.sent(), [0, 1000]);
    peer.ack(10_000, &[]);
    peer.sends(2000);
    assert!(peer.cwnd() < before);
    peer.wire.pass(MS);
    peer.ack(10_000, &[(0, 2000)]);
    assert!(peer.cwnd() >= before, "{} of {before}", peer.cwnd());
}

/// RFC 3708 §3: one of two retransmissions was necessary.
#[test]
fn rfc3708_3_one_duplicate_of_two_retransmissions_proves_nothing() {
    let mut peer = Peer::new();
    peer.sends(10_000);
    let before = peer.cwnd();
    peer.wire.pass(MS);
    peer.ack(0, &[(2000, 5000)]);
    peer.ack(0, &[(2000, 8000)]);
    assert_eq!(peer.sent(), [0, 1000]);
    peer.ack(10_000, &[]);
    peer.wire.pass(MS);
    peer.ack(10_000, &[(1000, 2000)]);
    assert!(peer.cwnd() < before, "{} of {before}", peer.cwnd());
}

/// RFC 3708 §3: the duplicate is of the probe that found the loss.
#[test]
fn rfc3708_3_the_duplicate_of_a_probe_does_not_undo_the_recovery_that_it_led_to() {
    let mut peer = Peer::new();
    peer.sends(3000);
    let before = peer.cwnd();
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [2000], "a probe");
    peer.ack(0, &[(1000, 3000)]);
    peer.wire.pass(MS);
    assert_eq!(peer.sent(), [0], "the loss");
    peer.ack(0, &[(2000, 3000), (1000, 3000)]);
    peer.ack(3000, &[]);
    assert!(peer.cwnd() < before, "{} of {before}", peer.cwnd());
}

/// RFC 3708 §3: the network duplicated a packet that was sent once.
#[test]
fn rfc3708_3_a_packet_that_the_network_doubled_undoes_nothing() {
    let mut peer = Peer::new();
    peer.sends(10_000);
    let before = peer.cwnd();
    peer.wire.pass(MS);
    peer.ack(0, &[(1000, 4000)]);
    assert_eq!(peer.sent()[0], 0);
    peer.ack(0, &[(2000, 3000), (1000, 4000)]);
    peer.wire.pass(MS);
    peer.ack(10_000, &[]);
    assert!(peer.cwnd() < before, "{} of {before}", peer.cwnd());
}

/// RFC 8985 §6.2, step 4: the reordering window grows when reordering looked like a loss. A
/// spurious probe is no sign of reordering.
#[test]
fn rfc8985_6_2_needless_probes_do_not_widen_the_reordering_window() {
    let mut peer = Peer::new();
    for _ in 0..10 {
        peer.sends(100);
        while peer.sent().is_empty() {
            peer.wire.pass(MS);
        }
        peer.ack(100, &[(0, 100)]);
        peer.ours += 100;
    }
    assert_eq!(peer.wire.count("TcpExtTCPLossProbes"), 10);
    peer.sends(3000);
    peer.wire.pass(MS);
    peer.ack(0, &[(1000, 2000)]);
    peer.wire.pass(Span::from_micros(251)); // a quarter of the round trip
    assert_eq!(peer.sent(), [0]);
}

/// Packets are overtaken by more than RACK's reordering window: the congestion window stays, and
/// the transfer is nearly as fast as without reordering. Losses reduce the window, with or without
/// reordering.
#[test]
fn rfc4015_reordering_does_not_close_the_window_and_losses_do() {
    let mut took = Vec::new();
    for (loss, reorder) in [(0, 0), (0, 1_000), (1_000, 0), (1_000, 1_000)] {
        let link = LinkConfig {
            delay: Span::from_micros(200),
            loss,
            reorder,
            reorder_by: Span::from_micros(800),
            rate: 10_000_000_000,
            ..LinkConfig::default()
        };
        let mut pair = pair_with(7, link);
        let (client, server, _) = connected(&mut pair, 0);
        let span = transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 20_000_000)], Span::from_secs(60));
        took.push(span.as_millis());
    }
    let [clean, reordered, lossy, both] = took[..] else { unreachable!() };
    assert!(reordered < clean * 3 / 2, "{took:?} ms");
    assert!(lossy > clean * 2 && both > clean * 2, "{took:?} ms");
}
