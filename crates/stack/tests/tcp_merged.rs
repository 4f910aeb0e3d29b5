//! Segments that the receiving kernel has merged (GRO) are accepted whole, and do not affect the
//! estimate of the peer's segment size.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::TcpId;

const BYTES: [u8; 8000] = [7; 8000];

/// A sender of segments of 1000 bytes, past the quick acknowledgements at the start of a
/// connection.
struct Sender {
    wire: Wire,
    id: TcpId,
    ours: u32,
    next: u32,
}

impl Sender {
    fn new() -> Self {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let (id, ours, next) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        let mut sender = Self { wire, id, ours, next };
        // An answer ends the quick acknowledgements at the start of the connection.
        sender.comes(100, PSH);
        sender.wire.send(sender.id, b"answer").unwrap();
        sender.ours += 6;
        sender.wire.taken();
        sender.comes(0, 0);
        sender
    }

    fn comes(&mut self, len: usize, bits: u8) {
        self.merged(len, 0, bits);
    }

    /// A packet arrives that was merged from segments of `each` bytes; 0: from one segment.
    fn merged(&mut self, len: usize, each: u16, bits: u8) {
        self.wire.stack().batch_begin();
        self.wire.put_merged(Seg::new(ACK | bits, self.next, self.ours).data(&BYTES[..len]), each);
        self.next += len as u32;
        let now = self.wire.now;
        self.wire.stack().batch_end(now);
    }
}

#[test]
fn after_a_merged_one_every_second_full_segment_is_acknowledged_as_before() {
    // The second one fits a packet, like two merged segments of a peer with a small path MTU.
    for (len, each, full) in [(8000, 1000, 1000), (1072, 536, 1000)] {
        let mut sender = Sender::new();
        sender.merged(len, each, PSH);
        assert_eq!(sender.wire.one().ack, sender.next);
        for _ in 0..40 {
            sender.comes(full, 0);
            sender.wire.nothing();
            sender.comes(full, PSH);
            assert_eq!(sender.wire.one().ack, sender.next);
        }
    }
}

#[test]
fn a_merged_one_is_acknowledged_however_short_it_is() {
    let mut sender = Sender::new();
    for len in (0..40).flat_map(|_| [1600, 700]) {
        sender.merged(len, 600, PSH);
        assert_eq!(sender.wire.one().ack, sender.next);
    }
}

#[test]
fn what_is_longer_than_a_packet_of_ours_may_be_one() {
    // Our own path has a small MTU, the peer's has not.
    let mut sender = Sender::new();
    for _ in 0..40 {
        sender.comes(1600, 0);
        sender.comes(1600, PSH);
        assert_eq!(sender.wire.one().ack, sender.next);
    }
}
