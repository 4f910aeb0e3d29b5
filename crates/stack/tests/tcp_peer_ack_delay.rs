//! A peer that delays its acknowledgements as a kernel does: by 40 ms for less than a full segment,
//! but not at all for a duplicate.

mod tcp_support;

use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

impl Peer {
    fn new() -> Self {
        let mut wire = Wire::new();
        let accepted = wire.accepted();
        Self::of(wire, accepted)
    }

    /// Sends messages that are acknowledged within 200 us.
    fn quick(&mut self, messages: u32) {
        self.answered(messages, Span::from_micros(200));
    }

    /// Sends messages that are acknowledged after `way`.
    fn answered(&mut self, messages: u32, way: Span) {
        for _ in 0..messages {
            self.wire.send(self.id, &[1; 100]).unwrap();
            self.wire.one();
            self.wire.pass(way);
            self.ours += 100;
            self.wire.put(Seg::new(ACK, self.theirs, self.ours));
            self.wire.pass(MS);
        }
        self.wire.nothing();
    }

    /// Sends a message whose acknowledgement is delayed by `delay`, unless a probe arrives. Returns
    /// whether it did.
    fn delays_ack(&mut self, delay: Span) -> bool {
        let first = self.ours;
        self.wire.send(self.id, &[2; 100]).unwrap();
        self.ours += 100;
        let sent = self.wire.now;
        let mut copies = 0;
        while self.wire.now.since(sent) < delay {
            self.wire.pass(MS);
            copies += self.wire.taken().len();
            if copies == 2 {
                self.wire.put(Seg::new(ACK, self.theirs, self.ours).sack(&[(first, self.ours)]));
                return true;
            }
        }
        self.wire.put(Seg::new(ACK, self.theirs, self.ours));
        false
    }

    /// Sends a message that is lost; returns the time until its retransmission.
    fn lost(&mut self) -> Span {
        self.wire.send(self.id, &[3; 100]).unwrap();
        self.wire.one();
        self.ours += 100;
        let sent = self.wire.now;
        let mut again = Vec::new();
        while again.is_empty() {
            self.wire.pass(MS);
            again = self.wire.taken_at();
        }
        self.wire.put(Seg::new(ACK, self.theirs, self.ours));
        again[0].0.since(sent)
    }

    /// Sends five segments of which the first is lost and the others arrive: it is retransmitted at
    /// once.
    fn gap(&mut self) {
        let first = self.ours;
        self.wire.send(self.id, &[4; 5_000]).unwrap();
        assert_eq!(self.wire.taken().len(), 5);
        self.wire.pass(Span::from_micros(200));
        self.wire.put(Seg::new(ACK, self.theirs, first).sack(&[(first + 1_000, first + 5_000)]));
        assert_eq!(self.wire.one().seq, first);
        self.wire.pass(Span::from_micros(200));
        self.ours += 5_000;
        self.wire.put(Seg::new(ACK, self.theirs, self.ours));
        self.wire.nothing();
    }

    fn probes(&mut self) -> u64 {
        self.wire.count("TcpExtTCPLossProbes")
    }
}

/// RFC 8985 §7.2 adds the peer's maximum acknowledgement delay for a single segment. It is learnt,
/// since most peers have none.
#[test]
fn a_peer_that_holds_acknowledgements_back_is_soon_probed_no_more() {
    let mut peer = Peer::new();
    peer.quick(50);
    let probed: Vec<bool> = (0..40)
        .map(|_| {
            peer.quick(4);
            peer.delays_ack(Span::from_millis(40))
        })
        .collect();
    assert_eq!(probed.iter().filter(|&&p| p).count() as u64, peer.probes());
    assert!(probed[0] && peer.probes() <= 4 && !probed[4..].contains(&true), "{probed:?}");
    assert_eq!((peer.wire.count("TcpExtTCPTimeouts"), peer.wire.count("TcpRetransSegs")), (0, peer.probes()));
}

/// RFC 8985 §7.2: the cost is that one loss is repaired that much later; the next one is repaired
/// as fast as before.
#[test]
fn what_was_learnt_delays_one_repair_and_is_forgotten_with_it() {
    let mut peer = Peer::new();
    peer.quick(50);
    assert!(peer.lost() < Span::from_millis(6));
    peer.quick(1);
    for _ in 0..10 {
        peer.delays_ack(Span::from_millis(40));
        peer.quick(50);
    }
    let first = peer.lost();
    assert!((Span::from_millis(40)..Span::from_millis(82)).contains(&first), "{} us", first.as_micros());
    peer.quick(100);
    assert!(peer.lost() < Span::from_millis(6));
}

/// RFC 8985 §7.2.
#[test]
fn what_was_learnt_is_forgotten_when_it_was_of_no_use_for_ten_seconds() {
    let mut peer = Peer::new();
    peer.quick(50);
    assert!(peer.delays_ack(Span::from_millis(40)));
    peer.quick(1);
    let doubled = peer.lost();
    assert!((Span::from_millis(10)..Span::from_millis(12)).contains(&doubled), "{} us", doubled.as_micros());
    peer.quick(50);
    assert!(peer.delays_ack(Span::from_millis(40)));
    for _ in 0..100 {
        peer.quick(1);
        peer.wire.pass(Span::from_millis(100));
    }
    assert!(peer.lost() < Span::from_millis(6));
}

/// RFC 8985 §7.2: a long round trip alone is no sign of delayed acknowledgements.
#[test]
fn what_was_learnt_is_forgotten_also_where_a_round_trip_is_longer_than_the_smallest_allowance() {
    let (way, ack_delay) = (Span::from_millis(50), Span::from_millis(90));
    let mut peer = Peer::new();
    peer.answered(100, way);
    while peer.delays_ack(ack_delay) {
        peer.answered(20, way);
    }
    assert_eq!(peer.probes(), 4);
    peer.answered(100, way);
    assert!(!peer.delays_ack(ack_delay), "kept for as long as it is of use");
    peer.answered(100, way);
    assert!(!peer.delays_ack(ack_delay));
    peer.answered(200, way);
    let first = peer.lost();
    assert!(first < Span::from_millis(62), "{} us", first.as_micros());
}

/// RFC 8985 §7.2: losses shown by acknowledgements are real, and the next one may be of a last
/// message.
#[test]
fn what_was_learnt_is_forgotten_when_acknowledgements_show_a_loss() {
    let mut peer = Peer::new();
    peer.quick(50);
    for _ in 0..10 {
        peer.delays_ack(Span::from_millis(40));
        peer.quick(50);
    }
    peer.gap();
    assert_eq!(peer.wire.count("TcpExtTCPFastRetrans"), 1);
    peer.quick(50);
    let first = peer.lost();
    assert!(first < Span::from_millis(6), "{} us", first.as_micros());
}
