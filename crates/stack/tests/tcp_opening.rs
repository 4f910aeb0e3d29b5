//! A connection that is not open yet: what its program may do, and which segments open it, end it,
//! or are answered (RFC 9293 §3.10.7.3, and §3.10.7.4 in SYN-RECEIVED).

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::{Shutdown, TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackError, TcpId, WakeTarget};

const OPTIONS: [u8; 4] = [2, 4, 3, 232];

/// A connection in SYN-SENT, and the number of its SYN.
fn opening() -> (Wire, TcpId, u32) {
    let mut wire = Wire::new();
    let (own, peer, now) = (wire.own, wire.peer, wire.now);
    let options = wire.stack().tcp_defaults();
    let id = wire.stack().tcp_connect(&options, own, peer, now).unwrap();
    let syn = wire.one();
    assert_eq!((syn.bits, wire.state(id)), (SYN, Ok(TcpState::SynSent)));
    (wire, id, syn.seq)
}

/// The connection is refused and nothing of it is left: a later segment is reset (RFC 9293
/// §3.10.7.1).
#[track_caller]
fn is_refused(wire: &mut Wire, id: TcpId, iss: u32) {
    assert_eq!(wire.state(id), Ok(TcpState::Closed));
    let ready = wire.stack().readiness(id.into()).unwrap();
    assert!(ready.contains(Ready::IN | Ready::OUT | Ready::ERR | Ready::HUP), "{ready:?}");
    wire.put(Seg::new(ACK, 1001, iss + 1));
    let reset = wire.one();
    assert_eq!((reset.bits, reset.seq), (RST, iss + 1));
    assert_eq!(wire.recv(id), Err(StackError::Refused));
    assert_eq!(wire.recv(id), Ok(vec![]), "told once");
    assert_eq!(wire.send(id, b"x"), Err(StackError::Pipe));
    wire.close(id);
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// RFC 9293 §3.10.2 and §3.10.3: SEND and RECEIVE in SYN-SENT wait until the connection is open;
/// then both work.
#[test]
fn what_is_sent_or_read_before_the_connection_is_open_waits() {
    let (mut wire, id, iss) = opening();
    assert_eq!(wire.send(id, b"early"), Err(StackError::WouldBlock));
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    assert_eq!(wire.stack().readiness(id.into()), Ok(Ready::NONE));
    let now = wire.now;
    assert_eq!(wire.stack().tcp_shutdown(id, now, Shutdown::Write), Err(StackError::NotConnected));
    wire.nothing();
    wire.put(Seg::new(SYN | ACK, 1000, iss + 1).options(&OPTIONS));
    assert_eq!((wire.one().bits, wire.state(id)), (ACK, Ok(TcpState::Established)));
    assert_eq!(wire.stack().readiness(id.into()), Ok(Ready::OUT));
    assert_eq!(wire.send(id, b"early"), Ok(5));
    let sent = wire.one();
    assert_eq!((sent.bits, sent.seq, sent.ack, &sent.data[..]), (ACK | PSH, iss + 1, 1001, &b"early"[..]));
    wire.put(Seg::new(ACK | PSH, 1001, iss + 6).data(b"answer"));
    assert_eq!(wire.recv(id).unwrap(), b"answer");
    wire.pass(Span::from_millis(5));
    assert_eq!(wire.one().ack, 1007);
}

/// RFC 9293 §3.10.7.3, second check: a RST that acknowledges our SYN refuses, which both reads and
/// writes report.
#[test]
fn a_reset_that_acknowledges_the_syn_refuses() {
    let (mut wire, id, iss) = opening();
    wire.put(Seg::new(RST | ACK, 0, iss + 1));
    is_refused(&mut wire, id, iss);
    let (mut wire, id, iss) = opening();
    wire.put(Seg::new(RST | ACK, 0, iss + 1));
    assert_eq!(wire.send(id, b"x"), Err(StackError::Refused));
    assert_eq!(wire.count("TcpAttemptFails"), 1);
}

/// RFC 9293 §3.10.7.3, first and second check: any other RST may be forged.
#[test]
fn a_reset_that_does_not_know_the_syn_is_ignored() {
    let (mut wire, id, iss) = opening();
    for seg in [Seg::new(RST, 0, 0), Seg::new(RST | ACK, 0, iss), Seg::new(RST | ACK, 0, iss + 2)] {
        wire.put(seg);
        wire.nothing();
    }
    assert_eq!(wire.state(id), Ok(TcpState::SynSent));
}

/// RFC 9293 §3.10.7.3, first check: a segment that acknowledges anything but our SYN belongs to
/// another connection, which is reset; ours continues.
#[test]
fn an_acknowledgement_of_anything_but_the_syn_is_reset() {
    for bits in [ACK, SYN | ACK, FIN | ACK] {
        let (mut wire, id, iss) = opening();
        for (already, ack) in [iss, iss.wrapping_sub(1), iss + 2, iss + 1000].into_iter().enumerate() {
            wire.put(Seg::new(bits, 1000, ack).data(b"?"));
            let sent = wire.taken();
            assert_eq!((sent[0].bits, sent[0].seq), (RST, ack));
            assert_eq!(
                sent.len(),
                if already == 0 { 2 } else { 1 },
                "the SYN is sent once more, not for each such segment"
            );
        }
        assert_eq!(wire.state(id), Ok(TcpState::SynSent));
        wire.put(Seg::new(SYN | ACK, 1000, iss + 1));
        assert_eq!((wire.one().ack, wire.state(id)), (1001, Ok(TcpState::Established)));
    }
}

/// RFC 9293 §3.10.7.3, first check, with a peer as in RFC 6191. It has an earlier connection
/// between the same ends in TIME-WAIT, and our ISN is not above that one's numbers (another
/// program's stack has its own clock and its own secret). It sends a challenge ACK, our RST ends
/// the old connection, and our SYN follows immediately, instead of when its timer expires after a
/// second.
#[test]
fn an_old_connection_of_the_peers_costs_a_round_trip_and_not_a_timeout() {
    let (mut wire, id, iss) = opening();
    let begun = wire.now;
    wire.pass(Span::from_micros(50));
    wire.put(Seg::new(ACK, 1000, iss.wrapping_sub(70_000)));
    let sent = wire.taken();
    assert_eq!(
        sent.iter().map(|seg| (seg.bits, seg.seq)).collect::<Vec<_>>(),
        [(RST, iss.wrapping_sub(70_000)), (SYN, iss)]
    );
    wire.pass(Span::from_micros(50));
    wire.put(Seg::new(SYN | ACK, 1000, iss + 1).options(&OPTIONS));
    assert_eq!((wire.one().bits, wire.state(id)), (ACK, Ok(TcpState::Established)));
    assert!(wire.now.since(begun) < Span::from_millis(1));
}

/// The same, but the SYN behind the RST is lost: the timer continues as if nothing had happened.
#[test]
fn a_syn_that_is_lost_behind_the_reset_is_sent_when_its_timer_says() {
    let (mut wire, _, iss) = opening();
    wire.pass(Span::from_millis(400));
    wire.put(Seg::new(ACK, 1000, iss.wrapping_sub(70_000)));
    assert_eq!(wire.taken().len(), 2);
    wire.pass(Span::from_millis(599));
    wire.nothing();
    wire.pass(Span::from_millis(1));
    assert_eq!((wire.one().bits, wire.count("TcpRetransSegs")), (SYN, 2));
}

/// RFC 9293 §3.10.7.3, fifth check: neither SYN nor RST.
#[test]
fn a_good_acknowledgement_alone_opens_nothing() {
    let (mut wire, id, iss) = opening();
    for bits in [ACK, FIN | ACK, 0, FIN] {
        wire.put(Seg::new(bits, 1000, iss + 1).data(b"?"));
        wire.nothing();
    }
    assert_eq!(wire.state(id), Ok(TcpState::SynSent));
}

/// RFC 9293 §3.10.7.4, second check, in SYN-RECEIVED after an active open: a RST at RCV.NXT
/// refuses; another in the window is challenged (RFC 5961 §3.2).
#[test]
fn a_reset_after_crossing_syns_refuses() {
    for exact in [true, false] {
        let (mut wire, id, iss) = opening();
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        let answer = wire.one();
        assert_eq!((answer.bits, answer.seq, answer.ack), (SYN | ACK, iss, 1001));
        assert_eq!(wire.state(id), Ok(TcpState::SynReceived));
        assert_eq!(wire.send(id, b"early"), Err(StackError::WouldBlock));
        if exact {
            wire.put(Seg::new(RST, 1001, 0));
            wire.nothing();
            is_refused(&mut wire, id, iss);
        } else {
            wire.put(Seg::new(RST, 1002, 0));
            let challenge = wire.one();
            assert_eq!((challenge.bits, challenge.seq, challenge.ack), (ACK, iss + 1, 1001));
            assert_eq!(wire.state(id), Ok(TcpState::SynReceived));
        }
    }
}

/// RFC 9293 §3.10.4, SYN-RECEIVED: a shutdown waits until the connection is open, and is then
/// carried out. As on Linux a read returns the end of the stream from then on.
#[test]
fn a_connection_that_is_shut_after_crossing_syns_ends_when_it_is_open() {
    for (how, with_fin) in [
        (Shutdown::Write, false),
        (Shutdown::Write, true),
        (Shutdown::Read, false),
        (Shutdown::Both, false),
        (Shutdown::Both, true),
    ] {
        let (mut wire, id, iss) = opening();
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        assert_eq!(wire.one().bits, SYN | ACK);
        for _ in 0..2 {
            let now = wire.now;
            assert_eq!(wire.stack().tcp_shutdown(id, now, how), Ok(()));
            wire.nothing();
        }
        let (reads, writes) = (how == Shutdown::Write, how == Shutdown::Read);
        let told = match how {
            Shutdown::Write => Ready::NONE,
            Shutdown::Read => Ready::IN | Ready::RDHUP,
            Shutdown::Both => Ready::IN | Ready::RDHUP | Ready::HUP,
        };
        assert_eq!((wire.state(id), wire.stack().readiness(id.into())), (Ok(TcpState::SynReceived), Ok(told)));
        assert_eq!(wire.recv(id), if reads { Err(StackError::WouldBlock) } else { Ok(vec![]) });
        assert_eq!(wire.send(id, b"x"), Err(StackError::WouldBlock));

        wire.put(Seg::new(if with_fin { FIN | ACK } else { ACK }, 1001, iss + 1));
        let sent = wire.taken();
        let fins: Vec<_> = sent.iter().filter(|seg| seg.has(FIN)).map(|seg| seg.seq).collect();
        assert_eq!(fins, if writes { vec![] } else { vec![iss + 1] }, "{how:?}");
        let state = match (writes, with_fin) {
            (true, _) => TcpState::Established,
            (false, true) => TcpState::Closing,
            (false, false) => TcpState::FinWait1,
        };
        assert_eq!(wire.state(id), Ok(state), "{how:?}");
        assert_eq!(wire.send(id, b"x"), if writes { Ok(1) } else { Err(StackError::Pipe) });
        assert_eq!(wire.recv(id), if reads && !with_fin { Err(StackError::WouldBlock) } else { Ok(vec![]) });
        if !writes {
            wire.put(Seg::new(ACK, if with_fin { 1002 } else { 1001 }, iss + 2));
            assert_eq!(wire.state(id), Ok(if with_fin { TcpState::TimeWait } else { TcpState::FinWait2 }));
        }
    }
}

/// Its FIN is retransmitted like any other.
#[test]
fn the_end_that_was_asked_for_before_the_connection_was_open_is_sent_again() {
    let (mut wire, id, iss) = opening();
    wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
    wire.taken();
    let now = wire.now;
    wire.stack().tcp_shutdown(id, now, Shutdown::Write).unwrap();
    wire.pass(Span::from_secs(2));
    assert!(wire.taken().iter().all(|seg| seg.bits == SYN | ACK && seg.seq == iss));
    wire.put(Seg::new(ACK | PSH, 1001, iss + 1).data(b"hey"));
    wire.pass(Span::from_secs(3));
    let fins = wire.taken().iter().filter(|seg| seg.has(FIN) && seg.seq == iss + 1).count();
    assert!(fins > 1, "{fins}");
    assert_eq!(wire.recv(id).unwrap(), b"hey");
    wire.put(Seg::new(ACK, 1004, iss + 2));
    assert_eq!(wire.state(id), Ok(TcpState::FinWait2));
}

/// As on Linux (`tcp_disconnect`), which leaves a socket neither connected nor shut down; a further
/// `shutdown` shuts it down.
#[test]
fn an_attempt_that_is_given_up_leaves_what_is_not_connected() {
    let over = Ready::OUT | Ready::HUP;
    let ended = over | Ready::IN | Ready::RDHUP;
    let rows = [
        (None, over, Err(StackError::NotConnected)),
        (Some(Shutdown::Write), over, Err(StackError::NotConnected)),
        (Some(Shutdown::Read), ended, Ok(vec![])),
        (Some(Shutdown::Both), ended, Ok(vec![])),
    ];
    for (again, ready, read) in rows {
        let (mut wire, id, iss) = opening();
        let now = wire.now;
        assert_eq!(wire.stack().tcp_abandon(id), Ok(()));
        assert_eq!(wire.stack().tcp_abandon(id), Err(StackError::Invalid));
        assert_eq!(wire.stack().readiness(id.into()), Ok(over | Ready::ERR));
        if let Some(how) = again {
            assert_eq!(wire.stack().tcp_shutdown(id, now, how), Err(StackError::NotConnected));
        }
        assert_eq!(wire.stack().readiness(id.into()), Ok(ready | Ready::ERR));
        assert_eq!(wire.recv(id), Err(StackError::Reset));
        assert_eq!((wire.stack().readiness(id.into()), wire.recv(id)), (Ok(ready), read));
        assert_eq!(wire.send(id, b"x"), Err(StackError::Pipe));
        // Nothing of it is left: an answer to its SYN is reset.
        wire.put(Seg::new(SYN | ACK, 1000, iss + 1));
        assert_eq!(wire.one().bits, RST);
        wire.close(id);
        assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
    }
}

/// RFC 9293 §3.10.4, CLOSE in SYN-RECEIVED: a closed socket continues until the connection is open,
/// and ends in order; a peer that never answers does not keep it alive.
#[test]
fn a_connection_that_is_closed_after_crossing_syns_ends_in_order() {
    for (answers, keepalive) in [(true, false), (true, true), (false, false)] {
        let (mut wire, id, iss) = opening();
        let now = wire.now;
        wire.stack().tcp_set(id, now, TcpSetting::KeepAlive(keepalive)).unwrap();
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        assert_eq!(wire.one().bits, SYN | ACK);
        wire.close(id);
        wire.nothing();
        assert_eq!(wire.state(id), Err(StackError::Stale));
        if answers {
            wire.put(Seg::new(ACK, 1001, iss + 1));
            let fin = wire.one();
            assert_eq!((fin.bits & FIN, fin.seq, fin.ack), (FIN, iss + 1, 1001));
            wire.put(Seg::new(FIN | ACK, 1001, iss + 2));
            let last = wire.one();
            assert_eq!((last.bits, last.seq, last.ack), (ACK, iss + 2, 1002));
        } else {
            wire.pass(Span::from_secs(130));
            let again = wire.taken();
            assert!(again.len() == 6 && again.iter().all(|seg| seg.bits == SYN | ACK && seg.seq == iss), "{again:?}");
            // Nothing of it is left: the segment is reset.
            wire.put(Seg::new(ACK, 1001, iss + 1));
            assert_eq!(wire.one().bits, RST);
        }
    }
}

/// The same, with data after the close, or with a linger time of zero (§3.10.5, ABORT).
#[test]
fn a_connection_that_is_closed_after_crossing_syns_is_reset_if_the_peer_is_not_done() {
    for lingers in [false, true] {
        let (mut wire, id, iss) = opening();
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        wire.taken();
        let now = wire.now;
        if lingers {
            wire.stack().tcp_set(id, now, TcpSetting::Linger(Some(Span::ZERO))).unwrap();
        }
        wire.close(id);
        if !lingers {
            wire.nothing();
            wire.put(Seg::new(ACK | PSH, 1001, iss + 1).data(b"hey"));
        }
        let last = wire.taken().pop().unwrap();
        assert!(last.has(RST), "{last:?}");
        wire.put(Seg::new(ACK, 1001, iss + 1));
        assert_eq!(wire.one().bits, RST);
    }
}

/// A thread that sleeps until the connection is open must be woken when another thread ends the
/// attempt.
#[test]
fn a_waiter_for_a_connection_is_woken_when_the_attempt_ends() {
    for (crossing, abort) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut wire, id, _) = opening();
        if crossing {
            wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
            wire.taken();
        }
        let now = wire.now;
        let mut stack = wire.stack();
        let target = WakeTarget { descriptor: 9, ..WakeTarget::default() };
        assert!(stack.sleep_on([id.into()], target).is_some());
        assert!(stack.take_wakeups().is_none());
        if abort { stack.tcp_abort(id, now) } else { stack.tcp_close(id, now) }.unwrap();
        assert!(stack.take_wakeups().is_some_and(|wakeups| wakeups.targets() == [target]), "{crossing} {abort}");
        assert_eq!(stack.tcp_state(id), Err(StackError::Stale));
    }
}

/// RFC 9293 §3.10.7.4, fifth check, in SYN-RECEIVED: only an acknowledgement of our SYN opens. Any
/// other is answered by a RST with that number, and the connection stays half open.
#[test]
fn only_the_number_after_our_syn_opens_a_half_open_connection() {
    for offset in [0u32, 2, 1000, u32::MAX, 1] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        let iss = wire.one().seq;
        let ack = iss.wrapping_add(offset);
        wire.put(Seg::new(ACK, 1001, ack));
        if offset != 1 {
            let reset = wire.one();
            assert_eq!((reset.bits, reset.seq), (RST, ack));
            assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock));
            wire.put(Seg::new(ACK, 1001, iss + 1));
        }
        wire.nothing();
        let id = wire.stack().tcp_accept(listener).unwrap();
        assert_eq!(wire.state(id), Ok(TcpState::Established));
    }
}

/// RFC 9293 §3.10.7.4, second check, in SYN-RECEIVED after a passive open: the listener is
/// unchanged, and later segments of that peer are reset.
#[test]
fn a_reset_half_open_connection_leaves_the_listener_as_it_was() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    for round in 0..100 {
        wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
        let iss = wire.one().seq;
        let bits = if round % 2 == 0 { RST } else { RST | ACK };
        wire.put(Seg::new(bits, 1001, iss + 1));
        wire.nothing();
        wire.put(Seg::new(ACK, 1001, iss + 1));
        let reset = wire.one();
        assert_eq!((reset.bits, reset.seq), (RST, iss + 1));
        wire.pass(Span::from_millis(1));
    }
    assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock));
    assert_eq!((wire.count("TcpExtSyncookiesSent"), wire.held()), (0, 0));
    wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&OPTIONS));
}
