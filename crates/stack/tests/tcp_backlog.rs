//! A listener whose queues are full: half-open connections, those waiting for accept, SYN cookies
//! (RFC 4987 §3.6), and what becomes of all of them when it closes.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::TcpState;
use tickwire_stack::time::Span;
use tickwire_stack::{ListenerId, Ready, StackConfig, StackError};

const OPTIONS: [u8; 4] = [2, 4, 3, 232];

/// A peer at this port sends a SYN and receives a SYN-ACK. Returns ISS + 1 of the stack.
fn half_open(wire: &mut Wire, port: u16) -> u32 {
    wire.peer.port = port;
    wire.put(Seg::new(SYN, 1000, 0).options(&OPTIONS));
    let answer = wire.one();
    assert_eq!((answer.bits, answer.ack), (SYN | ACK, 1001), "port {port}");
    answer.seq.wrapping_add(1)
}

/// That peer sends a segment; returns the stack's answers.
fn say(wire: &mut Wire, port: u16, seg: Seg) -> Vec<Seg> {
    wire.peer.port = port;
    wire.put(seg);
    wire.taken()
}

/// Accepts connections until the queue is empty; returns how many.
fn accept_all(wire: &mut Wire, listener: ListenerId) -> usize {
    std::iter::from_fn(|| wire.stack().tcp_accept(listener).ok()).count()
}

/// RFC 9293 §3.10.7.2 and §3.10.7.4, RFC 4987 §3.6. While the accept queue is full, the last
/// acknowledgement of a handshake and a SYN are treated as lost; a segment of no handshake is
/// reset. With room again, every peer that received a SYN-ACK is accepted, with the data that it
/// sent.
#[test]
fn a_full_accept_queue_loses_no_answered_peer() {
    const BACKLOG: u16 = 10;
    let mut wire = Wire::new();
    let listener = wire.listen(BACKLOG.into());
    let queued: Vec<(u16, u32)> = (0..BACKLOG).map(|n| (2000 + n, half_open(&mut wire, 2000 + n))).collect();
    // The queue holds one more than the backlog, as on Linux.
    let cookies: Vec<(u16, u32)> = (0..=BACKLOG).map(|n| (3000 + n, half_open(&mut wire, 3000 + n))).collect();
    assert_eq!(wire.count("TcpExtSyncookiesSent"), u64::from(BACKLOG) + 1);
    for &(port, ours) in &cookies {
        let answers = say(&mut wire, port, Seg::new(ACK, 1001, ours).data(b"c"));
        assert_eq!(answers.iter().map(|seg| (seg.bits, seg.ack)).collect::<Vec<_>>(), [(ACK, 1002)]);
    }
    assert_eq!(wire.stack().readiness(listener.into()), Ok(Ready::IN));
    for &(port, ours) in &queued {
        assert_eq!(say(&mut wire, port, Seg::new(ACK, 1001, ours)), [], "the accept queue is full");
    }
    assert_eq!(wire.count("TcpExtListenOverflows"), u64::from(BACKLOG));
    let stranger = say(&mut wire, 4000, Seg::new(ACK, 77, 99));
    assert_eq!(stranger.iter().map(|seg| (seg.bits, seg.seq)).collect::<Vec<_>>(), [(RST, 99)]);
    assert_eq!(say(&mut wire, 4001, Seg::new(SYN, 1000, 0)), [], "no new one either");
    // SYN-ACKs of half-open connections are retransmitted; a cookie is sent only once.
    wire.pass(Span::from_millis(1100));
    let mut again: Vec<u32> = wire.taken().iter().filter(|seg| seg.has(SYN | ACK)).map(|seg| seg.seq + 1).collect();
    again.sort_unstable();
    let mut all: Vec<u32> = queued.iter().map(|&(_, ours)| ours).collect();
    all.sort_unstable();
    assert_eq!(again, all);
    for &(port, ours) in &cookies {
        let id = wire.stack().tcp_accept(listener).unwrap();
        assert_eq!(wire.recv(id).unwrap(), b"c");
        wire.close(id);
        let fin = wire.one();
        assert_eq!((fin.bits, fin.seq, fin.ack), (FIN | ACK, ours, 1002), "in the order of their coming");
        assert_eq!(say(&mut wire, port, Seg::new(RST, 1002, 0)), []);
    }
    assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock));
    for (n, &(port, ours)) in queued.iter().enumerate() {
        let data: &[u8] = if n % 2 == 0 { b"" } else { b"h" };
        let answers = say(&mut wire, port, Seg::new(ACK, 1001, ours).data(data));
        assert_eq!(answers.iter().map(|seg| seg.ack).collect::<Vec<_>>(), vec![1002; data.len()]);
    }
    wire.pass(Span::from_secs(10));
    wire.nothing();
    assert_eq!(accept_all(&mut wire, listener), usize::from(BACKLOG));
}

/// RFC 9293 §3.10.4: when the listener closes, every waiting connection is reset at its sequence
/// number, with or without received data. Half-open connections are reset, too, so that no peer
/// waits in vain. The port is then closed.
#[test]
fn a_listener_that_closes_resets_all_waiting_connections() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let waiting: Vec<(u16, u32, usize)> = (0..6)
        .map(|n| {
            let ours = half_open(&mut wire, 2000 + n);
            let data = vec![7; usize::from(n % 2) * 10];
            say(&mut wire, 2000 + n, Seg::new(ACK, 1001, ours).data(&data));
            (2000 + n, ours, data.len())
        })
        .collect();
    let half: Vec<(u16, u32)> = (0..4).map(|n| (3000 + n, half_open(&mut wire, 3000 + n))).collect();
    let now = wire.now;
    wire.stack().tcp_close_listener(listener, now).unwrap();
    let resets = wire.taken();
    assert!(resets.iter().all(|seg| seg.bits == RST | ACK), "{resets:?}");
    let mut told: Vec<(u32, u32)> = resets.iter().map(|seg| (seg.seq, seg.ack)).collect();
    told.sort_unstable();
    let mut expected: Vec<(u32, u32)> = waiting.iter().map(|&(_, ours, data)| (ours, 1001 + data as u32)).collect();
    expected.extend(half.iter().map(|&(_, ours)| (ours, 1001)));
    expected.sort_unstable();
    assert_eq!(told, expected);
    for (port, ours) in half.into_iter().chain(waiting.iter().map(|&(port, ours, _)| (port, ours))) {
        let answers = say(&mut wire, port, Seg::new(ACK, 1001, ours).data(b"?"));
        assert_eq!(answers.iter().map(|seg| (seg.bits, seg.seq)).collect::<Vec<_>>(), [(RST, ours)]);
    }
    wire.pass(Span::from_secs(200));
    wire.nothing();
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// Flags of the peer's last handshake segment, and whether it opens the connection.
const LAST: [(u8, bool); 6] =
    [(ACK, true), (ACK | PSH, true), (FIN | ACK, true), (SYN | ACK, false), (RST | ACK, false), (RST, false)];

/// RFC 9293 §3.10.7.2 and §3.10.7.4: data and FIN with the last acknowledgement are accepted at
/// once; with SYN or RST it does not open. SYN cookies make no difference.
#[test]
fn the_last_segment_of_a_handshake_opens_with_or_without_a_cookie() {
    for cookies in [false, true] {
        for (bits, opens) in LAST {
            let mut config = StackConfig::default();
            config.tcp.syn_queue = if cookies { 0 } else { 256 };
            let mut wire = Wire::with(config);
            let listener = wire.listen(8);
            let ours = half_open(&mut wire, 4000);
            let what = format!("bits {bits:#x}, cookies: {cookies}");
            // A cookie keeps no state, so there is nothing to retransmit.
            wire.pass(Span::from_millis(1100));
            assert_eq!(wire.taken().len(), usize::from(!cookies), "{what}");
            assert_eq!(wire.stack().readiness(listener.into()), Ok(Ready::NONE), "{what}");
            let answers = say(&mut wire, 4000, Seg::new(bits, 1001, ours).data(b"Sample Data"));
            if !opens {
                assert_eq!(wire.stack().readiness(listener.into()), Ok(Ready::NONE), "{what}");
                assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock), "{what}");
                continue;
            }
            assert_eq!(wire.stack().readiness(listener.into()), Ok(Ready::IN), "{what}");
            let id = wire.stack().tcp_accept(listener).unwrap();
            let ended = bits & FIN != 0;
            assert_eq!(answers.last().map(|seg| seg.ack), Some(1012 + u32::from(ended)), "{what}");
            let ready = wire.stack().readiness(id.into()).unwrap();
            assert_eq!((ready.contains(Ready::IN), ready.contains(Ready::RDHUP)), (true, ended), "{what}");
            assert_eq!(wire.state(id), Ok(if ended { TcpState::CloseWait } else { TcpState::Established }));
            assert_eq!(wire.recv(id).unwrap(), b"Sample Data", "{what}");
            assert_eq!(wire.recv(id), if ended { Ok(vec![]) } else { Err(StackError::WouldBlock) }, "{what}");
        }
    }
}
