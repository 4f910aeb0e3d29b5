//! Segments that a peer, or a third party, should not have sent.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::StackError;
use tickwire_stack::tcp::TcpState;
use tickwire_stack::time::Span;

/// RFC 5961 §3.2.
#[test]
fn a_reset_in_the_window_is_challenged_and_an_exact_one_resets() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(RST, theirs + 100, 0));
    let challenge = wire.one();
    assert_eq!((challenge.bits, challenge.seq, challenge.ack), (ACK, ours, theirs));
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.put(Seg::new(RST, theirs.wrapping_sub(1), 0));
    wire.put(Seg::new(RST, theirs + 1_000_000, 0));
    wire.nothing();
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.put(Seg::new(RST, theirs, 0));
    wire.nothing();
    assert_eq!(wire.recv(id), Err(StackError::Reset));
    assert_eq!(wire.recv(id), Ok(vec![]), "the error is told once");
    assert_eq!(wire.send(id, b"x"), Err(StackError::Pipe));
    wire.close(id);
    assert_eq!(wire.held(), 0);
}

/// RFC 5961 §4.2.
#[test]
fn a_syn_on_a_connection_is_challenged() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    for seq in [theirs, theirs + 10, theirs.wrapping_sub(1)] {
        wire.put(Seg::new(SYN, seq, 0));
        let challenge = wire.one();
        assert_eq!((challenge.bits, challenge.seq, challenge.ack), (ACK, ours, theirs), "SYN at {seq}");
        wire.pass(Span::from_millis(500));
    }
    assert_eq!(wire.state(id), Ok(TcpState::Established));
}

/// RFC 5961 §5.2.
#[test]
fn data_with_an_acknowledgement_of_what_was_never_sent_is_not_taken() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    for ack in [ours + 1, ours.wrapping_sub(70_000)] {
        wire.put(Seg::new(ACK, theirs, ack).data(b"evil"));
        assert_eq!(wire.one().bits, ACK);
        wire.pass(Span::from_millis(500));
    }
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    wire.put(Seg::new(ACK, theirs, ours).data(b"good"));
    assert_eq!(wire.recv(id).unwrap(), b"good");
}

/// RFC 9293 §3.10.7.4, fifth check: only an acknowledgement that is not old updates the window.
/// Otherwise a forged one whose numbers are merely within the windows (RFC 5961 §5.2) would close
/// it for good, because every acknowledgement of a peer that only receives has an older number.
#[test]
fn an_old_acknowledgement_does_not_shut_the_window() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs + 5, ours - 10).window(0));
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours));
    wire.send(id, b"on the way").unwrap();
    assert_eq!(wire.one().data, b"on the way");
}

/// RFC 5961 §7, CVE-2016-5696: the challenge ACKs of one connection reveal nothing about any other.
#[test]
fn challenges_are_limited_for_each_connection_by_itself() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (_, _, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0));
    for n in 0..5000 {
        wire.put(Seg::new(RST, theirs + 1 + n, 0));
    }
    assert_eq!(wire.taken().len(), 1);
    assert_eq!(wire.count("TcpExtTCPACKSkippedChallenge"), 4999);
    wire.peer.port += 1;
    let (_, _, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0));
    wire.put(Seg::new(RST, theirs + 1, 0));
    wire.one();
    wire.pass(Span::from_millis(499));
    wire.put(Seg::new(RST, theirs + 1, 0));
    wire.nothing();
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(RST, theirs + 1, 0));
    wire.one();
}

/// RFC 9293 §3.10.7.4: before the connection is open, an unacceptable segment is only answered,
/// whatever it acknowledges.
#[test]
fn an_acknowledgement_at_the_edge_of_a_half_open_window_is_not_taken() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    let ours = wire.one().seq.wrapping_add(1);
    for beyond in [65_535, 65_536, 1 << 30] {
        wire.put(Seg::new(ACK, 1001 + beyond, ours));
        let answer = wire.one();
        assert_eq!((answer.bits, answer.seq, answer.ack), (ACK, ours, 1001), "{beyond} bytes beyond");
        wire.pass(Span::from_millis(2));
    }
    assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock));
    wire.put(Seg::new(ACK, 1001, ours).data(b"good"));
    let id = wire.stack().tcp_accept(listener).unwrap();
    assert_eq!(wire.recv(id).unwrap(), b"good");
}

/// RFC 9293 §3.8.3: endlessly repeated SYNs do not keep a half-open connection alive, and are not
/// all answered.
#[test]
fn a_repeated_syn_does_not_keep_a_half_open_connection() {
    let mut wire = Wire::new();
    wire.listen(8);
    let mut numbers = Vec::new();
    for _ in 0..1000 {
        wire.put(Seg::new(SYN, 1000, 0));
        numbers.extend(wire.taken().iter().map(|seg| seg.seq));
        wire.pass(Span::from_millis(100));
    }
    assert!(numbers.len() <= 220, "{} answers in 100 s", numbers.len());
    numbers.dedup();
    assert!(numbers.len() > 1, "it ended, and another took its place");
}

/// RFC 9293 §3.10.7.4.
#[test]
fn time_wait_ends_whatever_is_sent_to_it() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.close(id);
    assert!(wire.one().has(FIN));
    wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
    wire.one();
    let mut answers = 0;
    for n in 0..610 {
        wire.put(Seg::new(FIN | ACK, theirs + 1000 * (n % 3), ours + 1 + n % 2).data(&[0; 10]));
        wire.put(Seg::new(ACK, theirs + 1000, ours + 1));
        answers += wire.taken().iter().filter(|seg| seg.bits == ACK).count();
        wire.pass(Span::from_millis(100));
    }
    assert!(answers <= 125, "{answers} answers in a minute");
    wire.put(Seg::new(ACK, theirs + 1, ours + 1));
    assert_eq!(wire.taken().last().map(|seg| seg.bits), Some(RST), "it is gone");
}

/// RFC 7323 §5.3.
#[test]
fn paws_drops_a_segment_from_before_the_wrap() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180]).timestamps(5000, 0);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    wire.put(Seg::new(ACK, theirs, ours).timestamps(5010, 0).data(b"new"));
    wire.taken();
    wire.put(Seg::new(ACK, theirs + 3, ours).timestamps(4999, 0).data(b"old"));
    let ack = wire.one();
    assert_eq!((ack.ack, ack.times().unwrap().1), (theirs + 3, 5010));
    assert_eq!(wire.recv(id).unwrap(), b"new");
    assert_eq!(wire.count("TcpExtPAWSEstab"), 1);
    // PAWS does not apply to a RST (RFC 7323 §5.2).
    wire.put(Seg::new(RST, theirs + 3, 0).timestamps(4000, 0));
    assert_eq!(wire.recv(id), Err(StackError::Reset));
}

/// RFC 7323 §5.5: after 24 days of silence TS.Recent is invalid, and a new timestamp replaces it.
#[test]
fn paws_forgets_a_timestamp_after_24_days() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180]).timestamps(5000, 0);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    // Meanwhile the peer's timestamp clock has advanced by more than half its range.
    let later = 5000u32.wrapping_add(1 << 31).wrapping_add(1000);
    wire.pass(Span::from_secs(23 * 24 * 3600));
    wire.put(Seg::new(ACK, theirs, ours).timestamps(later, 0).data(b"early"));
    wire.taken();
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    wire.pass(Span::from_secs(2 * 24 * 3600));
    wire.put(Seg::new(ACK, theirs, ours).timestamps(later, 0).data(b"la"));
    wire.put(Seg::new(ACK, theirs + 2, ours).timestamps(later, 0).data(b"te"));
    assert_eq!(wire.recv(id).unwrap(), b"late");
    assert_eq!(wire.taken().last().unwrap().times().unwrap().1, later);
    // From here on PAWS protects again.
    wire.put(Seg::new(ACK, theirs + 4, ours).timestamps(later - 1, 0).data(b"old"));
    wire.taken();
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    assert_eq!(wire.count("TcpExtPAWSEstab"), 2);
}

/// RFC 9293 §3.10.7.4, first check.
#[test]
fn what_lies_outside_of_the_window_is_answered_and_not_taken() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs + 10_000_000, ours).data(b"far"));
    assert_eq!(wire.one().ack, theirs);
    wire.put(Seg::new(ACK, theirs.wrapping_sub(10), ours).data(b"past"));
    assert_eq!(wire.one().ack, theirs);
    wire.put(Seg::new(ACK, theirs.wrapping_sub(2), ours).data(b"pasta"));
    assert_eq!(wire.one().ack, theirs + 3);
    assert_eq!(wire.recv(id).unwrap(), b"sta");
}

/// RFC 5961 §7: two desynchronised ends acknowledge each other's acknowledgements. That loop must
/// be rate limited, while probes, which back off, and data are answered each time.
#[test]
fn rfc5961_7_acknowledgements_outside_of_the_window_are_answered_less_and_less_often() {
    let mut wire = Wire::new();
    let (_, ours, theirs) = wire.accepted();
    for _ in 0..10_000 {
        wire.put(Seg::new(ACK, theirs + 10_000_000, ours));
        wire.pass(Span::from_millis(1));
    }
    let answers = wire.taken().len();
    assert!((20..=30).contains(&answers), "{answers} in ten seconds");
    for n in 0..100 {
        wire.put(Seg::new(ACK, theirs + 10_000_000 + n, ours).data(b"far"));
        assert_eq!(wire.one().ack, theirs);
    }
    wire.pass(Span::from_secs(3));
    for n in 0..12 {
        wire.put(Seg::new(ACK, theirs.wrapping_sub(1), ours));
        assert_eq!(wire.one().ack, theirs, "probe {n}");
        wire.pass(Span::from_millis(1 << n));
    }
}

/// RFC 9293 §3.10.7.1.
#[test]
fn a_segment_without_a_connection_is_answered_by_a_reset() {
    let mut wire = Wire::new();
    wire.put(Seg::new(SYN, 7, 0));
    let reset = wire.one();
    assert_eq!((reset.bits, reset.seq, reset.ack), (RST | ACK, 0, 8));
    wire.put(Seg::new(ACK, 7, 99).data(b"abc"));
    let reset = wire.one();
    assert_eq!((reset.bits, reset.seq), (RST, 99));
    wire.put(Seg::new(RST, 7, 0));
    wire.nothing();
}

/// RFC 9293 §3.1.
#[test]
fn a_bad_checksum_or_header_is_counted_and_dropped() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let mut bytes = vec![0; 20];
    bytes[0..2].copy_from_slice(&4000u16.to_be_bytes());
    bytes[2..4].copy_from_slice(&80u16.to_be_bytes());
    let (peer, own) = (wire.peer, wire.own);
    for offset in [0u8, 4, 6, 15] {
        bytes[12] = offset << 4;
        wire.put_bytes(&ipv4(peer, own, 6, &bytes));
    }
    assert_eq!(wire.count("TcpInErrs"), 4);
    bytes[12] = 5 << 4;
    bytes[4..8].copy_from_slice(&theirs.to_be_bytes());
    bytes[8..12].copy_from_slice(&ours.to_be_bytes());
    bytes[13] = RST;
    wire.put_bytes(&ipv4(peer, own, 6, &bytes));
    assert_eq!(wire.count("TcpInCsumErrors"), 1);
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.nothing();
}

/// RFC 5927: only an error that quotes data in flight is believed, and none ends an established
/// connection.
#[test]
fn icmp_errors_do_not_end_a_connection() {
    let mut wire = Wire::new();
    let (id, ours, _) = wire.accepted();
    wire.send(id, &[0; 500]).unwrap();
    wire.taken();
    let (peer, own) = (wire.peer, wire.own);
    for (code, seq) in [(3, ours), (1, ours), (3, ours + 100_000)] {
        let mut tcp = vec![0; 8];
        tcp[0..2].copy_from_slice(&own.port.to_be_bytes());
        tcp[2..4].copy_from_slice(&peer.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        let quoted = ipv4(own, peer, 6, &tcp);
        let mut icmp = vec![3, code, 0, 0, 0, 0, 0, 0];
        icmp.extend_from_slice(&quoted[14..]);
        let sum = tickwire_stack::checksum::plain(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        wire.put_bytes(&ipv4(peer, own, 1, &icmp));
    }
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    assert_eq!(wire.count("IcmpInUnmatched"), 1);
}

/// 20,000 random segments on a live connection: no panic, no leak, and the stack still works.
#[test]
fn random_segments_leave_the_stack_whole() {
    let mut rng = tickwire_sim::Rng::new(42);
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (mut id, mut ours, mut theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0));
    for round in 0..20_000u32 {
        let near = |base: u32, rng: &mut tickwire_sim::Rng| {
            let spread = [1, 10, 2_000, 100_000, u64::from(u32::MAX)][rng.below(5) as usize];
            base.wrapping_add(rng.below(spread) as u32).wrapping_sub(rng.below(3) as u32)
        };
        let mut seg = Seg::new((rng.below(64) as u8) | if rng.chance(700_000) { ACK } else { 0 }, 0, 0);
        if rng.chance(900_000) {
            seg.bits &= !(RST | SYN);
        }
        (seg.seq, seg.ack) = (near(theirs, &mut rng), near(ours, &mut rng));
        (seg.window, seg.urgent) = (rng.below(65_536) as u16, rng.below(20) as u16);
        seg.data = vec![1; rng.below(1400) as usize];
        seg.options = (0..rng.below(10) * 4).map(|_| [1, 2, 3, 4, 5, 8, 10, 18][rng.below(8) as usize]).collect();
        wire.put(seg);
        let _ = wire.send(id, &[2; 700]);
        wire.pass(Span::from_micros(rng.below(3_000)));
        for seg in wire.taken() {
            ours = ours.max(seg.end());
            theirs = if seg.has(ACK) { seg.ack } else { theirs };
        }
        let _ = wire.recv(id);
        if !matches!(wire.state(id), Ok(TcpState::Established)) || round % 1_000 == 999 {
            let now = wire.now;
            let _ = wire.stack().tcp_abort(id, now);
            wire.taken();
            wire.peer.port += 1;
            while let Ok(other) = wire.stack().tcp_accept(listener) {
                wire.stack().tcp_abort(other, now).unwrap();
            }
            wire.taken();
            (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, round, 0));
        }
    }
    let now = wire.now;
    wire.stack().tcp_abort(id, now).unwrap();
    wire.stack().tcp_close_listener(listener, now).unwrap();
    wire.pass(Span::from_secs(200));
    assert_eq!(wire.held(), 0);
    assert_eq!(wire.stack().deadline(), None);
    assert_eq!(wire.count("TcpCurrEstab"), 0);
}
