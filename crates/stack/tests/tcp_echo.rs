//! Round trips measured by echoed timestamps, where data was retransmitted only because its
//! acknowledgement was lost.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::TcpId;
use tickwire_stack::tcp::TcpInfo;
use tickwire_stack::time::Span;

/// MSS 1000, SACK.
const OPTIONS: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];

/// A connection with SACK and timestamps, and the sequence numbers that the stack and the peer send
/// next.
fn stamped(wire: &mut Wire) -> (TcpId, u32, u32) {
    let listener = wire.listen(4);
    wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&OPTIONS).timestamps(5, 0))
}

fn info(wire: &mut Wire, id: TcpId) -> TcpInfo {
    let now = wire.now;
    wire.stack().tcp_info(id, now).unwrap()
}

/// RFC 7323 §4.3: data that the peer retransmits because our acknowledgement was lost is
/// acknowledged with its new timestamp, by which the sender measures.
#[test]
fn rfc7323_4_3_what_comes_again_is_answered_with_its_own_timestamp() {
    let mut wire = Wire::new();
    let (_, ours, theirs) = stamped(&mut wire);
    let data = |wire: &mut Wire, seq, ack, len, value| {
        wire.put(Seg::new(ACK | PSH, seq, ack).data(&[7; 1000][..len]).timestamps(value, 0));
        let all = wire.taken();
        all.last().map(|answer| answer.times().unwrap().1)
    };
    assert_eq!(data(&mut wire, theirs, ours, 1000, 10), Some(10));
    assert_eq!(data(&mut wire, theirs + 1000, ours, 1000, 20), Some(20));
    assert_eq!(data(&mut wire, theirs + 1000, ours, 1000, 30), Some(30));
    assert_eq!(data(&mut wire, theirs, ours, 1000, 40), Some(30), "what ends before it lies outside of the window");
    // A guess: an acknowledgement of data never sent, and an older timestamp.
    assert_eq!(data(&mut wire, theirs + 1000, ours + 1, 1000, 50), Some(30));
    assert_eq!(data(&mut wire, theirs + 1000, ours, 1000, 25), Some(30));
    assert_eq!(data(&mut wire, theirs + 2000, ours, 1000, 31), Some(31), "no guess has shut the peer out");
}

/// Sends data that the peer answers after several retransmissions and one more tick of the
/// timestamp clock. Returns the figures before and after.
fn repaired(echoes_first: bool, reports: bool) -> [TcpInfo; 2] {
    let mut wire = Wire::new();
    let (id, mut ours, theirs) = stamped(&mut wire);
    for _ in 0..8 {
        wire.send(id, &[1; 500]).unwrap();
        let sent = wire.one().times().unwrap().0;
        ours += 500;
        wire.put(Seg::new(ACK, theirs, ours).timestamps(6, sent));
        wire.pass(Span::from_millis(2));
    }
    wire.nothing();
    let before = info(&mut wire, id);
    wire.send(id, &[1; 500]).unwrap();
    let first = wire.one().times().unwrap().0;
    let mut copies = 0;
    let again = loop {
        wire.pass(Span::from_micros(100));
        let sent = wire.taken();
        copies += sent.len();
        if copies == 3 {
            break sent[0].times().unwrap().0;
        }
    };
    assert!(again.wrapping_sub(first) > 10);
    let past = wire.now.as_nanos() % 1_000_000;
    wire.pass(Span::from_nanos(1_100_000 - past));
    let mut answer = Seg::new(ACK, theirs, ours + 500).timestamps(7, if echoes_first { first } else { again });
    if reports {
        answer = answer.sack(&[(ours, ours + 500)]);
    }
    wire.put(answer);
    [before, info(&mut wire, id)]
}

/// RFC 6298 §3, RFC 7323 §5.3: the peer had received the first transmission, reports so, and echoes
/// that one's timestamp (it takes none from segments before its window). The time since then is no
/// round trip: it includes our timeout.
#[test]
fn rfc6298_3_a_timeout_is_not_measured_as_a_round_trip() {
    let [before, after] = repaired(true, true);
    assert_eq!((after.srtt, after.rttvar), (before.srtt, before.rttvar));
    // Without that report the first transmission has arrived late, and the echo gives its round
    // trip.
    let [before, after] = repaired(true, false);
    assert!(after.srtt > before.srtt + Span::from_millis(1), "{:?}", after.srtt);
}

/// RFC 7323 §4.1: the timestamp clock ticks every millisecond, and on a LAN a round trip is far
/// shorter. A tick in between says nothing.
#[test]
fn rfc7323_4_1_a_tick_is_not_measured_as_a_round_trip() {
    for reports in [false, true] {
        let [before, after] = repaired(false, reports);
        assert!(before.srtt < Span::from_micros(10));
        assert_eq!((after.srtt, after.rttvar, after.backoff), (before.srtt, before.rttvar, 0));
    }
}
