//! RFC 8985 §7.2, seen from the receiver: a sender with a single segment in flight allows for a
//! delayed acknowledgement, and so detects a loss behind it late. While more data must follow, the
//! last received segment is therefore acknowledged together with that data.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::TcpId;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);
const FULL: [u8; 1000] = [7; 1000];

/// A sender with SACK and segments of 1000 bytes.
struct Sender {
    wire: Wire,
    id: TcpId,
    ours: u32,
    next: u32,
    acked: u32,
    edge: u32,
}

impl Sender {
    fn new() -> Self {
        Self::with(&[2, 4, 3, 232, 4, 2, 1, 1])
    }

    fn with(options: &[u8]) -> Self {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let (id, ours, next) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(options));
        let mut sender = Self { wire, id, ours, next, acked: next, edge: next };
        // The quick acknowledgements at the start of a connection end with the first answer.
        sender.exchange();
        // This sender sends the rest of a message without waiting.
        sender.together(&[(1000, 0), (100, PSH)]);
        sender.exchange();
        sender
    }

    /// A sender with Nagle's algorithm: it keeps the rest of a message until all before it is
    /// acknowledged.
    fn of_nagles_kind() -> Self {
        let mut wire = Wire::new();
        let (id, ours, next) = wire.accepted();
        let mut sender = Self { wire, id, ours, next, acked: next, edge: next };
        sender.exchange();
        sender
    }

    /// A request that is answered.
    fn exchange(&mut self) {
        self.exchange_in(Span::ZERO);
    }

    /// The same, with this round-trip time.
    fn exchange_in(&mut self, round_trip: Span) {
        self.together(&[(100, PSH)]);
        self.wire.send(self.id, b"answer").unwrap();
        self.ours += 6;
        let sent = self.wire.taken();
        assert!(sent.iter().any(|seg| seg.ack == self.next), "{sent:?}");
        self.wire.pass(round_trip);
        self.wire.taken();
        self.wire.put(Seg::new(ACK, self.next, self.ours));
        self.acked = self.next;
    }

    /// Segments of these lengths, with these flags, arrive in one batch.
    fn together(&mut self, segments: &[(usize, u8)]) {
        self.wire.stack().batch_begin();
        for &(len, bits) in segments {
            self.wire.put(Seg::new(ACK | bits, self.next, self.ours).data(&FULL[..len]));
            self.next += len as u32;
        }
        let now = self.wire.now;
        self.wire.stack().batch_end(now);
    }

    /// This many full segments, with more to follow.
    fn burst(&mut self, segments: usize) {
        self.together(&vec![(1000, 0); segments]);
    }

    /// The number of bytes that the one transmitted segment does not acknowledge.
    #[track_caller]
    fn withheld(&mut self) -> u32 {
        let seg = self.wire.one();
        let edge = seg.ack + u32::from(seg.window);
        assert!(seg.ack.wrapping_sub(self.acked) < 1 << 20, "acknowledgements never go back");
        assert!(edge.wrapping_sub(self.edge) < 1 << 20, "the right edge moves left");
        (self.acked, self.edge) = (seg.ack, edge);
        let _ = self.wire.recv(self.id);
        self.wire.taken();
        self.next - seg.ack
    }

    /// The time after which the rest is acknowledged.
    #[track_caller]
    fn told_after(&mut self) -> Span {
        let begin = self.wire.now;
        self.wire.pass(Span::from_millis(100));
        let sent = self.wire.taken_at();
        assert_eq!((sent.len(), sent[0].1.ack), (1, self.next), "{sent:?}");
        self.acked = self.next;
        sent[0].0.since(begin)
    }
}

#[test]
fn the_last_segment_waits_for_what_must_follow_it() {
    let mut sender = Sender::new();
    sender.burst(4);
    assert_eq!(sender.withheld(), 1000);
    sender.wire.pass(Span::from_millis(12));
    sender.wire.nothing();
    // As with a tail loss probe of the kernel.
    sender.together(&[(500, PSH)]);
    sender.wire.pass(MS.times(4));
    assert_eq!(sender.withheld(), 0);
    assert_eq!(sender.wire.count("TcpExtDelayedACKs"), 1);
}

#[test]
fn the_end_of_a_message_is_acknowledged_with_all_before_it() {
    let mut sender = Sender::new();
    sender.together(&[(1000, 0), (1000, 0), (1000, 0), (1000, PSH)]);
    assert_eq!(sender.withheld(), 0);
    sender.together(&[(1000, 0), (1000, 0), (1000, 0), (200, 0)]);
    assert_eq!(sender.withheld(), 0, "what is not full may be the last");
    sender.wire.pass(Span::from_millis(100));
    sender.wire.nothing();
}

/// RFC 5681 §4.2: every second segment is acknowledged. A sender with a window of two has sent all
/// that it may; one that had three in flight continues.
#[test]
fn as_many_acknowledgements_go_as_ever_and_no_sender_stalls() {
    let mut sender = Sender::new();
    for _ in 0..3 {
        sender.burst(2);
        assert_eq!(sender.withheld(), 0);
    }
    sender.burst(3);
    assert_eq!(sender.withheld(), 1000);
    for _ in 0..3 {
        sender.burst(1);
        sender.wire.nothing();
        sender.burst(1);
        assert_eq!(sender.withheld(), 1000);
        sender.burst(2);
        assert_eq!(sender.withheld(), 1000);
    }
    // The sender's window may have become smaller: by a timeout, after a long silence,
    sender.wire.pass(Span::from_millis(200));
    sender.wire.taken();
    sender.burst(2);
    assert_eq!(sender.withheld(), 0);
    // or by a loss, which was reported and repaired a moment ago.
    sender.exchange();
    sender.burst(3);
    assert_eq!(sender.withheld(), 1000);
    sender.next += 1000;
    sender.burst(1);
    sender.next -= 2000;
    sender.burst(1);
    sender.next += 1000;
    sender.wire.taken();
    sender.burst(2);
    assert_eq!(sender.withheld(), 0);
}

/// RFC 5681 §4.2 allows 500 ms. With a segment left out a Linux peer probes within 16 ms; waiting
/// longer gains nothing.
#[test]
fn what_was_left_out_is_acknowledged_when_nothing_follows() {
    let mut sender = Sender::new();
    sender.burst(5);
    assert_eq!(sender.withheld(), 1000);
    assert_eq!(sender.told_after(), Span::from_millis(20));
    // The next data arrives long after that: the sender was not waiting.
    sender.wire.pass(Span::from_millis(200));
    sender.burst(5);
    assert_eq!(sender.withheld(), 1000);
}

/// RFC 896: a sender may keep the small rest of a message until all before it is acknowledged. That
/// costs the delay once.
#[test]
fn a_sender_that_waits_for_the_acknowledgement_is_known_by_it() {
    let mut sender = Sender::new();
    sender.burst(5);
    assert_eq!(sender.withheld(), 1000);
    sender.wire.pass(Span::from_millis(20));
    assert_eq!(sender.wire.one().ack, sender.next);
    sender.wire.pass(Span::from_micros(200));
    sender.together(&[(300, PSH)]);
    sender.wire.pass(Span::from_millis(100));
    sender.wire.taken();
    for _ in 0..3 {
        sender.exchange();
        sender.burst(5);
        assert_eq!(sender.withheld(), 0);
        sender.exchange();
        sender.burst(2);
        assert_eq!(sender.withheld(), 0);
        sender.burst(1);
        assert!(sender.told_after() < MS.times(4));
    }
}

/// RFC 896: leaving out a segment of the very first acknowledgement would cost such a sender the
/// delay on each new connection, and with a long round trip at each message.
#[test]
fn no_sender_is_delayed_that_may_have_waited_for_the_acknowledgement() {
    for round_trip in [Span::from_micros(200), MS.times(30)] {
        let mut sender = Sender::of_nagles_kind();
        (0..40).for_each(|_| sender.exchange_in(round_trip));
        for _ in 0..5 {
            sender.burst(3);
            assert_eq!(sender.withheld(), 0);
            sender.wire.pass(round_trip);
            sender.together(&[(300, PSH)]);
            sender.wire.pass(MS.times(100));
            sender.wire.taken();
        }
    }
}

/// Such a sender may retransmit the rest of a message, or answer later than the measured round
/// trip: both look as if it had not waited. It is delayed at most once.
#[test]
fn a_sender_that_seems_not_to_have_waited_is_detected() {
    for repaired in [false, true] {
        let mut sender = Sender::of_nagles_kind();
        if repaired {
            // Full segments are sent behind a small one, which is lost and retransmitted.
            sender.next += 300;
            sender.burst(2);
            sender.next -= 2300;
            sender.together(&[(300, 0)]);
            sender.next += 2000;
            sender.wire.taken();
            sender.burst(3);
            assert_eq!(sender.withheld(), 0, "what was sent again proves nothing");
            sender.wire.pass(MS.times(200));
            sender.together(&[(300, PSH)]);
            sender.wire.taken();
        }
        let mut times = 0;
        for _ in 0..5 {
            sender.burst(3);
            times += u32::from(sender.withheld() > 0);
            sender.wire.pass(MS.times(20));
            sender.wire.taken();
            sender.wire.pass(MS.times(10));
            sender.together(&[(300, PSH)]);
            sender.wire.taken();
        }
        assert_eq!(times, 1, "repaired: {repaired}");
    }
}

/// Nothing is learnt about a peer without a measured round trip.
#[test]
fn without_a_round_trip_nothing_is_late() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232, 4, 2, 1, 1]));
    let answer = wire.one();
    // Of two transmissions it is unknown which one is acknowledged (Karn's algorithm, RFC 6298 §3).
    wire.pass(Span::from_millis(1500));
    assert!(wire.one().has(SYN | ACK));
    let (ours, next) = (answer.seq + 1, answer.ack);
    wire.put(Seg::new(ACK, next, ours));
    let id = wire.stack().tcp_accept(listener).unwrap();
    let mut sender = Sender { wire, id, ours, next, acked: next, edge: next };
    for _ in 0..5 {
        sender.burst(3);
        assert_eq!(sender.withheld(), 0);
        sender.wire.pass(MS.times(30));
        sender.together(&[(300, PSH)]);
        sender.wire.taken();
    }
}

/// The expected data arrived before the delay was over: the peer has not waited, whenever it
/// continues.
#[test]
fn a_sender_that_goes_on_just_in_time_has_not_waited() {
    let mut sender = Sender::new();
    sender.burst(4);
    assert_eq!(sender.withheld(), 1000);
    sender.wire.pass(MS.times(18));
    sender.together(&[(500, PSH)]);
    sender.wire.pass(MS.times(2));
    assert_eq!(sender.withheld(), 0);
    sender.wire.pass(MS);
    sender.exchange();
    sender.burst(4);
    assert_eq!(sender.withheld(), 1000);
}

/// A sender without Nagle's algorithm is recognised by its messages: the rest comes at once, or so
/// late that it was lost and retransmitted.
#[test]
fn a_sender_that_has_not_waited_is_known_by_the_end_of_a_message() {
    for late in [false, true] {
        let mut sender = Sender::of_nagles_kind();
        sender.burst(3);
        assert_eq!(sender.withheld(), 0);
        if late {
            sender.wire.pass(MS.times(200));
        } else {
            sender.burst(1);
        }
        sender.together(&[(300, PSH)]);
        sender.exchange();
        sender.burst(3);
        assert_eq!(sender.withheld(), 1000);
    }
}

#[test]
fn a_single_segment_waits_longer_behind_others_only() {
    let mut sender = Sender::new();
    sender.together(&[(1000, 0), (1000, 0), (1000, PSH)]);
    assert_eq!(sender.withheld(), 0);
    sender.wire.pass(Span::from_micros(300));
    sender.burst(1);
    assert_eq!(sender.told_after(), Span::from_millis(20));
    // A single segment may be all that the sender's window holds, as after a timeout.
    sender.wire.pass(Span::from_millis(200));
    sender.exchange();
    sender.wire.pass(MS.times(10));
    sender.burst(1);
    assert!(sender.told_after() < MS.times(4));
}

#[test]
fn nothing_is_left_out_where_it_would_be_missed() {
    // A peer without SACK counts duplicates.
    let mut sender = Sender::with(&[2, 4, 3, 232]);
    sender.burst(4);
    assert_eq!(sender.withheld(), 0);
    // A gap is reported at once, and so is its end.
    let mut sender = Sender::new();
    sender.next += 1000;
    sender.burst(3);
    let sent = sender.wire.taken();
    assert!(sent.len() == 3 && sent.iter().all(|seg| seg.ack == sender.acked && !seg.blocks().is_empty()), "{sent:?}");
    sender.next -= 4000;
    sender.burst(1);
    sender.next += 3000;
    assert_eq!(sender.withheld(), 0);
}

/// The data that follows must have room: a sender that has filled the window waits for it to open.
#[test]
fn nothing_is_left_out_where_the_window_is_full() {
    let mut sender = Sender::new();
    // The program does not read.
    let room = loop {
        sender.burst(3);
        let told = sender.wire.taken().pop().unwrap();
        assert!(sender.next - told.ack <= 1000);
        let room = told.ack + u32::from(told.window) - sender.next;
        if room < 5000 {
            break room as usize / 1000;
        }
    };
    sender.burst(room);
    sender.wire.pass(MS.times(4));
    let sent = sender.wire.taken();
    assert!(sent.last().is_some_and(|seg| seg.ack == sender.next && seg.window < 1000), "{sent:?}");
}
