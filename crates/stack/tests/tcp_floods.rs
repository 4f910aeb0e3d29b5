//! Floods by an attacker that knows a connection's ends, or only a listener: open connections
//! continue, and no memory is held.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_sim::{PairConfig, Rng};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{Limits, TcpId};

const FLOOD: u32 = 20_000;

/// A request and its response on a connection: the response is sent immediately.
#[track_caller]
fn answers(wire: &mut Wire, id: TcpId, ours: &mut u32, theirs: &mut u32) {
    wire.taken();
    wire.put(Seg::new(ACK | PSH, *theirs, *ours).data(b"question"));
    *theirs += 8;
    assert_eq!(wire.recv(id).unwrap(), b"question");
    wire.send(id, b"answer").unwrap();
    let answer = wire.taken().into_iter().find(|seg| !seg.data.is_empty()).expect("it is answered at once");
    assert_eq!((answer.seq, answer.ack, &answer.data[..]), (*ours, *theirs, &b"answer"[..]));
    *ours += 6;
    wire.put(Seg::new(ACK, *theirs, *ours));
}

fn plain(wire: &mut Wire) -> (TcpId, u32, u32) {
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    (id, ours, theirs)
}

/// RFC 5961 §3.2 and §7: resets with every number of the window but RCV.NXT. Each is counted; a few
/// are challenged; none is accepted.
#[test]
fn rfc5961_3_2_resets_swept_through_the_window_end_nothing() {
    let mut wire = Wire::new();
    let (id, mut ours, mut theirs) = plain(&mut wire);
    for n in 0..FLOOD {
        wire.put(Seg::new(RST, theirs + 1 + n * 3, 0));
        if n % 1_000 == 0 {
            answers(&mut wire, id, &mut ours, &mut theirs);
        }
        wire.pass(Span::from_micros(50));
    }
    answers(&mut wire, id, &mut ours, &mut theirs);
    // As many as are within a window of 64 KB.
    let (sent, withheld) = (wire.count("TcpExtTCPChallengeACK"), wire.count("TcpExtTCPACKSkippedChallenge"));
    assert!(sent + withheld > 19_000, "{sent} answered, {withheld} not");
    assert!(sent <= 4, "{sent} answers in a second");
    assert_eq!((wire.count("TcpInRsts"), wire.count("TcpEstabResets")), (0, 0));
    assert_eq!(wire.held(), 0);
}

/// RFC 5961 §5.2: data with a guessed acknowledgement. Data is accepted only if both numbers are in
/// their windows.
#[test]
fn rfc5961_5_2_data_with_guessed_acknowledgements_is_not_taken() {
    let mut wire = Wire::new();
    let (id, mut ours, mut theirs) = plain(&mut wire);
    let mut rng = Rng::new(5961);
    // How far back the peer may acknowledge: the largest window that it has offered (here at most
    // 65,535 bytes).
    let far = |ack: u32, ours: u32| ours.wrapping_sub(ack) > 70_000;
    let mut sent = 0;
    for n in 0..FLOOD {
        let ack = rng.next_u64() as u32;
        if far(ack, ours) {
            wire.put(Seg::new(ACK | PSH, theirs, ack).data(b"forged"));
            sent += 1;
        }
        if n % 1_000 == 0 {
            answers(&mut wire, id, &mut ours, &mut theirs);
        }
        wire.pass(Span::from_micros(50));
    }
    assert!(sent > 19_000);
    answers(&mut wire, id, &mut ours, &mut theirs);
    assert_eq!((wire.count("TcpRetransSegs"), wire.held()), (0, 0));
}

/// RFC 5961 §4.2: the same with SYNs, which must not restart a connection.
#[test]
fn rfc5961_4_2_syns_between_the_ends_of_a_connection_end_nothing() {
    let mut wire = Wire::new();
    let (id, mut ours, mut theirs) = plain(&mut wire);
    let mut rng = Rng::new(4);
    for n in 0..FLOOD {
        wire.put(Seg::new(SYN, rng.next_u64() as u32, 0).options(&[2, 4, 3, 232]));
        if n % 1_000 == 0 {
            answers(&mut wire, id, &mut ours, &mut theirs);
        }
        wire.pass(Span::from_micros(50));
    }
    answers(&mut wire, id, &mut ours, &mut theirs);
    assert!(wire.count("TcpExtTCPACKSkippedChallenge") > 19_000);
    assert_eq!((wire.state(id), wire.held()), (Ok(TcpState::Established), 0));
}

/// A SYN whose source equals its destination address and port (CERT CA-1997-28): dropped and
/// counted, with or without a listener.
#[test]
fn land_packets_are_dropped() {
    let mut wire = Wire::new();
    let (id, mut ours, mut theirs) = plain(&mut wire);
    let own = wire.own;
    for to in [own, Endpoint::new(own.address, 81)] {
        for seg in
            [Seg::new(SYN, 7, 0), Seg::new(SYN | ACK, 7, 8), Seg::new(ACK, 7, 8).data(b"land"), Seg::new(RST, 7, 0)]
        {
            wire.put_bytes(&seg.packet(to, to));
        }
    }
    wire.nothing();
    assert_eq!(wire.count("IpInAddrErrors"), 8);
    answers(&mut wire, id, &mut ours, &mut theirs);
}

/// RFC 4987: strangers that open connections and never continue. They exhaust neither the
/// connection pool nor the frames: others can connect in both directions all the while.
#[test]
fn rfc4987_half_open_connections_leave_the_pool_to_others() {
    let limits = Limits { frames: 256, tcp: 64, ..Limits::DEFAULT };
    let mut wire = Wire::on(&PairConfig { limits, ..PairConfig::default() });
    let (id, mut ours, mut theirs) = plain(&mut wire);
    let (peer, own) = (wire.peer, wire.own);
    let second = Endpoint::new(own.address, 81);
    let options = wire.stack().tcp_defaults();
    let other = wire.stack().tcp_listen(&options, second, 8).unwrap();
    for n in 0..FLOOD {
        let stranger = Endpoint::new(Address::v4([10, 9, (n >> 8) as u8, n as u8]), 1024 + (n % 7) as u16);
        let to = if n % 2 == 0 { own } else { second };
        wire.put_bytes(&Seg::new(SYN, n, 0).options(&[2, 4, 3, 232]).packet(stranger, to));
        if n % 1_000 == 999 {
            answers(&mut wire, id, &mut ours, &mut theirs);
            let held = wire.held();
            assert!(held <= 128, "{held} frames of 256 after {n} SYNs");
            // A legitimate peer connects, with or without a cookie; and one of our own connects
            // works.
            wire.peer = Endpoint::new(peer.address, 5_000 + (n / 1_000) as u16);
            wire.own = second;
            let (honest, ..) = wire.accepted_with(other, Seg::new(SYN, 1000, 0));
            let (now, local) = (wire.now, Endpoint::new(own.address, 6_000 + (n / 1_000) as u16));
            let remote = wire.peer;
            let outgoing = wire.stack().tcp_connect(&options, local, remote, now).unwrap();
            for done in [honest, outgoing] {
                let now = wire.now;
                wire.stack().tcp_abort(done, now).unwrap();
            }
            (wire.peer, wire.own) = (peer, own);
            wire.taken();
        }
        wire.pass(Span::from_micros(50));
    }
    assert!(wire.count("TcpExtSyncookiesSent") > 10_000);
    wire.pass(Span::from_secs(300));
    wire.taken();
    assert_eq!((wire.held(), wire.count("TcpCurrEstab")), (0, 1));
}

/// RFC 2018 §8: the attackers leave a gap and send single bytes beyond it, each of which takes a
/// frame. However many there are, other connections can send.
#[test]
fn rfc2018_8_single_bytes_behind_a_gap_leave_frames_to_others() {
    let limits = Limits { frames: 2048, tcp: 64, ..Limits::DEFAULT };
    let mut wire = Wire::on(&PairConfig { limits, ..PairConfig::default() });
    let listener = wire.listen(64);
    let open = |wire: &mut Wire, port| {
        wire.peer.port = port;
        wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]))
    };
    let attackers: Vec<_> = (5000..5010).map(|port| (port, open(&mut wire, port))).collect();
    for round in 0..2 {
        for &(port, (_, ours, theirs)) in &attackers {
            wire.peer.port = port;
            for n in 0..800 {
                wire.put(Seg::new(ACK, theirs + 1 + round * 800 + n, ours).data(&[0]));
            }
            wire.pass(Span::from_millis(100));
            wire.taken();
        }
        let (id, ours, theirs) = open(&mut wire, 4000 + round as u16);
        let room = wire.send(id, &[1; 64_000]);
        assert!(room.is_ok_and(|bytes| bytes >= 16_000), "room for {room:?} bytes, {} frames held", wire.held());
        wire.put(Seg::new(RST, theirs, ours));
        wire.taken();
    }
    // Discarded data is repaired like any loss: with the gap, and beyond it.
    let (port, (id, ours, theirs)) = attackers[0];
    wire.peer.port = port;
    for n in (0..1_000).step_by(500) {
        wire.put(Seg::new(ACK, theirs + n, ours).data(&[0; 500]));
    }
    assert!(wire.recv(id).unwrap().len() >= 1_000);
}

/// RFC 9293 §3.8.6.2.1, the attacker receives: a window that opens by one byte at a time, each
/// acknowledged at once. It receives few small segments, and costs no more memory than its send
/// buffer.
#[test]
fn rfc9293_3_8_6_2_1_a_window_of_one_byte_at_a_time_gets_five_segments_a_second() {
    let mut wire = Wire::new();
    let (id, mut ours, theirs) = plain(&mut wire);
    wire.put(Seg::new(ACK, theirs, ours).window(1));
    wire.send(id, &[1; 5_000]).unwrap();
    let mut segments = 0;
    for _ in 0..10_000 {
        wire.pass(Span::from_millis(1));
        for seg in wire.taken() {
            segments += 1;
            ours = ours.max(seg.end());
        }
        wire.put(Seg::new(ACK, theirs, ours).window(1));
    }
    assert!((40..=60).contains(&segments), "{segments} segments in ten seconds");
    let held = wire.held();
    assert!(held <= 8, "{held} frames for 5,000 bytes");
}

/// RFC 9293 §3.8.6.2.2, the attacker sends: one byte per segment to a program that reads each at
/// once. The window does not move in such steps, and no frame stays in use.
#[test]
fn rfc9293_3_8_6_2_2_single_bytes_are_acknowledged_together_and_hold_no_frame() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = plain(&mut wire);
    let mut acknowledgements = 0;
    for n in 0..FLOOD {
        wire.put(Seg::new(ACK, theirs + n, ours).data(b"1"));
        assert_eq!(wire.recv(id).unwrap(), b"1");
        acknowledgements += wire.taken().len();
        assert!(wire.held() <= 1);
        wire.pass(Span::from_micros(50));
    }
    assert!(acknowledgements <= FLOOD as usize, "{acknowledgements} for {FLOOD} segments");
}

/// RFC 3465 §2.3, RFC 5681 §3.1: a receiver that acknowledges byte by byte opens the congestion
/// window by the bytes it acknowledges, not by the number of acknowledgements.
#[test]
fn rfc5681_3_1_acknowledgements_that_are_divided_do_not_open_the_window_faster() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = plain(&mut wire);
    let now = wire.now;
    let before = wire.stack().tcp_info(id, now).unwrap().cwnd;
    wire.send(id, &[1; 20_000]).unwrap();
    let under_way: u32 = wire.taken().iter().map(|seg| seg.data.len() as u32).sum();
    for n in 1..=under_way {
        wire.put(Seg::new(ACK, theirs, ours + n));
    }
    let after = wire.stack().tcp_info(id, now).unwrap().cwnd;
    assert!(after <= before + under_way, "from {before} to {after} for {under_way} bytes");
}
