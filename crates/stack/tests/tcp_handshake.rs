//! Opening connections: retransmission, refusal, simultaneous open, full queues, SYN cookies,
//! TIME-WAIT reuse.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::TcpState;
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackConfig, StackError};

/// RFC 7323 §2 and §3, RFC 2018 §2: only offered options are used.
#[test]
fn options_are_used_only_if_both_sides_offer_them() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1, 0));
    let plain = wire.one();
    assert_eq!(plain.option(2), Some(&1460u16.to_be_bytes()[..]));
    assert_eq!((plain.option(3), plain.option(4), plain.option(8)), (None, None, None));
    wire.peer.port += 1;
    let syn = Seg::new(SYN, 1, 0).options(&[2, 4, 5, 180, 4, 2, 3, 3, 9, 1, 1, 1]).timestamps(77, 0);
    wire.put(syn);
    let full = wire.one();
    assert_eq!(full.option(3), Some(&[7u8][..]));
    assert!(full.option(4).is_some());
    assert_eq!(full.times().unwrap().1, 77);
    let now = wire.now;
    wire.stack().tcp_close_listener(listener, now).unwrap();
    assert_eq!(wire.held(), 0);
}

/// RFC 7323 §2.2 and §2.3: the window is scaled as the SYN offered, with any shift up to 14, also
/// when a cookie stores the options.
#[test]
fn the_shift_that_is_set_is_offered_and_used() {
    for (set, used) in [(0, 0), (8, 8), (14, 14), (200, 14)] {
        for syn_queue in [256, 0] {
            let mut config = StackConfig::default();
            (config.tcp.window_shift, config.tcp.syn_queue) = (set, syn_queue);
            config.tcp.receive_buffer = 60_000;
            let mut wire = Wire::with(config);
            let listener = wire.listen(8);
            let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180, 1, 3, 3, 9]).timestamps(77, 0);
            let (id, ours, theirs) = wire.accepted_with(listener, syn);
            let now = wire.now;
            let info = wire.stack().tcp_info(id, now).unwrap();
            assert_eq!(info.scale, Some((9, used)));
            wire.put(Seg::new(ACK, theirs, ours).timestamps(78, 0).data(b"hello"));
            let window = u32::from(wire.one().window) << used;
            let step = 1 << used;
            assert!((60_000 - 5 - step..60_000 + step).contains(&window), "{window} with a shift of {used}");
        }
    }
}

/// RFC 9293 §3.8.1.
#[test]
fn a_lost_syn_and_a_lost_syn_ack_are_sent_again() {
    let mut pair = SimulatedPair::seeded(3);
    let listener = listen(&mut pair, 1, 8);
    pair.link_mut(0).loss = 1_000_000;
    let client = connect(&mut pair, 0, 4000);
    pair.run_for(Span::from_millis(2_500)); // SYN at 0 and 1 s is lost
    pair.link_mut(0).loss = 0;
    pair.link_mut(1).loss = 1_000_000;
    pair.run_for(Span::from_millis(800)); // SYN at 3 s arrives, its answer is lost
    pair.link_mut(1).loss = 0;
    pair.run_for(Span::from_secs(5));
    assert_eq!(state(&mut pair, 0, client), TcpState::Established);
    assert!(pair.stack(1).tcp_accept(listener).is_ok());
}

/// RFC 9293 §3.8.3.
#[test]
fn an_unanswered_attempt_times_out() {
    let mut pair = SimulatedPair::seeded(3);
    pair.link_mut(0).loss = 1_000_000;
    let client = connect(&mut pair, 0, 4000);
    pair.run_for(Span::from_secs(130));
    let ready = pair.stack(0).readiness(client.into()).unwrap();
    assert!(ready.contains(Ready::ERR | Ready::HUP | Ready::IN | Ready::OUT));
    assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::TimedOut)));
    close(&mut pair, 0, client);
    assert_eq!(pair.frames_held(0), 0);
    assert_eq!(pair.link_stats(0).sent, 7, "SYN and six retransmissions");
}

/// RFC 9293 §3.10.7.1, and §3.10.7.3, second check.
#[test]
fn a_closed_port_refuses() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(4);
        let client = connect(&mut pair, family, 4000);
        assert_eq!(pair.stack(0).readiness(client.into()), Ok(Ready::NONE));
        pair.run_for(Span::from_millis(1));
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::Refused)));
        assert_eq!(state(&mut pair, 0, client), TcpState::Closed);
        close(&mut pair, 0, client);
        assert_eq!(pair.stack(0).tcp_state(client), Err(StackError::Stale));
    }
}

/// RFC 9293 §3.5, figure 7.
#[test]
fn both_sides_open_at_once() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(5);
        let ends = [end(&pair, 0, family, 1000), end(&pair, 1, family, 2000)];
        let options = options(&mut pair, 0);
        let now = pair.now();
        let a = pair.stack(0).tcp_connect(&options, ends[0], ends[1], now).unwrap();
        let b = pair.stack(1).tcp_connect(&options, ends[1], ends[0], now).unwrap();
        pair.run_for(Span::from_millis(5));
        assert_eq!((state(&mut pair, 0, a), state(&mut pair, 1, b)), (TcpState::Established, TcpState::Established));
        let mut flows = [Flow::new((0, a), (1, b), 100_000), Flow::new((1, b), (0, a), 100_000)];
        transfer(&mut pair, &mut flows, Span::from_secs(5));
        assert_eq!(pair.stack(0).counters().tcp_retrans_segs.get(), 0);
    }
}

/// RFC 9293 §3.5: SYNs and SYN-ACKs cross on a lossy cable, and data follows: each loss is
/// repaired.
#[test]
fn both_sides_open_at_once_over_a_bad_cable() {
    for seed in 0..20 {
        let link = tickwire_sim::LinkConfig { loss: 300_000, duplicate: 100_000, ..Default::default() };
        let mut pair = pair_with(seed, link);
        let ends = [end(&pair, 0, 0, 1000), end(&pair, 1, 0, 2000)];
        let options = options(&mut pair, 0);
        let now = pair.now();
        let a = pair.stack(0).tcp_connect(&options, ends[0], ends[1], now).unwrap();
        let b = pair.stack(1).tcp_connect(&options, ends[1], ends[0], now).unwrap();
        let open = pair.run_until(Span::from_secs(60), |pair| {
            (state(pair, 0, a), state(pair, 1, b)) == (TcpState::Established, TcpState::Established)
        });
        assert!(open, "seed {seed}: {:?}", (state(&mut pair, 0, a), state(&mut pair, 1, b)));
        let mut flows = [Flow::new((0, a), (1, b), 20_000), Flow::new((1, b), (0, a), 20_000)];
        transfer(&mut pair, &mut flows, Span::from_secs(60));
    }
}

/// RFC 9293 §3.5: a SYN that crosses ours is answered by a SYN-ACK with the same number; the reply
/// to that may carry data.
#[test]
fn a_crossing_syn_is_answered_and_its_acknowledgement_opens() {
    for with_syn in [true, false] {
        let mut wire = Wire::new();
        let (own, peer, now) = (wire.own, wire.peer, wire.now);
        let options = wire.stack().tcp_defaults();
        let id = wire.stack().tcp_connect(&options, own, peer, now).unwrap();
        let syn = wire.one();
        assert_eq!(syn.bits, SYN);
        wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        let answer = wire.one();
        assert_eq!((answer.bits, answer.seq, answer.ack), (SYN | ACK, syn.seq, 1001));
        assert_eq!(wire.state(id), Ok(TcpState::SynReceived));
        let acknowledgement = if with_syn {
            Seg::new(SYN | ACK, 1000, syn.seq.wrapping_add(1))
        } else {
            Seg::new(ACK, 1001, syn.seq.wrapping_add(1)).data(b"early")
        };
        wire.put(acknowledgement);
        assert_eq!(wire.state(id), Ok(TcpState::Established));
        if !with_syn {
            assert_eq!(wire.recv(id).unwrap(), b"early");
        }
        wire.send(id, b"hello").unwrap();
        let sent = wire.taken();
        assert_eq!(
            (sent.last().unwrap().seq, &sent.last().unwrap().data[..]),
            (syn.seq.wrapping_add(1), &b"hello"[..])
        );
    }
}

#[test]
fn a_full_accept_queue_keeps_the_others_waiting() {
    let mut pair = SimulatedPair::seeded(6);
    let listener = listen(&mut pair, 1, 1);
    let clients: Vec<_> = (0..4).map(|n| connect(&mut pair, 0, 5000 + n)).collect();
    pair.run_for(Span::from_millis(100));
    let accepted: Vec<_> = std::iter::from_fn(|| pair.stack(1).tcp_accept(listener).ok()).collect();
    assert_eq!(accepted.len(), 2, "a backlog of one lets two wait, as on Linux");
    assert!(pair.stack(1).counters().tcp_listen_overflows.get() > 0);
    // With room again, the others are accepted by retransmission.
    let mut more = Vec::new();
    pair.run_until(Span::from_secs(30), |pair| {
        more.extend(pair.stack(1).tcp_accept(listener));
        more.len() == 2
    });
    assert_eq!(more.len(), 2);
    for id in clients {
        assert_eq!(state(&mut pair, 0, id), TcpState::Established);
    }
}

/// RFC 9293 §3.10.4.
#[test]
fn closing_a_listener_resets_unaccepted_connections() {
    let mut pair = SimulatedPair::seeded(7);
    let listener = listen(&mut pair, 1, 8);
    let client = connect(&mut pair, 0, 4000);
    pair.run_for(Span::from_millis(1));
    let now = pair.now();
    pair.stack(1).tcp_close_listener(listener, now).unwrap();
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::Reset)));
    assert_eq!(pair.stack(1).tcp_accept(listener), Err(StackError::Stale));
    assert_eq!(pair.frames_held(1), 0);
}

/// RFC 4987 §3.6: a flood does not keep a legitimate client out, and options survive the cookie.
#[test]
fn syn_cookies_admit_a_client_through_a_flood() {
    let mut config = StackConfig::default();
    config.tcp.syn_queue = 16;
    let mut wire = Wire::with(config);
    let listener = wire.listen(64);
    for port in 0..200 {
        wire.peer.port = 10_000 + port;
        wire.put(Seg::new(SYN, 7, 0).options(&[2, 4, 5, 180]));
    }
    assert!(wire.taken().iter().all(|s| s.has(SYN | ACK)));
    assert_eq!(wire.count("TcpExtSyncookiesSent"), 184);
    wire.peer.port = 4000;
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180, 4, 2, 3, 3, 9, 1, 1, 1]).timestamps(77, 0);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    assert_eq!(wire.count("TcpExtSyncookiesRecv"), 1);
    let now = wire.now;
    let info = wire.stack().tcp_info(id, now).unwrap();
    assert_eq!((info.sack, info.timestamps, info.scale), (true, true, Some((9, 7))));
    assert_eq!(info.send_mss, 1448);
    let data = Seg::new(ACK, theirs, ours).data(b"hello");
    wire.put(data);
    assert_eq!(wire.recv(id).unwrap(), b"hello");
    // A guessed cookie is refused.
    wire.peer.port = 4001;
    wire.put(Seg::new(ACK, 1001, 0x1234_5678));
    assert_eq!(wire.taken().last().unwrap().bits, RST);
    assert_eq!(wire.count("TcpExtSyncookiesFailed"), 1);
}

/// RFC 6191, RFC 9293 §3.10.7.4: a newer SYN replaces a connection in TIME-WAIT, an older one does
/// not.
#[test]
fn time_wait_gives_way_to_a_newer_syn() {
    for stamps in [false, true] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let stamp = |seg: Seg, value| if stamps { seg.timestamps(value, 0) } else { seg };
        let syn = stamp(Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180]), 500);
        let (id, ours, theirs) = wire.accepted_with(listener, syn);
        wire.close(id);
        assert!(wire.one().has(FIN));
        wire.put(stamp(Seg::new(ACK | FIN, theirs, ours + 1), 510));
        wire.one(); // TIME-WAIT now
        wire.put(stamp(Seg::new(SYN, 500, 0), 400));
        assert_eq!(wire.one().bits, ACK, "old SYN (timestamps: {stamps})");
        wire.put(stamp(Seg::new(SYN, theirs + 5000, 0).options(&[2, 4, 5, 180]), 600));
        let answer = wire.one();
        assert!(answer.has(SYN | ACK) && answer.ack == theirs + 5001, "{answer:?}");
    }
}

/// RFC 6191, RFC 9293 §3.10.7.4.
#[test]
fn a_client_may_reuse_its_port_at_once() {
    let mut pair = SimulatedPair::seeded(9);
    let listener = listen(&mut pair, 1, 8);
    for round in 0..20 {
        let client = connect(&mut pair, 0, 4000);
        pair.run_for(Span::from_millis(1));
        let server = pair.stack(1).tcp_accept(listener).unwrap();
        assert_eq!(state(&mut pair, 0, client), TcpState::Established, "round {round}");
        // The server closes first, so TIME-WAIT is on its side.
        close(&mut pair, 1, server);
        pair.run_for(Span::from_millis(1));
        close(&mut pair, 0, client);
        pair.run_for(Span::from_millis(1));
    }
    assert_eq!(pair.frames_held(1), 0);
}

/// More connections in TIME-WAIT than slots: the oldest are replaced, and none is refused.
#[test]
fn time_wait_never_fills_the_pool() {
    let mut pair = SimulatedPair::seeded(10);
    let listener = listen(&mut pair, 1, 8);
    for round in 0..600 {
        let client = connect(&mut pair, 0, 1000 + round);
        pair.run_for(Span::from_micros(200));
        let server = pair.stack(1).tcp_accept(listener).unwrap();
        close(&mut pair, 0, client);
        pair.run_for(Span::from_micros(200));
        close(&mut pair, 1, server);
        pair.run_for(Span::from_micros(200));
    }
    assert_eq!(pair.stack(1).counters().tcp_passive_opens.get(), 600);
}

/// RFC 9293 §3.10.7.4 with RFC 5961: in SYN-RECEIVED too.
#[test]
fn a_reset_ends_a_half_open_connection_only_if_exact() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1000, 0));
    let answer = wire.one();
    wire.put(Seg::new(RST, 1500, 0));
    assert_eq!(wire.one().bits, ACK);
    wire.put(Seg::new(ACK, 1001, answer.seq + 5));
    assert_eq!((wire.one().bits, wire.count("TcpOutRsts")), (RST, 1));
    wire.put(Seg::new(SYN, 1000, 0));
    wire.nothing();
    wire.pass(Span::from_millis(500));
    wire.put(Seg::new(SYN, 1000, 0));
    assert_eq!(wire.one(), answer, "the SYN came again: so does the answer");
    wire.put(Seg::new(RST, 1001, 0));
    wire.put(Seg::new(ACK, 1001, answer.seq + 1));
    assert_eq!(wire.one().bits, RST, "it is gone");
    assert_eq!(wire.stack().tcp_accept(listener), Err(StackError::WouldBlock));
}

/// RFC 9293 §3.10.1, §3.9.2.3.
#[test]
fn impossible_ends_are_refused() {
    let mut pair = SimulatedPair::seeded(1);
    let (a, b) = (end(&pair, 0, 0, 1000), end(&pair, 1, 0, 80));
    let options = options(&mut pair, 0);
    let now = pair.now();
    let mut stack = pair.stack(0);
    for (local, remote) in [
        (a, Endpoint::new(b.address, 0)),
        (Endpoint::new(Address::ANY_V4, 1000), b),
        (a, Endpoint::new(Address::v4([224, 0, 0, 1]), 80)),
        (a, Endpoint::new(Address([0x20; 16]), 80)),
    ] {
        assert_eq!(stack.tcp_connect(&options, local, remote, now), Err(StackError::Invalid));
    }
    let unknown = Endpoint::new(Address::v4([10, 9, 9, 9]), 80);
    assert_eq!(stack.tcp_connect(&options, a, unknown, now), Err(StackError::NeedPath));
    stack.tcp_connect(&options, a, b, now).unwrap();
    assert_eq!(stack.tcp_connect(&options, a, b, now), Err(StackError::AddressInUse));
}
