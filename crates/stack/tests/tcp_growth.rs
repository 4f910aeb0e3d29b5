//! When the congestion window may grow, and by how much (RFC 5681 §3.1, RFC 9438).

mod tcp_support;

use tcp_support::pattern;
use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

impl Peer {
    /// In congestion avoidance, after the first of ten segments of 1000 bytes was lost.
    fn avoiding() -> Self {
        let mut wire = Wire::new();
        let accepted = wire.accepted();
        let mut peer = Self::of(wire, accepted);
        peer.wire.send(peer.id, &pattern(10_000, 1)).unwrap();
        peer.wire.pass(MS);
        peer.ack(0, &[(1000, 10_000)]);
        peer.ack(10_000, &[]);
        peer.sent();
        peer.ours += 10_000;
        peer
    }

    fn cwnd(&mut self) -> u32 {
        let now = self.wire.now;
        self.wire.stack().tcp_info(self.id, now).unwrap().cwnd
    }

    /// A message that is acknowledged two segments at a time, 1 ms apart.
    fn message(&mut self, bytes: u32) {
        self.wire.send(self.id, &pattern(bytes as usize, 1)).unwrap();
        for to in (2000..=bytes).step_by(2000) {
            self.wire.pass(MS);
            self.ack(to, &[]);
        }
        self.sent();
        self.ours += bytes;
    }
}

/// RFC 9438 §4.2, RFC 5681 §3.1: the end of a message was sent while the window was full. Its
/// acknowledgement proves as much as that of the beginning, although less is then in flight.
#[test]
fn rfc9438_4_2_the_acknowledgement_of_what_filled_the_window_lets_it_grow() {
    let mut peer = Peer::avoiding();
    assert_eq!(peer.cwnd(), 7000, "beta of ten segments");
    peer.message(14_000);
    // One segment per window in the first 4 ms, for 8 of the 14 segments; 9/17 of that afterwards
    // (§4.3).
    assert!((8450..8550).contains(&peer.cwnd()), "{}", peer.cwnd());
}

/// RFC 9438 §4.2: a window that the program does not fill does not grow, however much is
/// acknowledged, and however full it was before.
#[test]
fn rfc9438_4_2_what_leaves_room_in_the_window_does_not_let_it_grow() {
    let mut peer = Peer::avoiding();
    peer.message(14_000);
    let before = peer.cwnd();
    for _ in 0..50 {
        peer.message(6000);
    }
    assert_eq!(peer.cwnd(), before);
}

/// RFC 5681 §3.1: in slow start the window grows by the bytes acknowledged, up to twice the most in
/// flight during the round trip.
#[test]
fn rfc5681_3_1_slow_start_grows_to_twice_what_a_message_had_under_way() {
    for (message, window) in [(10_000, 20_000), (8000, 16_000), (4000, 10_000)] {
        let mut wire = Wire::new();
        let accepted = wire.accepted();
        let mut peer = Peer::of(wire, accepted);
        peer.message(message);
        assert_eq!(peer.cwnd(), window, "{message}");
    }
}
