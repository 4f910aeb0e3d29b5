//! Retransmission timeouts: what is deemed lost, when a timeout is found to be needless, and how long the next one is (RFC 5682, RFC 6298, RFC 8985).

mod tcp_support;

use tcp_support::pattern;
use tcp_support::raw::*;
use tickwire_stack::TcpId;
use tickwire_stack::tcp::{Setting, TcpInfo};
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

/// MSS 1000, SACK.
const SACK: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];

/// A peer without timestamps, no Nagle, and a measured round trip of 1 ms.
struct Peer {
    wire: Wire,
    id: TcpId,
    ours: u32,
    theirs: u32,
}

impl Peer {
    fn new(options: &[u8]) -> Self {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(options));
        let now = wire.now;
        wire.stack().tcp_set(id, now, Setting::NoDelay(true)).unwrap();
        let mut peer = Self { wire, id, ours, theirs };
        peer.message(1, MS);
        peer
    }

    /// A message that is acknowledged after `delay`, or as soon as the peer gets it a second time. How many copies were sent.
    fn message(&mut self, bytes: usize, delay: Span) -> usize {
        self.wire.send(self.id, &pattern(bytes, 1)).unwrap();
        let (sent, mut copies) = (self.wire.now, self.wire.taken().len());
        assert_eq!(copies, 1);
        while self.wire.now.since(sent) < delay && copies == 1 {
            self.wire.pass(Span::from_micros(500));
            copies += self.wire.taken().len();
        }
        self.ours += bytes as u32;
        self.ack(0, &[]);
        copies - 1
    }

    /// The peer acknowledges; all numbers count from `ours`.
    fn ack(&mut self, to: u32, blocks: &[(u32, u32)]) {
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (self.ours + start, self.ours + end)).collect();
        let ack = Seg::new(ACK, self.theirs, self.ours + to);
        self.wire.put(if blocks.is_empty() { ack } else { ack.sack(&blocks) });
    }

    /// What was sent since the last look, counted from `ours`.
    fn sent(&mut self) -> Vec<u32> {
        self.wire.taken().iter().map(|s| s.seq - self.ours).collect()
    }

    fn send(&mut self, bytes: usize) {
        self.wire.send(self.id, &pattern(bytes, 1)).unwrap();
    }

    fn info(&mut self) -> TcpInfo {
        let now = self.wire.now;
        self.wire.stack().tcp_info(self.id, now).unwrap()
    }
}

/// RFC 8985 §6.3: a timeout deems lost the first and what was sent longer ago than a round trip, not what has just left.
#[test]
fn rfc8985_6_3_what_was_sent_just_before_a_timeout_is_not_lost() {
    let mut peer = Peer::new(&SACK);
    peer.send(5000);
    peer.wire.pass(Span::from_micros(11_900));
    assert_eq!(peer.sent(), [0, 1000, 2000, 3000, 4000, 4000], "five and a probe");
    peer.send(4000);
    assert_eq!(peer.sent(), [5000, 6000, 7000, 8000]);
    peer.wire.pass(Span::from_micros(200));
    assert_eq!(peer.sent(), [0], "the timeout");
    peer.ack(5000, &[]);
    assert_eq!(peer.sent(), []);
    peer.ack(9000, &[]);
    assert_eq!((peer.info().outstanding, peer.wire.count("TcpRetransSegs")), (0, 2));
}
