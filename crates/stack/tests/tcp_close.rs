//! Ending connections: orderly, half-closed, by reset, by timeout.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::tcp::{Shutdown, TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, Ready, StackError};

/// RFC 9293 §3.6: one direction ends, the other continues.
#[test]
fn a_half_closed_connection_still_carries_the_other_direction() {
    let mut pair = SimulatedPair::seeded(1);
    let (client, server, listener) = connected(&mut pair, 0);
    send(&mut pair, 0, client, b"request").unwrap();
    let now = pair.now();
    pair.stack(0).tcp_shutdown(client, now, Shutdown::Write).unwrap();
    assert_eq!(send(&mut pair, 0, client, b"x"), Err(StackError::Pipe));
    pair.run_for(Span::from_millis(10));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"request");
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"");
    let ready = pair.stack(1).readiness(server.into()).unwrap();
    assert!(ready.contains(Ready::IN | Ready::RDHUP | Ready::OUT) && !ready.contains(Ready::HUP));
    assert_eq!((state(&mut pair, 0, client), state(&mut pair, 1, server)), (TcpState::FinWait2, TcpState::CloseWait));
    transfer(&mut pair, &mut [Flow::new((1, server), (0, client), 500_000)], Span::from_secs(5));
    close(&mut pair, 1, server);
    pair.run_for(Span::from_millis(10));
    assert_eq!(recv(&mut pair, 0, client, 100).unwrap(), b"");
    assert_eq!(state(&mut pair, 0, client), TcpState::TimeWait);
    assert!(pair.stack(0).readiness(client.into()).unwrap().contains(Ready::HUP));
    close(&mut pair, 0, client);
    let now = pair.now();
    pair.stack(1).tcp_close_listener(listener, now).unwrap();
    pair.run_for(Span::from_secs(61));
    assert!((0..2).all(|h| pair.frames_held(h) == 0 && pair.stack(h).deadline().is_none()));
    assert!((0..2).all(|h| pair.stack(h).in_use() == InUse::default()));
}

/// RFC 9293 §3.6, figure 13.
#[test]
fn both_sides_close_at_once() {
    let mut pair = SimulatedPair::seeded(2);
    let (client, server, _) = connected(&mut pair, 1);
    let now = pair.now();
    pair.stack(0).tcp_shutdown(client, now, Shutdown::Write).unwrap();
    pair.stack(1).tcp_shutdown(server, now, Shutdown::Write).unwrap();
    pair.run_for(Span::from_millis(10));
    assert_eq!((state(&mut pair, 0, client), state(&mut pair, 1, server)), (TcpState::TimeWait, TcpState::TimeWait));
}

/// As on Linux, where `shutdown` fails from TIME-WAIT on, but not while a FIN is unacknowledged.
#[test]
fn there_is_nothing_to_shut_from_time_wait_on() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let shut = |wire: &mut Wire| {
        let now = wire.now;
        let state = wire.stack().tcp_info(id, now).unwrap().state;
        ([Shutdown::Write, Shutdown::Read, Shutdown::Both].map(|how| wire.stack().tcp_shutdown(id, now, how)), state)
    };
    assert_eq!(shut(&mut wire), ([Ok(()); 3], TcpState::Established));
    wire.taken();
    wire.put(Seg::new(FIN | ACK, theirs, ours));
    assert_eq!(shut(&mut wire), ([Ok(()); 3], TcpState::Closing));
    wire.put(Seg::new(ACK, theirs + 1, ours + 1));
    assert_eq!(wire.state(id), Ok(TcpState::TimeWait));
    assert_eq!(shut(&mut wire), ([Err(StackError::NotConnected); 3], TcpState::TimeWait));
}

/// RFC 9293 §3.10.7.4: the peer's FIN arrives before it acknowledges ours, again, and alone.
#[test]
fn closing_waits_for_the_acknowledgement_of_our_fin() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_shutdown(id, now, Shutdown::Write).unwrap();
    assert!(wire.one().has(FIN | ACK));
    for _ in 0..2 {
        wire.put(Seg::new(FIN | ACK, theirs, ours));
        assert_eq!(wire.one().ack, theirs + 1);
        assert_eq!(wire.state(id), Ok(TcpState::Closing));
        wire.pass(Span::from_millis(2));
    }
    wire.pass(Span::from_secs(3));
    assert!(wire.taken().iter().all(|s| s.has(FIN | ACK) && s.seq == ours), "only our FIN comes again");
    wire.put(Seg::new(ACK, theirs + 1, ours + 1));
    assert_eq!(wire.state(id), Ok(TcpState::TimeWait));
    wire.nothing();
    wire.close(id);
    wire.pass(Span::from_secs(61));
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// RFC 9293 §3.10.4: data written before close arrives even over a lossy cable, although no process
/// holds the socket any more.
#[test]
fn close_delivers_what_was_written() {
    for seed in 0..10 {
        let mut pair = SimulatedPair::seeded(seed);
        let (client, server, _) = connected(&mut pair, 0);
        pair.link_mut(0).loss = 200_000;
        pair.link_mut(1).loss = 200_000;
        let data = pattern(200_000, 9);
        assert_eq!(send(&mut pair, 0, client, &data), Ok(data.len()));
        close(&mut pair, 0, client);
        assert_eq!(pair.stack(0).tcp_state(client), Err(StackError::Stale));
        let (got, ended) = read_to_end(&mut pair, 1, server, Span::from_secs(120));
        assert!(ended && got == data, "seed {seed}: {} bytes", got.len());
        close(&mut pair, 1, server);
        pair.run_for(Span::from_secs(200));
        assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    }
}

/// RFC 9293 §3.6.1: the stream reads to its end; a write reports the reset.
#[test]
fn a_stream_that_has_ended_reads_so_though_a_reset_follows() {
    let mut pair = SimulatedPair::seeded(3);
    let (client, server, _) = connected(&mut pair, 0);
    send(&mut pair, 0, client, b"all").unwrap();
    let now = pair.now();
    pair.stack(0).tcp_shutdown(client, now, Shutdown::Write).unwrap();
    pair.run_for(Span::from_millis(10));
    send(&mut pair, 1, server, b"answer").unwrap();
    pair.run_for(Span::from_millis(10));
    // The client has not read the answer.
    close(&mut pair, 0, client);
    pair.run_for(Span::from_millis(10));
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"all");
    assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"");
    assert!(pair.stack(1).readiness(server.into()).unwrap().contains(Ready::ERR));
    assert!(send(&mut pair, 1, server, b"more").is_err());
}

/// RFC 2525 §2.17.
#[test]
fn close_with_unread_data_resets() {
    let mut pair = SimulatedPair::seeded(3);
    let (client, server, _) = connected(&mut pair, 0);
    send(&mut pair, 0, client, b"never read").unwrap();
    pair.run_for(Span::from_millis(1));
    close(&mut pair, 1, server);
    pair.run_for(Span::from_millis(1));
    assert_eq!(recv(&mut pair, 0, client, 10), Err(StackError::Reset));
    assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
}

/// RFC 9293 §3.6.1, RFC 2525 §2.17.
#[test]
fn data_for_a_closed_program_is_answered_by_a_reset() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.close(id);
    assert_eq!(wire.one().bits, FIN | ACK);
    wire.put(Seg::new(ACK, theirs, ours + 1).data(b"too late"));
    assert!(wire.taken().last().unwrap().has(RST));
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// RFC 9293 §3.10.7.4, first and eighth check: a peer that missed our acknowledgement retransmits
/// its last data in one segment with its FIN. That is no unread data: the program has read it, and
/// the connection ends in order.
#[test]
fn rfc9293_3_10_7_4_old_data_beside_a_new_fin_does_not_reset() {
    for acknowledged in [false, true] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        wire.put(Seg::new(ACK, theirs, ours).data(b"last words"));
        assert_eq!(wire.recv(id).unwrap(), b"last words");
        wire.close(id);
        wire.taken();
        if acknowledged {
            wire.put(Seg::new(ACK, theirs + 10, ours + 1));
        }
        wire.put(Seg::new(FIN | ACK, theirs, ours + 1).data(b"last words"));
        let answer = wire.one();
        assert_eq!((answer.bits, answer.ack), (ACK, theirs + 11));
        assert_eq!(wire.count("TcpExtTW"), 1);
    }
}

/// RFC 9293 §3.10.5: `SO_LINGER` with a time of zero.
#[test]
fn a_lingering_close_without_time_resets() {
    let mut pair = SimulatedPair::seeded(4);
    let (client, server, _) = connected(&mut pair, 0);
    let now = pair.now();
    pair.stack(0).tcp_set(client, now, TcpSetting::Linger(Some(Span::ZERO))).unwrap();
    close(&mut pair, 0, client);
    pair.run_for(Span::from_millis(1));
    assert_eq!(recv(&mut pair, 1, server, 10), Err(StackError::Reset));
    assert_eq!(pair.frames_held(0), 0);
}

#[test]
fn data_before_a_reset_can_still_be_read() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK | PSH, theirs, ours).data(b"last words"));
    wire.put(Seg::new(RST, theirs + 10, 0));
    assert_eq!(wire.recv(id).unwrap(), b"last words");
    assert_eq!(wire.recv(id), Err(StackError::Reset));
    wire.close(id);
    assert_eq!(wire.held(), 0);
}

/// RFC 9293 §3.6.1 sets no limit; Linux has one.
#[test]
fn fin_wait_2_of_a_closed_program_ends_by_time() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.close(id);
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours + 1));
    wire.pass(Span::from_secs(59));
    assert!(wire.stack().deadline().is_some());
    wire.pass(Span::from_secs(2));
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// RFC 1337: a RST does not end TIME-WAIT, and a repeated FIN is acknowledged.
#[test]
fn time_wait_survives_a_reset_and_answers_a_repeated_fin() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.close(id);
    wire.taken();
    wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
    assert_eq!((wire.one().ack, wire.count("TcpExtTW")), (theirs + 1, 1));
    wire.pass(Span::from_secs(30));
    wire.put(Seg::new(RST, theirs + 1, 0));
    wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
    assert_eq!(wire.one().ack, theirs + 1);
    wire.pass(Span::from_secs(59)); // the FIN has started the time again
    assert!(wire.stack().deadline().is_some());
    wire.pass(Span::from_secs(2));
    assert_eq!(wire.stack().deadline(), None);
}

/// RFC 9293 §3.6.1: the duration of TIME-WAIT is independent of options set meanwhile.
#[test]
fn keepalive_does_not_change_the_end_of_time_wait() {
    for on in [false, true] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        let now = wire.now;
        wire.stack().tcp_shutdown(id, now, Shutdown::Write).unwrap();
        wire.taken();
        wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
        assert_eq!(wire.state(id), Ok(TcpState::TimeWait));
        wire.stack().tcp_set(id, now, TcpSetting::KeepAlive(on)).unwrap();
        wire.close(id);
        wire.pass(Span::from_secs(59));
        assert!(wire.stack().deadline().is_some());
        wire.pass(Span::from_secs(2));
        assert_eq!(wire.stack().deadline(), None);
        assert_eq!(wire.state(id), Err(StackError::Stale));
    }
}

/// RFC 9293 §3.10.7.4, eighth check: a FIN that overtakes data is held until the gap closes.
#[test]
fn fin_out_of_order_is_held_until_the_gap_closes() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(FIN | ACK, theirs + 3, ours).data(b"def"));
    assert_eq!(wire.one().ack, theirs);
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.put(Seg::new(ACK, theirs, ours).data(b"abc"));
    assert_eq!(wire.one().ack, theirs + 7);
    assert_eq!(wire.state(id), Ok(TcpState::CloseWait));
    assert_eq!(wire.recv(id).unwrap(), b"abcdef");
    assert_eq!(wire.recv(id).unwrap(), b"");
}

/// `TCP_USER_TIMEOUT` (RFC 5482): it expires exactly, not with the next retransmission, which may
/// be as far away again.
#[test]
fn the_user_timeout_ends_a_connection_that_gets_nothing_through() {
    for seconds in [1, 2, 3, 30, 100] {
        let mut pair = SimulatedPair::seeded(5);
        let (client, _, _) = connected(&mut pair, 0);
        let now = pair.now();
        pair.stack(0).tcp_set(client, now, TcpSetting::UserTimeout(Span::from_secs(seconds))).unwrap();
        pair.link_mut(0).loss = 1_000_000;
        send(&mut pair, 0, client, b"lost").unwrap();
        pair.run_for(Span::from_millis(1000 * seconds - 10));
        assert_eq!(state(&mut pair, 0, client), TcpState::Established, "{seconds} s");
        pair.run_for(Span::from_millis(20));
        assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::TimedOut), "{seconds} s");
    }
}

/// Without a user timeout, retransmissions are counted (RFC 9293 §3.8.3: at least 100 s).
#[test]
fn retransmissions_end_after_more_than_a_hundred_seconds() {
    let mut pair = SimulatedPair::seeded(6);
    let (client, _, _) = connected(&mut pair, 0);
    pair.link_mut(0).loss = 1_000_000;
    let start = pair.now();
    send(&mut pair, 0, client, b"lost").unwrap();
    let ended = pair.run_until(Span::from_secs(1000), |pair| state(pair, 0, client) == TcpState::Closed);
    assert!(ended);
    let took = pair.now().since(start);
    assert!((Span::from_secs(100)..Span::from_secs(600)).contains(&took), "{} s", took.as_millis() / 1000);
    close(&mut pair, 0, client);
    pair.run_for(Span::from_secs(1));
    assert_eq!(pair.frames_held(0), 0);
}

/// RFC 9293 §3.8.4.
#[test]
fn keepalive_finds_out_that_the_peer_is_gone() {
    let mut pair = SimulatedPair::seeded(7);
    let (client, _, _) = connected(&mut pair, 0);
    let now = pair.now();
    let mut stack = pair.stack(0);
    for setting in [
        TcpSetting::KeepIdle(Span::from_secs(10)),
        TcpSetting::KeepInterval(Span::from_secs(1)),
        TcpSetting::KeepCount(3),
        TcpSetting::KeepAlive(true),
    ] {
        stack.tcp_set(client, now, setting).unwrap();
    }
    pair.run_for(Span::from_secs(100));
    assert_eq!(state(&mut pair, 0, client), TcpState::Established);
    let probes = pair.stack(0).counters().tcp_keepalives.get();
    assert!((8..=10).contains(&probes), "one every ten seconds: {probes}");
    pair.link_mut(0).loss = 1_000_000;
    pair.run_for(Span::from_secs(14));
    assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::TimedOut));
}

/// RFC 9293 §3.8.4: the first probe follows the idle time, the others follow at the interval, and
/// after the last unanswered one a reset. Any answer, or a probe of the peer, restarts the idle
/// time.
#[test]
fn keepalive_keeps_to_its_times() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    for setting in [
        TcpSetting::KeepIdle(Span::from_secs(10)),
        TcpSetting::KeepInterval(Span::from_secs(2)),
        TcpSetting::KeepCount(3),
        TcpSetting::KeepAlive(true),
    ] {
        wire.stack().tcp_set(id, now, setting).unwrap();
    }
    let mut start = wire.now;
    let times = |wire: &mut Wire, start| {
        let sent = wire.taken_at().into_iter();
        sent.map(|(at, seg)| (at.since(start).as_millis(), seg.bits, seg.seq.wrapping_sub(ours))).collect::<Vec<_>>()
    };
    let probe = |ms| (ms, ACK, u32::MAX);
    wire.pass(Span::from_secs(13));
    assert_eq!(times(&mut wire, start), [probe(10_000), probe(12_000)]);
    wire.put(Seg::new(ACK, theirs, ours));
    start = wire.now;
    wire.pass(Span::from_secs(9));
    assert_eq!(times(&mut wire, start), []);
    wire.put(Seg::new(ACK, theirs.wrapping_sub(1), ours));
    wire.taken();
    start = wire.now;
    wire.pass(Span::from_millis(15_999));
    assert_eq!(times(&mut wire, start), [probe(10_000), probe(12_000), probe(14_000)]);
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.pass(Span::from_millis(1));
    assert_eq!(times(&mut wire, start), [(16_000, RST | ACK, 0)]);
    assert_eq!(wire.recv(id), Err(StackError::TimedOut));
}

/// RFC 9293 §3.8.3.
#[test]
fn an_orphan_whose_peer_is_gone_is_given_up() {
    let mut pair = SimulatedPair::seeded(8);
    let (client, _, _) = connected(&mut pair, 0);
    pair.link_mut(0).loss = 1_000_000;
    send(&mut pair, 0, client, &[1; 50_000]).unwrap();
    close(&mut pair, 0, client);
    pair.run_for(Span::from_secs(120));
    assert_eq!((pair.frames_held(0), pair.stack(0).deadline()), (0, None));
}

/// RFC 6429 §4: a peer that acknowledges but never opens its window cannot hold a closed
/// connection's memory for ever.
#[test]
fn an_orphan_before_a_shut_window_is_given_up() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    wire.send(id, &[1; 5_000]).unwrap();
    wire.close(id);
    for _ in 0..1_400 {
        wire.pass(Span::from_millis(500));
        wire.put(Seg::new(ACK, theirs, ours).window(0));
    }
    wire.taken();
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// RFC 9293 §3.10.7.4: a connection that replaces one in TIME-WAIT must not collide with that one's
/// old segments. The ISN clock is slower than a LAN, and a peer without timestamps cannot tell the
/// two connections apart.
#[test]
fn numbers_begin_beyond_those_of_the_connection_in_time_wait_that_is_replaced() {
    let mut wire = Wire::new();
    let (id, mut ours, theirs) = wire.accepted();
    for _ in 0..50 {
        wire.send(id, &[7; 2_000]).unwrap();
        assert_eq!(wire.taken().len(), 2);
        wire.pass(Span::from_micros(100));
        ours += 2_000;
        wire.put(Seg::new(ACK, theirs, ours));
    }
    wire.close(id);
    assert_eq!(wire.one().seq, ours);
    wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
    wire.taken();
    wire.put(Seg::new(SYN, theirs + 10, 0).options(&[2, 4, 3, 232]));
    let answer = wire.one();
    assert!(answer.has(SYN | ACK), "{answer:?}");
    assert_eq!(answer.ack, theirs + 11);
    let beyond = answer.seq.wrapping_sub(ours + 1);
    assert!((1..1 << 20).contains(&beyond), "{beyond}");
    wire.put(Seg::new(ACK, theirs + 11, answer.seq + 1).data(b"new"));
    assert_eq!(wire.one().ack, theirs + 14);
}

/// RFC 9293 §3.5.1: a device that has restarted, with low numbers and its fixed port, meets an old
/// connection in TIME-WAIT. It receives a challenge, answers with a RST, and its next SYN opens the
/// connection, as with Linux, instead of after a minute.
#[test]
fn rfc9293_3_5_1_a_peer_that_has_forgotten_a_connection_in_time_wait_opens_another() {
    for (forgotten, seq_off) in [(true, 0), (false, 0), (true, 1)] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let (id, ours, theirs) =
            wire.accepted_with(listener, Seg::new(SYN, 1_000_000, 0).options(&[2, 4, 3, 232, 4, 2, 1, 1]));
        wire.close(id);
        wire.taken();
        wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
        assert_eq!(wire.one().ack, theirs + 1);
        if forgotten {
            wire.put(Seg::new(SYN, 10, 0).options(&[2, 4, 3, 232]));
            let asked = wire.one();
            assert_eq!((asked.bits, asked.ack), (ACK, theirs + 1));
        }
        wire.put(Seg::new(RST, theirs + 1 + seq_off, 0));
        wire.nothing();
        wire.pass(Span::from_secs(1));
        wire.put(Seg::new(SYN, 10, 0).options(&[2, 4, 3, 232]));
        let answer = wire.one();
        assert_eq!(answer.has(SYN | ACK), forgotten && seq_off == 0, "{answer:?}");
    }
}

/// RFC 1337 §2, RFC 9293 §3.10.7.4: a SYN ends TIME-WAIT only if it opens another connection.
/// Otherwise any host could end it by a forged SYN with a high number. One with a low number would
/// do if the peer has forgotten the connection and answers the challenge with a RST.
#[test]
fn rfc1337_2_a_syn_without_a_listener_does_not_end_time_wait() {
    for ahead in [10, 0_u32.wrapping_sub(10)] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1_000_000, 0).options(&[2, 4, 3, 232]));
        let now = wire.now;
        wire.stack().tcp_close_listener(listener, now).unwrap();
        wire.close(id);
        wire.taken();
        let fin = Seg::new(FIN | ACK, theirs, ours + 1);
        wire.put(fin.clone());
        assert_eq!(wire.one().ack, theirs + 1);
        wire.put(Seg::new(SYN, theirs.wrapping_add(ahead), 0).options(&[2, 4, 3, 232]));
        let asked = wire.one();
        assert_eq!((asked.bits, asked.seq, asked.ack), (ACK, ours + 1, theirs + 1));
        wire.put(Seg::new(RST, theirs + 1, 0));
        wire.nothing();
        wire.put(fin);
        let answer = wire.one();
        assert_eq!((answer.bits, answer.ack), (ACK, theirs + 1), "it is still known");
        wire.pass(Span::from_secs(61));
        assert_eq!(wire.stack().deadline(), None, "and ends by time");
    }
}

/// RFC 5681 §2: the congestion window limits the data in flight. A FIN without data does not wait
/// for it.
#[test]
fn a_bare_fin_does_not_wait_for_the_congestion_window() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    let window = wire.stack().tcp_info(id, now).unwrap().cwnd;
    wire.send(id, &vec![1; window as usize]).unwrap();
    let sent: usize = wire.taken().iter().map(|s| s.data.len()).sum();
    assert_eq!(sent as u32, window, "the window is full");
    wire.stack().tcp_shutdown(id, now, Shutdown::Write).unwrap();
    let fin = wire.one();
    assert!(fin.has(FIN) && fin.data.is_empty());
    assert_eq!(fin.seq, ours + window);
    wire.put(Seg::new(ACK, theirs, ours + window + 1));
    assert_eq!(wire.state(id), Ok(TcpState::FinWait2));
}
