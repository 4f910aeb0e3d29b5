//! Retransmission timeouts: which segments are deemed lost, when a timeout is found to be spurious,
//! and how long the next one is (RFC 5682, RFC 6298, RFC 8985).

mod tcp_support;

use tcp_support::pattern;
use tcp_support::peer::Peer;
use tcp_support::raw::*;
use tickwire_stack::tcp::TcpInfo;
use tickwire_stack::time::Span;

const MS: Span = Span::from_millis(1);

/// MSS 1000.
const PLAIN: [u8; 4] = [2, 4, 3, 232];
/// MSS 1000, SACK.
const SACK: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];

impl Peer {
    /// Without timestamps, and with a measured round trip of 1 ms.
    fn new(options: &[u8]) -> Self {
        Self::opened_by(Seg::new(SYN, 1000, 0).options(options))
    }

    fn opened_by(syn: Seg) -> Self {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let accepted = wire.accepted_with(listener, syn);
        let mut peer = Self::of(wire, accepted);
        peer.message(1, MS);
        peer
    }

    /// Sends a message that is acknowledged after `delay`, or when the peer gets it a second time.
    /// Returns the number of additional copies.
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

    fn send(&mut self, bytes: usize) {
        self.wire.send(self.id, &pattern(bytes, 1)).unwrap();
    }

    fn info(&mut self) -> TcpInfo {
        let now = self.wire.now;
        self.wire.stack().tcp_info(self.id, now).unwrap()
    }

    /// Sends ten segments of twenty (and an eleventh as a probe, where SACK allows one); a timeout
    /// retransmits the first.
    fn timed_out(options: &[u8]) -> (Self, u32) {
        let mut peer = Self::new(options);
        peer.send(20_000);
        assert_eq!(peer.sent().len(), 10);
        let before = peer.info().cwnd;
        let probed = options.len() > 4;
        peer.wire.pass(Span::from_micros(if probed { 12_500 } else { 6_500 }));
        assert_eq!(peer.sent(), if probed { vec![10_000, 0] } else { vec![0] });
        assert_eq!(peer.wire.count("TcpExtTCPTimeouts"), 1);
        (peer, before)
    }
}

/// RFC 5682 §2.1, step 3b: acknowledgements of the original transmissions still arrive, so nothing
/// was lost.
#[test]
fn rfc5682_2_1_a_needless_timeout_is_found_without_sack_and_timestamps() {
    let (mut peer, before) = Peer::timed_out(&PLAIN);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [10_000, 11_000], "two new segments, and none of the others again");
    peer.ack(2000, &[]);
    assert!(peer.info().cwnd >= before, "{} of {before}", peer.info().cwnd);
    let sent = peer.sent();
    assert!(sent.iter().all(|&seq| seq >= 12_000), "{sent:?}");
    assert_eq!((peer.wire.count("TcpExtTCPSpuriousRTOs"), peer.wire.count("TcpRetransSegs")), (1, 1));
}

/// RFC 5682 §2.1, step 3a: a duplicate acknowledgement is for the new segments, so the ones before
/// them are lost.
#[test]
fn rfc5682_2_1_a_true_loss_is_repaired_by_slow_start() {
    let (mut peer, _) = Peer::timed_out(&PLAIN);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [10_000, 11_000]);
    peer.wire.pass(MS);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [1000]);
    assert_eq!(peer.info().cwnd, 3000);
    peer.ack(2000, &[]);
    assert_eq!(peer.sent()[..2], [2000, 3000]);
    for to in 3..=20 {
        peer.wire.pass(MS);
        peer.ack(1000 * to, &[]);
    }
    assert_eq!((peer.info().outstanding, peer.wire.count("TcpExtTCPSpuriousRTOs")), (0, 0));
}

/// RFC 5681 §3.1: the acknowledgement of the only lost segment begins slow start. After a single
/// new segment a peer might delay its acknowledgement (RFC 9293 §3.8.6.3).
#[test]
fn rfc5681_3_1_after_a_timeout_that_one_segment_repaired_two_are_sent() {
    let mut peer = Peer::new(&PLAIN);
    peer.send(1000);
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!((peer.sent(), peer.wire.count("TcpExtTCPTimeouts")), (vec![0, 0], 1));
    peer.wire.pass(MS);
    peer.ack(1000, &[]);
    peer.send(5000);
    assert_eq!(peer.sent(), [1000, 2000]);
}

/// RFC 5682 §2.1, step 2a: the peer has a segment beyond the retransmitted one.
#[test]
fn rfc5682_2_1_a_duplicate_first_means_a_true_loss() {
    let (mut peer, _) = Peer::timed_out(&PLAIN);
    peer.ack(0, &[]);
    assert_eq!(peer.sent(), []);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [1000, 2000]);
}

/// RFC 5682 §3.1, step 3b.
#[test]
fn rfc5682_3_1_a_needless_timeout_is_found_by_sack() {
    let (mut peer, before) = Peer::timed_out(&SACK);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [11_000, 12_000]);
    peer.ack(1000, &[(2000, 3000)]);
    assert!(peer.info().cwnd >= before, "{} of {before}", peer.info().cwnd);
    let sent = peer.sent();
    assert!(sent.iter().all(|&seq| seq >= 13_000), "{sent:?}");
    assert_eq!(peer.wire.count("TcpExtTCPSpuriousRTOs"), 1);
}

/// RFC 5682 §3.1, step 3a.
#[test]
fn rfc5682_3_1_a_true_loss_is_seen_when_new_segments_arrive_before_it_is_repaired() {
    let (mut peer, _) = Peer::timed_out(&SACK);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [11_000, 12_000]);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [], "that was sent before the new ones could arrive");
    peer.wire.pass(MS);
    peer.ack(1000, &[(11_000, 12_000)]);
    assert_eq!(peer.sent()[..2], [1000, 2000]);
    assert_eq!(peer.wire.count("TcpExtTCPSpuriousRTOs"), 0);
}

/// RFC 5682 §2.1, step 1, RFC 3168 §6.1.2: a window reduction for an ECN mark says nothing about
/// losses.
#[test]
fn rfc5682_2_1_a_timeout_is_asked_about_also_while_a_mark_slows_down() {
    const ECE: u8 = 64;
    const CWR: u8 = 128;
    let mut peer = Peer::opened_by(Seg::new(SYN | ECE | CWR, 1000, 0).options(&PLAIN));
    peer.send(20_000);
    assert_eq!(peer.sent().len(), 10);
    peer.wire.pass(MS);
    peer.wire.put(Seg::new(ACK | ECE, peer.theirs, peer.ours + 1000));
    assert_eq!((peer.info().congestion_state, peer.sent()), (2, vec![10_000]));
    let before = peer.info().cwnd;
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [1000]);
    peer.ack(2000, &[]);
    assert_eq!(peer.sent(), [11_000, 12_000]);
    peer.ack(3000, &[]);
    assert!(peer.info().cwnd >= before, "{} of {before}", peer.info().cwnd);
    assert_eq!(peer.wire.count("TcpExtTCPSpuriousRTOs"), 1);
}

/// RFC 5682 §2.1, step 2b: there is no new data to send.
#[test]
fn rfc5682_2_1_without_new_data_what_was_deemed_lost_is_sent_again() {
    for options in [&PLAIN[..], &SACK] {
        let mut peer = Peer::new(options);
        peer.send(10_000);
        peer.wire.pass(Span::from_micros(12_500));
        peer.sent();
        peer.ack(1000, &[]);
        assert_eq!(peer.sent(), [1000, 2000]);
    }
}

/// RFC 5682 §2.1, step 1: only the first segment is retransmitted, also if more small ones would
/// fit one segment.
#[test]
fn rfc5682_2_1_the_first_of_many_small_segments_is_sent_again_alone() {
    let mut peer = Peer::new(&PLAIN);
    for _ in 0..10 {
        peer.send(100);
    }
    assert_eq!(peer.sent().len(), 10);
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [0]);
    peer.ack(100, &[]);
    assert_eq!(peer.sent(), [100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

/// RFC 8985 §6.3: a timeout marks as lost the first segment and those sent more than a round trip
/// ago, but not the most recent ones.
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

/// RFC 6298 §5 (Karn): the backed-off timeout is kept until data that was sent only once is
/// acknowledged.
#[test]
fn rfc6298_5_the_doubled_timeout_is_kept_until_a_round_trip_is_measured() {
    let mut peer = Peer::new(&PLAIN);
    let base = peer.info().rto;
    peer.send(3000);
    peer.wire.pass(Span::from_micros(6_500));
    assert_eq!(peer.sent(), [0, 1000, 2000, 0]);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [1000, 2000]);
    peer.ack(3000, &[]);
    assert_eq!((peer.info().backoff, peer.info().rto), (1, base.times(2)));
    peer.ours += 3000;
    assert_eq!(peer.message(1000, MS), 0);
    assert_eq!((peer.info().backoff, peer.info().rto), (0, base));
}

/// RFC 7323 §4.1: the echo identifies the acknowledged transmission, so the backoff ends. A round
/// trip shorter than a tick of the timestamp clock is still a sample.
#[test]
fn rfc6298_5_an_echoed_timestamp_ends_the_doubling() {
    let mut wire = Wire::new();
    let listener = wire.listen(4);
    let syn = Seg::new(SYN, 1000, 0).options(&PLAIN).timestamps(5, 0);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    wire.send(id, &[1; 100]).unwrap();
    wire.taken();
    wire.pass(Span::from_millis(3_500));
    let again = wire.taken();
    let now = wire.now;
    assert_eq!((again.len(), wire.stack().tcp_info(id, now).unwrap().backoff), (2, 2));
    wire.pass(Span::from_millis(3_500));
    let copy = wire.taken().pop().unwrap();
    wire.put(Seg::new(ACK, theirs, ours + 100).timestamps(6, copy.times().unwrap().0));
    let now = wire.now;
    assert_eq!(wire.stack().tcp_info(id, now).unwrap().backoff, 0);
}

/// RFC 6298 §5, RFC 1122 §4.2.3.1: the round trip suddenly becomes forty times as long. A peer
/// without SACK and timestamps can show that only by acknowledging data that was sent once.
#[test]
fn rfc6298_5_a_longer_round_trip_is_learnt_without_sack_and_timestamps() {
    let mut peer = Peer::new(&PLAIN);
    for _ in 0..50 {
        assert_eq!(peer.message(100, MS), 0);
    }
    for _ in 0..50 {
        peer.send(100);
        peer.wire.pass(Span::from_millis(40));
        peer.sent();
        peer.ours += 100;
        peer.ack(0, &[]);
    }
    let again = peer.wire.count("TcpRetransSegs");
    assert!(again < 10, "{again} retransmissions");
}

/// RFC 9293 §3.8.6.3: an acknowledgement may be delayed by up to half a second, and embedded
/// systems delay it by 200 to 250 ms. Here they delay that of one message in four.
#[test]
fn rfc9293_3_8_6_3_acknowledgements_held_back_without_sack_and_timestamps_are_soon_waited_for() {
    for delay in [40, 200, 250] {
        let mut peer = Peer::new(&PLAIN);
        let mut copies = 0;
        for _ in 0..50 {
            (0..3).for_each(|_| copies += peer.message(100, MS));
            copies += peer.message(100, Span::from_millis(delay));
        }
        assert!(copies < 10, "{copies} retransmissions for {delay} ms");
    }
}

/// A delay learnt in this way defers only the repair of single messages.
#[test]
fn rfc9293_3_8_6_3_what_was_learnt_of_single_messages_does_not_delay_others() {
    let mut peer = Peer::new(&PLAIN);
    for _ in 0..20 {
        (0..3).for_each(|_| assert_eq!(peer.message(100, MS), 0));
        peer.message(100, Span::from_millis(250));
    }
    (0..50).for_each(|_| assert_eq!(peer.message(100, MS), 0));
    peer.send(3000);
    peer.sent();
    peer.wire.pass(Span::from_millis(20));
    assert!(!peer.sent().is_empty());
}

/// A SYN, our SYN-ACK, its repetition (for a second SYN after `again`; without it by timeout after
/// a second), and the acknowledgement after `then`. With timestamps it echoes SYN-ACK number
/// `echoed`.
fn opened(again: Option<Span>, then: Span, echoed: Option<usize>) -> TcpInfo {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let stamped = |seg: Seg, value, echo| if echoed.is_some() { seg.timestamps(value, echo) } else { seg };
    let syn = stamped(Seg::new(SYN, 1000, 0).options(&PLAIN), 5, 0);
    wire.put(syn.clone());
    let first = wire.one();
    wire.pass(again.unwrap_or(Span::from_secs(1)));
    if again.is_some() {
        wire.put(syn);
    }
    let answers = [first, wire.one()];
    assert_eq!(answers[0].seq, answers[1].seq);
    wire.pass(then);
    let echo = echoed.map_or(0, |which| answers[which].times().unwrap().0);
    wire.put(stamped(Seg::new(ACK, 1001, answers[0].seq.wrapping_add(1)), 6, echo));
    let id = wire.stack().tcp_accept(listener).unwrap();
    let now = wire.now;
    wire.stack().tcp_info(id, now).unwrap()
}

/// RFC 6298 §3 (Karn): without timestamps it is unknown which of the two SYN-ACKs is acknowledged.
#[test]
fn rfc6298_3_an_answer_that_was_repeated_for_a_repeated_syn_measures_nothing() {
    let (again, then) = (Some(Span::from_millis(600)), Span::from_millis(100));
    let info = opened(again, then, None);
    assert_eq!((info.srtt, info.rto), (Span::ZERO, Span::from_secs(1)));
    let info = opened(again, then, Some(0));
    assert_eq!(info.srtt, Span::from_millis(700));
}

/// RFC 6298 §5.7: after a retransmitted SYN the data phase starts with a timeout of three seconds,
/// unless a timestamp shows that a round trip is shorter than the timer was.
#[test]
fn rfc6298_5_7_after_a_lost_syn_the_timeout_begins_at_three_seconds() {
    let then = Span::from_millis(100);
    for echoed in [None, Some(0)] {
        let info = opened(None, then, echoed);
        assert_eq!((info.srtt, info.rto), (Span::ZERO, Span::from_secs(3)));
    }
    assert_eq!(opened(None, then, Some(1)).srtt, then);
}

/// RFC 8899 §4.3: after six timeouts the path is found to carry only small packets. The lost data
/// was queued in longer segments; a piece that fits the window is sent.
#[test]
fn rfc5681_3_1_a_piece_of_a_lost_segment_goes_where_the_whole_does_not_fit() {
    let (mut peer, _) = Peer::timed_out(&PLAIN);
    peer.wire.pass(Span::from_secs(1));
    peer.sent();
    peer.ack(1000, &[]);
    assert_eq!((peer.info().send_mss, peer.sent()), (536, vec![10_000, 10_536]));
    peer.wire.pass(MS);
    peer.ack(1000, &[]);
    assert_eq!(peer.sent(), [1000]);
}
