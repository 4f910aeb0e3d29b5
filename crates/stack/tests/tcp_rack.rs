//! Time-based loss detection: tail loss probes and RACK (RFC 8985) with SACK and a round trip of 30
//! ms.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_stack::TcpId;
use tickwire_stack::tcp::{TcpInfo, TcpSetting};
use tickwire_stack::time::{Instant, Span};

const ROUND: Span = Span::from_millis(30);
const LEN: u32 = 1000;

struct Flight {
    wire: Wire,
    id: TcpId,
    /// The oldest unacknowledged byte.
    una: u32,
    theirs: u32,
}

impl Flight {
    fn new() -> Self {
        Self::varied(Span::ZERO)
    }

    /// Every other round trip takes longer by `by`.
    fn varied(by: Span) -> Self {
        let mut wire = Wire::new();
        let (id, una, theirs) = wire.accepted();
        let now = wire.now;
        wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
        let mut flight = Self { wire, id, una, theirs };
        for n in 0..10 {
            flight.send(1);
            flight.wire.pass(ROUND + by.times(n % 2));
            flight.acknowledge(1);
            flight.wire.nothing();
        }
        let info = flight.info();
        assert!(info.srtt >= ROUND && info.srtt <= ROUND + by, "{:?}", info.srtt);
        flight
    }

    fn info(&mut self) -> TcpInfo {
        let now = self.wire.now;
        self.wire.stack().tcp_info(self.id, now).unwrap()
    }

    /// Sends full segments, which leave at once.
    fn send(&mut self, segments: u32) {
        for _ in 0..segments {
            self.wire.send(self.id, &pattern(LEN as usize, 1)).unwrap();
            assert_eq!(self.wire.one().data.len(), LEN as usize);
        }
    }

    /// The peer acknowledges this many segments.
    fn acknowledge(&mut self, segments: u32) {
        self.una += segments * LEN;
        self.wire.put(Seg::new(ACK, self.theirs, self.una));
    }

    /// The peer SACKs these segments beyond the first missing one, which is number 0.
    fn sack(&mut self, from: u32, to: u32) {
        let block = (self.una + from * LEN, self.una + (to + 1) * LEN);
        self.wire.put(Seg::new(ACK, self.theirs, self.una).sack(&[block]));
    }

    /// The segments that leave within this time, with the time from now; number 0 is the first
    /// missing one.
    fn within(&mut self, span: Span) -> Vec<(u32, Span)> {
        let start: Instant = self.wire.now;
        self.wire.pass(span);
        let una = self.una;
        self.wire.taken_at().into_iter().map(|(at, seg)| ((seg.seq - una) / LEN, at.since(start))).collect()
    }

    fn no_timeout(&mut self) {
        assert_eq!(self.wire.count("TcpExtTCPTimeouts"), 0);
    }
}

/// RFC 8985 §7.2, §7.3: nothing of a flight is acknowledged. The last segment is retransmitted
/// once, after two round trips (and 5 ms, though more than one segment is in flight). If the
/// retransmission timeout is earlier, that is the time of the probe. Only later does the timeout
/// retransmit the first segment.
#[test]
fn a_lost_flight_is_probed_by_its_last_segment() {
    for varied in [true, false] {
        let mut flight = Flight::varied(if varied { ROUND } else { Span::ZERO });
        flight.send(5);
        let info = flight.info();
        let two_rounds = info.srtt.times(2);
        assert_eq!(info.rto > two_rounds, varied);
        let due = (two_rounds + Span::from_millis(5)).min(info.rto);
        let sent = flight.within(due + Span::from_millis(1));
        assert_eq!(sent.iter().map(|&(n, _)| n).collect::<Vec<_>>(), [4]);
        assert!(sent[0].1 >= due, "{:?} before {due:?}", sent[0].1);
        assert_eq!(flight.wire.count("TcpExtTCPLossProbes"), 1);
        let later = flight.within(ROUND.times(10));
        assert_eq!(later.first().map(|&(n, _)| n), Some(0), "{later:?}");
        assert_eq!(flight.wire.count("TcpExtTCPLossProbes"), 1, "one probe for one flight");
    }
}

/// RFC 8985 §7.2: a partial acknowledgement restarts the probe timer. SACK of the probe shows that
/// the rest is lost, which is retransmitted without a timeout (§7.4, §6.2).
#[test]
fn a_lost_tail_is_probed_after_the_last_acknowledgement_and_repaired_by_the_probes() {
    let mut flight = Flight::varied(ROUND);
    flight.send(10);
    flight.wire.pass(ROUND);
    flight.acknowledge(6);
    flight.wire.nothing();
    let pto = flight.info().srtt.times(2);
    let sent = flight.within(pto + Span::from_millis(6));
    assert_eq!(sent.iter().map(|&(n, _)| n).collect::<Vec<_>>(), [3]);
    assert!(sent[0].1 >= pto, "{:?} before {pto:?}", sent[0].1);
    flight.wire.pass(ROUND);
    flight.sack(3, 3);
    // Each acknowledgement of a retransmission releases others, as far as the window allows.
    let first = flight.una;
    let mut again: Vec<u32> = Vec::new();
    for n in 1..=3 {
        again.extend(flight.wire.taken().iter().map(|seg| (seg.seq - first) / LEN));
        flight.wire.pass(ROUND);
        flight.una = first + n * LEN;
        flight.sack(3 - n, 3 - n);
    }
    assert_eq!(again, [0, 1, 2]);
    flight.wire.put(Seg::new(ACK, flight.theirs, first + 4 * LEN));
    flight.wire.pass(ROUND.times(10));
    flight.wire.nothing();
    flight.no_timeout();
}

/// RFC 8985 §6.2 step 5: a segment is lost if one sent after it has arrived and a quarter of the
/// round trip has passed. The acknowledgement of its retransmission marks as lost every
/// unacknowledged segment sent before that.
#[test]
fn what_was_sent_before_a_retransmission_that_arrived_is_lost() {
    let mut flight = Flight::new();
    flight.send(3);
    flight.wire.pass(ROUND);
    flight.sack(1, 1);
    flight.wire.nothing();
    let sent = flight.within(ROUND);
    assert_eq!(sent.iter().map(|&(n, _)| n).collect::<Vec<_>>(), [0], "{sent:?}");
    assert!(sent[0].1 <= ROUND.over(4) + Span::from_millis(1), "{:?}", sent[0].1);
    flight.wire.pass(ROUND.over(4) + Span::from_millis(1));
    flight.acknowledge(2);
    let mut again: Vec<u32> = flight.wire.taken().iter().map(|seg| (seg.seq - flight.una) / LEN).collect();
    again.extend(flight.within(ROUND.over(2)).into_iter().map(|(n, _)| n));
    assert_eq!(again, [0], "the third of the three");
    flight.no_timeout();
}

/// RFC 8985 §6.2 step 4: fewer than three segments after a hole may have overtaken it; the
/// reordering timer decides. RFC 6937 §3.1 then releases the first segment of the hole, and the
/// second with the acknowledgement of the first.
#[test]
fn a_hole_is_repaired_when_the_reordering_time_is_over() {
    let mut flight = Flight::new();
    flight.send(4);
    flight.wire.pass(ROUND);
    flight.sack(2, 3);
    flight.wire.nothing();
    let sent = flight.within(ROUND + ROUND.over(4));
    assert_eq!(sent.iter().map(|&(n, _)| n).collect::<Vec<_>>(), [0]);
    let after = sent[0].1;
    assert!(!after.is_zero() && after <= ROUND.over(4) + Span::from_millis(1), "{after:?}");
    flight.acknowledge(1);
    assert_eq!(flight.wire.one().seq, flight.una);
    flight.no_timeout();
}

/// RFC 8985 §6.2 steps 3 and 4: after reordering has been seen, three segments beyond a hole no
/// longer prove a loss; but the reordering timer still expires within a round trip.
#[test]
fn known_reordering_is_waited_for_but_not_for_ever() {
    let mut flight = Flight::new();
    flight.send(4);
    flight.wire.pass(ROUND);
    for first in (1..=3).rev() {
        flight.sack(first, 3);
        flight.wire.nothing();
    }
    flight.acknowledge(4);
    flight.wire.nothing();
    flight.send(4);
    flight.wire.pass(ROUND);
    flight.sack(1, 3);
    flight.wire.nothing();
    let sent = flight.within(ROUND + Span::from_millis(1));
    assert_eq!(sent.iter().map(|&(n, _)| n).collect::<Vec<_>>(), [0]);
    assert!(!sent[0].1.is_zero());
    flight.no_timeout();
}

/// RFC 8985 §6.2 step 5: a lost retransmission is detected by segments sent after it, not by a
/// timeout, and the recovery continues.
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    let mut flight = Flight::new();
    flight.send(5);
    flight.wire.pass(ROUND);
    flight.sack(1, 4);
    assert_eq!(flight.wire.one().seq, flight.una, "three and more arrived after it");
    flight.send(1);
    assert_eq!(flight.within(ROUND), []);
    flight.sack(1, 5);
    let mut again: Vec<u32> = flight.wire.taken().iter().map(|seg| (seg.seq - flight.una) / LEN).collect();
    again.extend(flight.within(ROUND).into_iter().map(|(n, _)| n));
    assert_eq!(again, [0]);
    flight.no_timeout();
    assert_eq!(flight.info().congestion_state, 3, "Linux's TCP_CA_Recovery");
}

/// RFC 6298 and RFC 5681 §3.1, as `TCP_INFO` reports them: a measured connection is open and
/// without reordering; after a timeout it is in loss recovery with a window of one segment.
#[test]
fn the_figures_of_a_connection_tell_of_a_timeout() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    let mut flight = Flight { wire, id, una: ours, theirs };
    flight.wire.send(id, b"Sample Data").unwrap();
    flight.wire.one();
    flight.wire.pass(ROUND);
    flight.wire.put(Seg::new(ACK, theirs, ours + 11));
    let info = flight.info();
    assert_eq!((info.state as u8, info.congestion_state, info.total_retransmits, info.backoff), (1, 0, 0, 0));
    assert!(!info.srtt.is_zero() && !info.rttvar.is_zero() && info.rto > info.srtt && info.cwnd > LEN);
    flight.wire.send(id, b"Sample Data").unwrap();
    flight.wire.one();
    flight.wire.pass(info.rto + Span::from_millis(1));
    let again = flight.wire.one();
    assert_eq!((again.seq, &again.data[..]), (ours + 11, &b"Sample Data"[..]));
    let after = flight.info();
    assert_eq!((after.congestion_state, after.cwnd, after.total_retransmits, after.backoff), (4, LEN, 1, 1));
    assert!(after.rto >= info.rto.times(2));
}
