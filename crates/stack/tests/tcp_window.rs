//! The windows: what is offered, what is probed when it is shut, and what a receiver keeps.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackError};

/// RFC 9293 §3.8.6.1.
#[test]
fn a_zero_window_is_probed_until_it_opens() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    wire.send(id, &[1; 2000]).unwrap();
    wire.nothing();
    wire.pass(Span::from_secs(10));
    let probes = wire.taken();
    assert!((3..15).contains(&probes.len()), "{} probes", probes.len());
    assert!(probes.iter().all(|p| p.seq == ours.wrapping_sub(1) && p.data.is_empty()), "{probes:?}");
    // The peer is alive and keeps its window closed, which may last for ever (RFC 9293 §3.8.6.1).
    for _ in 0..100 {
        wire.pass(Span::from_secs(60));
        wire.put(Seg::new(ACK, theirs, ours).window(0));
    }
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours).window(5000));
    assert_eq!(wire.taken().iter().map(|s| s.data.len()).sum::<usize>(), 2000);
}

/// RFC 9293 §3.8.6.1: probes back off like retransmissions, to at least one per minute; if
/// unanswered they end the connection as those would.
#[test]
fn probes_of_a_shut_window_back_off_and_end_only_without_an_answer() {
    for answered in [true, false] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        let shut = || Seg::new(ACK, theirs, ours).window(0);
        wire.put(shut());
        wire.send(id, &[1; 2000]).unwrap();
        wire.nothing();
        let mut probes = vec![wire.now];
        while wire.state(id) == Ok(TcpState::Established) && probes.len() < 40 {
            let due = wire.stack().deadline().unwrap();
            wire.pass(due.since(wire.now));
            for (at, seg) in wire.taken_at() {
                if seg.bits == ACK {
                    probes.push(at);
                    if answered {
                        wire.put(shut());
                    }
                }
            }
        }
        let waits: Vec<_> = probes.windows(2).map(|w| w[1].since(w[0])).collect();
        assert!(waits.windows(2).all(|w| w[1] >= w[0] && w[1] <= w[0].times(2) + Span::from_millis(1)), "{waits:?}");
        assert!(waits.iter().all(|&wait| wait <= Span::from_secs(60)), "{waits:?}");
        assert_eq!(wire.state(id) == Ok(TcpState::Established), answered);
        let took = probes.last().unwrap().since(probes[0]);
        assert!(took > Span::from_secs(100), "{} s", took.as_millis() / 1000);
        if !answered {
            assert_eq!(wire.send(id, b"x"), Err(StackError::TimedOut));
        }
    }
}

/// RFC 9293 §3.8.6.1: the window opens, and the window update is lost: the next probe reveals it.
#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    wire.send(id, &[1; 2000]).unwrap();
    wire.pass(Span::from_millis(1_001));
    assert_eq!(wire.one().seq, ours.wrapping_sub(1));
    wire.put(Seg::new(ACK, theirs, ours).window(4_000));
    assert_eq!(wire.taken().iter().map(|s| s.data.len()).sum::<usize>(), 2000);
}

/// RFC 9293 §3.8.6.
#[test]
fn a_receiver_that_does_not_read_stops_the_sender_and_loses_nothing() {
    let mut pair = SimulatedPair::seeded(1);
    let (client, server, listener) = connected(&mut pair, 0);
    let data = pattern(3_000_000, 1);
    let mut sent = 0;
    pair.run_until(Span::from_secs(5), |pair| {
        while let Ok(n) = send(pair, 0, client, &data[sent..]) {
            sent += n;
            if sent == data.len() {
                break;
            }
        }
        false
    });
    assert!(sent < data.len());
    assert!(!pair.stack(0).readiness(client.into()).unwrap().contains(Ready::OUT));
    let mut flow = Flow::new((0, client), (1, server), 0);
    (flow.data, flow.sent) = (data, sent);
    transfer(&mut pair, &mut [flow], Span::from_secs(10));
    assert!(pair.stack(0).readiness(client.into()).unwrap().contains(Ready::OUT));
    assert_eq!(pair.stack(0).counters().tcp_retrans_segs.get(), 0);
    close_and_check(&mut pair, client, server, listener);
}

/// RFC 9293 §3.8.6.2.2, RFC 5681 §2: a read sends an acknowledgement only if it opens the window.
/// Without scaling, most of a large buffer never shows in the window, and an acknowledgement
/// without news would count as a duplicate.
#[test]
fn reading_repeats_no_window_that_cannot_grow() {
    let mut wire = Wire::new();
    let listener = wire.listen(1);
    let (id, ours, mut theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180]));
    for _ in 0..40 {
        wire.put(Seg::new(ACK, theirs, ours).data(&[1; 1000]));
        theirs += 1000;
        wire.pass(Span::from_millis(500));
        assert!(wire.one().window >= 0xffff - 2 * 1460);
        assert_eq!(wire.recv(id).unwrap().len(), 1000);
        wire.nothing();
    }
}

/// RFC 7323 §2.4: the right edge never moves left, whatever the program does.
#[test]
fn the_offered_window_never_shrinks() {
    let mut pair = SimulatedPair::seeded(4);
    let (client, server, _) = connected(&mut pair, 0);
    let mut flow = Flow::new((0, client), (1, server), 2_000_000);
    let mut edge = 0u32;
    let mut rng = tickwire_sim::Rng::new(1);
    for _ in 0..100_000 {
        if flow.done() {
            break;
        }
        pair.run_for(Span::from_micros(rng.below(40)));
        let pair = &mut pair;
        if rng.chance(100_000) {
            flow.pump(pair);
        }
        if rng.chance(1_000) {
            let (now, bytes) = (pair.now(), rng.below(500_000) as u32);
            pair.stack(1).tcp_set(server, now, TcpSetting::ReceiveBuffer(bytes)).unwrap();
        }
        let now = pair.now();
        let window = pair.stack(1).tcp_info(server, now).unwrap().receive_window;
        let next = pair.stack(1).socket_row(server.into()).unwrap().rcv_nxt.get();
        let new = next.wrapping_add(window);
        assert!(edge == 0 || (new.wrapping_sub(edge) as i32) >= 0);
        edge = new;
    }
    assert!(flow.got == flow.data, "{} bytes", flow.got.len());
}

#[test]
fn the_receive_buffer_grows_for_a_program_that_reads_fast() {
    let link = tickwire_sim::LinkConfig { delay: Span::from_millis(5), ..Default::default() };
    let mut pair = pair_with(5, link);
    let (client, server, _) = connected(&mut pair, 0);
    let now = pair.now();
    let before = pair.stack(1).tcp_info(server, now).unwrap().receive_buffer;
    transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 20_000_000)], Span::from_secs(20));
    let now = pair.now();
    let after = pair.stack(1).tcp_info(server, now).unwrap().receive_buffer;
    assert!(after > 2 * before, "{before} -> {after}");
}

/// RFC 2018 §4: single bytes out of order in 100 separate blocks: bounded, and reassembled.
#[test]
fn a_hundred_separate_runs_are_kept() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    for n in (0..100).rev() {
        wire.put(Seg::new(ACK, theirs + 2 * n + 1, ours).data(&[n as u8]));
        let ack = wire.one();
        assert_eq!(ack.ack, theirs);
        assert_eq!(ack.blocks()[0], (theirs + 2 * n + 1, theirs + 2 * n + 2), "the latest run comes first");
    }
    for n in 0..100 {
        wire.put(Seg::new(ACK, theirs + 2 * n, ours).data(&[100 + n as u8]));
    }
    let expected: Vec<u8> = (0..100).flat_map(|n| [100 + n, n]).collect();
    assert_eq!(wire.recv(id).unwrap(), expected);
    wire.close(id);
}

/// RFC 2883.
#[test]
fn a_duplicate_is_reported() {
    let mut wire = Wire::new();
    let (_, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).data(b"abcdef"));
    wire.taken();
    wire.put(Seg::new(ACK, theirs + 2, ours).data(b"cd"));
    let ack = wire.one();
    assert_eq!((ack.ack, ack.blocks()), (theirs + 6, vec![(theirs + 2, theirs + 4)]));
}

/// A flood of tiny segments that is not read holds no more memory than the receive buffer's size.
#[test]
fn tiny_segments_do_not_hold_a_frame_each() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    for n in 0..5_000 {
        wire.put(Seg::new(ACK, theirs + n, ours).data(&[n as u8]));
    }
    wire.taken();
    assert!(wire.held() < 10, "{} frames", wire.held());
    assert_eq!(wire.recv(id).unwrap(), (0..5_000).map(|n| n as u8).collect::<Vec<_>>());
}

/// A segment larger than a frame (jumbo MTU, or merged by a virtual device) arrives in several.
#[test]
fn a_segment_in_several_frames_is_taken_whole() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let data = pattern(8_000, 5);
    wire.put(Seg::new(ACK, theirs + 4_001, ours).data(&data[4_001..]));
    assert_eq!(wire.one().blocks(), [(theirs + 4_001, theirs + 8_000)]);
    wire.put(Seg::new(ACK, theirs, ours).data(&data[..4_001]));
    assert_eq!(wire.one().ack, theirs + 8_000);
    assert!(wire.recv(id).unwrap() == data);
    assert_eq!(wire.held(), 0);
}
