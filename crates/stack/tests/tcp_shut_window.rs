//! A zero window on either side: when it is probed, how a probe is answered, and when the
//! connection times out (RFC 9293 §3.8.6.1).

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{StackError, TcpId};

const SAMPLE: &[u8] = b"Sample Data";

/// A connection with a round trip of 1 ms, whose peer has closed its window with a data segment of
/// its own.
fn shut() -> (Wire, TcpId, u32, u32) {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    wire.send(id, SAMPLE).unwrap();
    assert_eq!(wire.one().data, SAMPLE);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK | PSH, theirs, ours + 11).window(0).data(SAMPLE));
    wire.pass(Span::from_millis(10));
    assert_eq!(wire.one().ack, theirs + 11);
    assert_eq!(wire.recv(id).unwrap(), SAMPLE);
    (wire, id, ours + 11, theirs + 11)
}

/// RFC 9293 §3.8.6.1: a zero window is not probed while there is nothing to send. Otherwise the
/// first probe follows after the retransmission timeout, with the number just before the window;
/// and the data when the window opens.
#[test]
fn a_shut_window_is_probed_only_while_something_waits_for_it() {
    let (mut wire, id, ours, theirs) = shut();
    wire.pass(Span::from_secs(100));
    wire.nothing();
    let start = wire.now;
    wire.send(id, SAMPLE).unwrap();
    wire.nothing();
    wire.pass(Span::from_millis(200));
    let probes = wire.taken_at();
    assert!(probes.iter().all(|(_, p)| (p.bits, p.seq, p.ack) == (ACK, ours - 1, theirs) && p.data.is_empty()));
    let times: Vec<_> = probes.iter().map(|(at, _)| at.since(start).as_millis()).collect();
    assert_eq!(times, [6, 18, 42, 90, 186]);
    wire.put(Seg::new(ACK, theirs, ours));
    let data = wire.one();
    assert_eq!((data.seq, &data.data[..]), (ours, SAMPLE));
    wire.put(Seg::new(ACK, theirs, ours + 11));
    wire.pass(Span::from_secs(100));
    wire.nothing();
}

/// RFC 9293 §3.8.6.1 and §3.10.4: a FIN waits behind a zero window like data, and is probed for
/// likewise.
#[test]
fn a_program_that_closes_before_a_shut_window_probes_it() {
    let (mut wire, id, ours, theirs) = shut();
    wire.send(id, SAMPLE).unwrap();
    wire.close(id);
    wire.nothing();
    wire.pass(Span::from_millis(200));
    let probes = wire.taken();
    assert!(!probes.is_empty() && probes.iter().all(|p| p.bits == ACK && p.seq == ours - 1), "{probes:?}");
    wire.put(Seg::new(ACK, theirs, ours));
    let last = wire.taken();
    assert_eq!(last.iter().flat_map(|seg| seg.data.clone()).collect::<Vec<_>>(), SAMPLE);
    assert!(last.last().unwrap().has(FIN));
}

/// RFC 9293 §3.10.7.4, first check: each of the peer's probes is answered with RCV.NXT and our
/// window, and changes nothing. It may be an old sequence number, an old byte, or a byte beyond our
/// window.
#[test]
fn the_peers_probes_are_answered() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).data(SAMPLE));
    wire.taken();
    let next = theirs + 11;
    let now = wire.now;
    let window = wire.stack().tcp_info(id, now).unwrap().receive_window;
    for seg in [
        Seg::new(ACK, next - 1, ours),
        Seg::new(ACK, next - 1, ours).data(b"a"),
        Seg::new(ACK, next + window, ours).data(b"b"),
    ] {
        wire.put(seg);
        let answer = wire.one();
        assert_eq!((answer.bits, answer.seq, answer.ack), (ACK, ours, next));
        assert_eq!(u32::from(answer.window), window);
        wire.pass(Span::from_secs(1));
    }
    assert_eq!(wire.recv(id).unwrap(), SAMPLE);
    assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
}

/// `TCP_USER_TIMEOUT` (RFC 5482 §2, RFC 9293 §3.8.3): it also limits the wait for a window,
/// exactly. As on Linux that includes a peer that answers the probes: the program has set how long
/// its data may wait.
#[test]
fn the_user_timeout_ends_the_waiting_for_a_window() {
    for answered in [false, true] {
        for limit in [Span::from_millis(40), Span::from_secs(5)] {
            let (mut wire, id, ours, theirs) = shut();
            let now = wire.now;
            wire.stack().tcp_set(id, now, TcpSetting::UserTimeout(limit)).unwrap();
            let start = wire.now;
            wire.send(id, SAMPLE).unwrap();
            let mut ended = None;
            while ended.is_none() && wire.now.since(start) < limit.times(3) {
                wire.pass(Span::from_millis(1));
                for (at, seg) in wire.taken_at() {
                    match seg.bits {
                        ACK if answered => wire.put(Seg::new(ACK, theirs, ours).window(0)),
                        ACK => {}
                        _ => {
                            assert_eq!((seg.bits, seg.seq), (RST | ACK, ours));
                            ended = Some(at.since(start));
                        }
                    }
                }
            }
            let ended = ended.expect("it ends");
            assert!(
                ended >= limit && ended <= limit + Span::from_millis(10),
                "{ended:?} of {limit:?}, answered: {answered}"
            );
            assert_eq!(wire.recv(id), Err(StackError::TimedOut));
            wire.put(Seg::new(ACK, theirs, ours));
            let reset = wire.one();
            assert_eq!((reset.bits, reset.seq), (RST, ours), "the connection is gone");
        }
    }
}

/// RFC 9293 §3.8.6.1: without such a limit, a peer that answers may keep its window closed.
#[test]
fn an_answered_probe_keeps_the_connection() {
    let (mut wire, id, ours, theirs) = shut();
    wire.send(id, SAMPLE).unwrap();
    for _ in 0..1_000 {
        wire.pass(Span::from_secs(61));
        assert!(!wire.taken().is_empty());
        wire.put(Seg::new(ACK, theirs, ours).window(0));
    }
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.put(Seg::new(ACK, theirs, ours));
    assert_eq!(wire.taken().last().map(|seg| seg.data.clone()), Some(SAMPLE.to_vec()));
}
