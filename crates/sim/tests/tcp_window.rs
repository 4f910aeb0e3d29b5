//! Windows, buffers, and when to send or to acknowledge.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::Pair;
use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::tcp::{Setting, State};
use tickwire_stack::time::Span;
use tickwire_stack::{Error, Ready, SetId};

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
        while wire.state(id) == Ok(State::Established) && probes.len() < 40 {
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
        assert_eq!(wire.state(id) == Ok(State::Established), answered);
        let took = probes.last().unwrap().since(probes[0]);
        assert!(took > Span::from_secs(100), "{} s", took.as_millis() / 1000);
        if !answered {
            assert_eq!(wire.send(id, b"x"), Err(Error::TimedOut));
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
    let mut pair = Pair::seeded(1);
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

/// RFC 9293 §3.7.4 with Minshall's variant, as on Linux.
#[test]
fn nagle_holds_a_second_small_segment_and_nodelay_does_not() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, b"one").unwrap();
    assert_eq!(wire.one().data, b"one");
    wire.send(id, b"two").unwrap();
    wire.send(id, b"three").unwrap();
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours + 3));
    assert_eq!(wire.one().data, b"twothree");
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::NoDelay(true)).unwrap();
    wire.send(id, b"four").unwrap();
    wire.send(id, b"five").unwrap();
    assert_eq!(wire.taken().iter().map(|s| s.data.clone()).collect::<Vec<_>>(), [b"four", b"five"]);
}

/// `TCP_CORK`, and `MSG_MORE`.
#[test]
fn a_cork_holds_incomplete_segments_for_two_hundred_milliseconds() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::Cork(true)).unwrap();
    wire.send(id, &[1; 1500]).unwrap();
    assert_eq!(wire.one().data.len(), 1000);
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    wire.pass(Span::from_millis(190));
    wire.nothing();
    wire.pass(Span::from_millis(12));
    assert_eq!(wire.one().data.len(), 500);
    wire.put(Seg::new(ACK, theirs, ours + 1500));
    wire.send(id, b"header").unwrap();
    wire.nothing();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::Cork(false)).unwrap();
    assert_eq!(wire.one().data, b"header");
    wire.put(Seg::new(ACK, theirs, ours + 1506));
    let now = wire.now;
    wire.stack().tcp_send(id, now, true, &mut &b"more"[..]).unwrap();
    wire.nothing();
    wire.send(id, b"!").unwrap();
    assert_eq!(wire.one().data, b"more!");
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

/// RFC 9293 §3.7.4 (Nagle's algorithm can be disabled), and Linux's tcp(7): `TCP_NODELAY` flushes
/// queued data, even if corked; the cork holds data written afterwards.
#[test]
fn nodelay_flushes_what_a_cork_or_more_holds() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::Cork(true)).unwrap();
    wire.send(id, b"corked").unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, Setting::NoDelay(true)).unwrap();
    assert_eq!(wire.one().data, b"corked");
    wire.send(id, b"later").unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, Setting::Cork(false)).unwrap();
    assert_eq!(wire.one().data, b"later");
    wire.put(Seg::new(ACK, theirs, ours + 11));
    let now = wire.now;
    wire.stack().tcp_send(id, now, true, &mut &b"more"[..]).unwrap();
    wire.nothing();
    wire.stack().tcp_set(id, now, Setting::NoDelay(true)).unwrap();
    assert_eq!(wire.one().data, b"more");
}

/// RFC 9293 §3.8.6.3: at once at the start, then for every second segment, and after the delay in
/// any case.
#[test]
fn acknowledgements_are_quick_at_first_and_then_delayed() {
    let mut wire = Wire::new();
    let (_, ours, mut theirs) = wire.accepted();
    let mut data = |wire: &mut Wire, len: usize| {
        wire.put(Seg::new(ACK, theirs, ours).data(&vec![7; len]));
        theirs += len as u32;
    };
    for _ in 0..16 {
        data(&mut wire, 1000);
        wire.one();
    }
    data(&mut wire, 1000);
    wire.nothing();
    data(&mut wire, 1000);
    wire.one();
    data(&mut wire, 100);
    wire.pass(Span::from_millis(1));
    wire.nothing();
    wire.pass(Span::from_millis(40));
    wire.one();
    assert_eq!(wire.count("TcpExtDelayedACKs"), 1);
}

/// RFC 9293 §3.8.6.3: like the kernel for segments merged by its GRO: one acknowledgement for all,
/// unless some are out of order.
#[test]
fn segments_that_came_together_are_acknowledged_together() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    // MSS 1000, and window scaling for windows beyond 64 KiB.
    let (id, ours, mut theirs) =
        wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232, 1, 3, 3, 7]));
    let together = |wire: &mut Wire, segments: &[u32]| {
        wire.stack().batch_begin();
        for &seq in segments {
            wire.put(Seg::new(ACK, seq, ours).data(&[7; 1000]));
        }
        let before = wire.taken();
        let now = wire.now;
        wire.stack().batch_end(now);
        (before.len(), wire.taken())
    };
    for segments in [1, 2, 10, 3] {
        let all: Vec<u32> = (0..segments).map(|n| theirs + 1000 * n).collect();
        theirs += 1000 * segments;
        let (before, after) = together(&mut wire, &all);
        assert_eq!((before, after.len()), (0, 1), "{segments} segments");
        assert_eq!(after[0].ack, theirs);
        assert_eq!(wire.recv(id).unwrap().len(), 1000 * segments as usize);
    }
    let (before, after) = together(&mut wire, &[theirs, theirs + 2000, theirs + 3000, theirs + 1000]);
    assert_eq!((before, after.len()), (3, 0), "what is out of order is told of at once, and the gap's end");
    theirs += 4000;
    wire.recv(id).unwrap();
    let many: Vec<u32> = (0..70).map(|n| theirs + 1000 * n).collect();
    let (before, after) = together(&mut wire, &many);
    assert_eq!((before, after.len()), (1, 1), "64 KiB do not wait");
    assert_eq!(after[0].ack, theirs + 70_000);
}

/// RFC 9293 §3.8.6.3: quick acknowledgements at the start are counted, not the segments that they
/// cover.
#[test]
fn quick_acknowledgements_are_counted_and_not_what_they_are_for() {
    let mut wire = Wire::new();
    let (_, ours, mut theirs) = wire.accepted();
    for acknowledgements in [[1; 16].as_slice(), &[0; 1]].concat() {
        wire.stack().batch_begin();
        for _ in 0..2 {
            wire.put(Seg::new(ACK, theirs, ours).data(&[7; 100]));
            theirs += 100;
        }
        let now = wire.now;
        wire.stack().batch_end(now);
        assert_eq!(wire.taken().len(), acknowledgements, "up to {theirs}");
    }
}

/// RFC 9293 §3.8.6.3: a response carries the acknowledgement; there is no second one.
#[test]
fn what_waits_to_be_acknowledged_goes_with_data() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.stack().batch_begin();
    for n in 0..2 {
        wire.put(Seg::new(ACK, theirs + 1000 * n, ours).data(&[7; 1000]));
    }
    wire.nothing();
    wire.send(id, b"answer").unwrap();
    assert_eq!(wire.one().ack, theirs + 2000);
    let now = wire.now;
    wire.stack().batch_end(now);
    wire.nothing();
}

/// RFC 9293 §3.8.6.3: with more connections than the batch holds, those in it are acknowledged
/// early, and none is forgotten.
#[test]
fn many_connections_are_acknowledged_in_one_batch() {
    let mut wire = Wire::new();
    let listener = wire.listen(32);
    let connections: Vec<u32> = (0..20)
        .map(|n| {
            wire.peer.port = 3000 + n;
            wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232])).1
        })
        .collect();
    wire.stack().batch_begin();
    for part in 0..2 {
        for (n, &ours) in (0..).zip(&connections) {
            wire.peer.port = 3000 + n;
            wire.put(Seg::new(ACK, 1001 + 1000 * part, ours).data(&[7; 1000]));
        }
    }
    let mut told = wire.taken();
    let now = wire.now;
    wire.stack().batch_end(now);
    told.append(&mut wire.taken());
    for ours in connections {
        let last = told.iter().rfind(|seg| seg.seq == ours);
        assert_eq!(last.map(|seg| seg.ack), Some(3001), "{told:?}");
    }
}

/// RFC 1122 §4.2.3.2: delayed by at most half a second, whatever the configuration, and never by
/// more than one full segment.
#[test]
fn acknowledgements_are_delayed_by_half_a_second_at_most() {
    let mut config = tickwire_stack::Config::default();
    (config.tcp.ack_delay, config.tcp.min_rto) = (Span::from_secs(3), Span::from_secs(3));
    let mut wire = Wire::with(config);
    let (id, ours, mut theirs) = wire.accepted();
    let delayed = |wire: &mut Wire| {
        let now = wire.now;
        wire.stack().tcp_set(id, now, Setting::QuickAck(false)).unwrap();
    };
    for len in [1, 10, 1000] {
        delayed(&mut wire);
        wire.put(Seg::new(ACK, theirs, ours).data(&vec![7; len]));
        theirs += len as u32;
        wire.pass(Span::from_millis(499));
        wire.nothing();
        wire.pass(Span::from_millis(1));
        assert_eq!(wire.one().ack, theirs, "{len} bytes");
    }
    delayed(&mut wire);
    for _ in 0..10 {
        for odd in [true, false] {
            wire.put(Seg::new(ACK, theirs, ours).data(&[7; 1000]));
            theirs += 1000;
            if odd { wire.nothing() } else { assert_eq!(wire.one().ack, theirs) }
        }
    }
}

/// RFC 9293 §3.8.6.3. A stream of messages in one direction: once no response has carried the
/// acknowledgement of one, the next are acknowledged at once, without a timer that wakes the
/// program for each. (Linux leaves its interactive mode at the same event.) A response makes the
/// exchange interactive again.
#[test]
fn what_is_not_answered_is_acknowledged_at_once() {
    let mut wire = Wire::new();
    let (id, ours, mut theirs) = wire.accepted();
    let message = |wire: &mut Wire, theirs: &mut u32| {
        wire.put(Seg::new(ACK, *theirs, ours).data(&[7; 100]));
        *theirs += 100;
    };
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::QuickAck(false)).unwrap();
    let mut delayed = 0;
    for _ in 0..170 {
        message(&mut wire, &mut theirs);
        let at_once = wire.taken().len();
        wire.pass(Span::from_millis(100));
        let later = wire.taken().len();
        assert_eq!(at_once + later, 1);
        delayed += later;
    }
    assert_eq!(delayed, 10, "of 170: after 16 at once it is tried again");
    message(&mut wire, &mut theirs);
    wire.taken();
    wire.send(id, b"an answer").unwrap();
    wire.taken();
    message(&mut wire, &mut theirs);
    wire.nothing();
}

/// RFC 9293 §3.8.6.3.
#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut pair = Pair::seeded(3);
    let (client, server, _) = connected(&mut pair, 0);
    for round in 0..200 {
        send(&mut pair, 0, client, &[1; 64]).unwrap();
        let (mut answered, mut done) = (false, false);
        while !done {
            let limit = pair.now() + Span::from_millis(1);
            pair.step(limit);
            if !answered && recv(&mut pair, 1, server, 64).is_ok() {
                answered = true;
                send(&mut pair, 1, server, &[2; 64]).unwrap();
            }
            done = recv(&mut pair, 0, client, 64).is_ok();
        }
        if round == 99 {
            pair.run_for(Span::from_millis(50));
        }
    }
    let sent = pair.link_stats(0).sent;
    assert!(sent < 240, "{sent} packets for 200 questions");
}

#[test]
fn quickack_acknowledges_at_once_until_it_is_switched_off() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::QuickAck(false)).unwrap();
    wire.put(Seg::new(ACK, theirs, ours).data(b"a"));
    wire.nothing();
    wire.stack().tcp_set(id, now, Setting::QuickAck(true)).unwrap();
    assert_eq!(wire.one().ack, theirs + 1);
    wire.put(Seg::new(ACK, theirs + 1, ours).data(b"b"));
    wire.one();
}

/// RFC 7323 §2.4: the right edge never moves left, whatever the program does.
#[test]
fn the_offered_window_never_shrinks() {
    let mut pair = Pair::seeded(4);
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
            pair.stack(1).tcp_set(server, now, Setting::ReceiveBuffer(bytes)).unwrap();
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

#[test]
fn a_send_buffer_that_was_set_is_kept_to() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::SendBuffer(20_000)).unwrap();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    assert_eq!(wire.send(id, &[1; 100_000]), Ok(20_000));
    assert_eq!(wire.send(id, &[1; 10]), Err(Error::WouldBlock));
    // Room for a single byte is not worth a wakeup.
    wire.put(Seg::new(ACK, theirs, ours).window(60_000));
    let sent: u32 = wire.taken().iter().map(|s| s.data.len() as u32).sum();
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    assert!(!wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
    wire.put(Seg::new(ACK, theirs, ours + sent));
    assert!(wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
}

/// What an epoll set reports about a connection that it watches for send room.
fn room_told(wire: &mut Wire, set: SetId) -> bool {
    wire.stack().set_wait(set, 1, |event| assert_eq!(event.ready, Ready::OUT)).unwrap() == 1
}

/// As on Linux, which notes the wish for room when the program learns that there is none, not only
/// when a send fails.
#[test]
fn room_is_told_also_when_all_was_taken_that_was_sent() {
    for mode in [false, true] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        let now = wire.now;
        wire.stack().tcp_set(id, now, Setting::SendBuffer(20_000)).unwrap();
        let set = wire.stack().set_create().unwrap();
        let interest = Interest { edge: mode, ..Interest::level(Ready::OUT) };
        wire.stack().item_add(set, id.into(), 0, interest, 0).unwrap();
        assert!(room_told(&mut wire, set));
        wire.put(Seg::new(ACK, theirs, ours).window(0));
        assert_eq!(wire.send(id, &[1; 15_000]), Ok(15_000));
        assert!(!room_told(&mut wire, set), "a quarter is little");
        wire.put(Seg::new(ACK, theirs, ours).window(60_000));
        let sent: u32 = wire.taken().iter().map(|s| s.data.len() as u32).sum();
        wire.put(Seg::new(ACK, theirs, ours + sent));
        assert!(room_told(&mut wire, set));
    }
}

/// `TCP_NOTSENT_LOWAT`: a program that decides late what it sends wants little data queued.
#[test]
fn little_is_kept_unsent_where_a_mark_is_set_and_room_is_told_as_it_goes_out() {
    const MARK: u32 = 10_000;
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, Setting::NotSentLowat(MARK)).unwrap();
    let set = wire.stack().set_create().unwrap();
    let interest = Interest { edge: true, ..Interest::level(Ready::OUT) };
    wire.stack().item_add(set, id.into(), 0, interest, 0).unwrap();
    assert!(room_told(&mut wire, set));
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    let queued = wire.send(id, &[1; 100_000]).unwrap() as u32;
    assert_eq!(queued, MARK);
    assert_eq!(wire.send(id, &[1; 10]), Err(Error::WouldBlock));
    assert!(!room_told(&mut wire, set));
    // Unsent data counts, not unacknowledged data.
    wire.put(Seg::new(ACK, theirs, ours).window(60_000));
    let sent = wire.taken().iter().map(|s| s.data.len() as u32).sum::<u32>();
    assert_eq!(sent, queued);
    assert!(room_told(&mut wire, set));
    wire.put(Seg::new(ACK, theirs, ours + sent).window(60_000));
    // One send continues while its own data leaves.
    let more = wire.send(id, &[1; 100_000]).unwrap() as u32;
    let out = wire.taken().iter().map(|s| s.data.len() as u32).sum::<u32>();
    assert!(out > 0 && (MARK..MARK + 1500).contains(&(more - out)), "{out} of {more}");
    assert!(!wire.stack().readiness(id.into()).unwrap().contains(Ready::OUT));
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
