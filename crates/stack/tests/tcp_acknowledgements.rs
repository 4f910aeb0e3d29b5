//! When data is acknowledged: at once, together, with a response, or after the delay.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;

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
    let mut config = tickwire_stack::StackConfig::default();
    (config.tcp.ack_delay, config.tcp.min_rto) = (Span::from_secs(3), Span::from_secs(3));
    let mut wire = Wire::with(config);
    let (id, ours, mut theirs) = wire.accepted();
    let delayed = |wire: &mut Wire| {
        let now = wire.now;
        wire.stack().tcp_set(id, now, TcpSetting::QuickAck(false)).unwrap();
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
    wire.stack().tcp_set(id, now, TcpSetting::QuickAck(false)).unwrap();
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
    let mut pair = SimulatedPair::seeded(3);
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
    wire.stack().tcp_set(id, now, TcpSetting::QuickAck(false)).unwrap();
    wire.put(Seg::new(ACK, theirs, ours).data(b"a"));
    wire.nothing();
    wire.stack().tcp_set(id, now, TcpSetting::QuickAck(true)).unwrap();
    assert_eq!(wire.one().ack, theirs + 1);
    wire.put(Seg::new(ACK, theirs + 1, ours).data(b"b"));
    wire.one();
}
