//! Loss recovery: by which algorithm, how fast, and its effect on the congestion window.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::{LinkConfig, SimulatedPair};
use tickwire_stack::TcpId;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;

/// An accepted connection with SACK, MSS 1000, no Nagle, and a measured round trip of 1 ms.
fn measured(wire: &mut Wire) -> (TcpId, u32, u32) {
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    wire.send(id, b"x").unwrap();
    wire.one();
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 1));
    wire.nothing();
    (id, ours + 1, theirs)
}

/// RFC 2018, RFC 6675: SACKed data is not retransmitted; a segment below three SACKed ones is, at
/// once.
#[test]
fn sack_shows_what_is_lost_and_only_that_is_sent_again() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(10_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 2000, ours + 3000)]));
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 2000, ours + 4000)]));
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 2000, ours + 5000)]));
    let again = wire.one();
    assert_eq!((again.seq, again.data.len()), (ours + 1000, 1000));
    // The next hole.
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 6000, ours + 9000), (ours + 2000, ours + 5000)]));
    assert_eq!(wire.one().seq, ours + 5000);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 10_000));
    wire.nothing();
    assert_eq!(wire.count("TcpRetransSegs"), 2);
    assert_eq!(wire.count("TcpExtTCPTimeouts"), 0);
}

/// RFC 6298 §3 (Karn): acknowledgements are lost for a second. The next one answers a
/// retransmission, so it yields no round-trip sample. Otherwise the next loss would be repaired a
/// quarter of a second late.
#[test]
fn no_round_trip_is_measured_across_a_retransmission() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(5000, 1)).unwrap();
    wire.pass(Span::from_secs(1));
    assert!(wire.taken().len() > 6, "the first was sent again and again");
    wire.put(Seg::new(ACK, theirs, ours + 5000));
    wire.nothing();
    let now = wire.now;
    let srtt = wire.stack().tcp_info(id, now).unwrap().srtt;
    assert!(srtt < Span::from_millis(2), "{srtt:?}");
}

/// RFC 5681 §3.1: after a timeout the window grows by data acknowledged since, not by data that was
/// SACKed before. That would be a burst into the queue that has just overflowed.
#[test]
fn after_a_timeout_the_window_opens_segment_by_segment() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(10_000, 1)).unwrap();
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 6000, ours + 10_000), (ours + 1000, ours + 5000)]));
    wire.pass(Span::from_millis(100));
    assert!(wire.count("TcpExtTCPTimeouts") > 0, "what was sent again was lost, too");
    wire.put(Seg::new(ACK, theirs, ours + 5000).sack(&[(ours + 6000, ours + 10_000)]));
    let now = wire.now;
    let cwnd = wire.stack().tcp_info(id, now).unwrap().cwnd;
    assert!((1000..=2000).contains(&cwnd), "{cwnd}");
}

/// RFC 8985 §7.4.2: a duplicate acknowledgement of the probe shows that nothing was lost, also if
/// nothing else is in flight, and from a peer without DSACK.
#[test]
fn a_needless_probe_costs_no_window() {
    let mut wire = Wire::new();
    let (id, mut ours, theirs) = wire.accepted();
    let mut exchange = |wire: &mut Wire, delay: Span, acknowledgements: usize| {
        wire.send(id, &[1; 100]).unwrap();
        wire.pass(delay);
        ours += 100;
        for _ in 0..acknowledgements {
            wire.put(Seg::new(ACK, theirs, ours));
        }
        wire.taken().len()
    };
    assert_eq!(exchange(&mut wire, Span::from_millis(1), 1), 1);
    assert_eq!(exchange(&mut wire, Span::from_millis(6), 2), 2, "the segment and the probe");
    assert_eq!(wire.count("TcpExtTCPLossProbes"), 1);
    assert_eq!(exchange(&mut wire, Span::from_millis(1), 1), 1);
    assert_eq!(wire.count("TcpExtTCPLossProbeRecovery"), 0);
}

/// RFC 8985 §7: a tail loss is found by a probe, not by a timeout.
#[test]
fn a_tail_loss_is_repaired_by_a_probe() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(3_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 3);
    let sent_at = wire.now;
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    wire.pass(Span::from_millis(20));
    let (at, probe) = wire.taken_at().remove(0);
    assert_eq!(probe.seq, ours + 2000, "the last segment is the probe");
    assert!(at.since(sent_at) <= Span::from_millis(6));
    assert_eq!(wire.count("TcpExtTCPLossProbes"), 1);
    // SACK of the probe shows the hole before it: RACK repairs that at once.
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(3_000, 1)).unwrap();
    wire.taken();
    wire.pass(Span::from_millis(6));
    assert_eq!(wire.one().seq, ours + 2000);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 2000, ours + 3000)]));
    wire.pass(Span::from_millis(1));
    assert_eq!(wire.one().seq, ours, "one arrived, one is sent");
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 2000, ours + 3000)]));
    assert_eq!(wire.one().seq, ours + 1000);
    assert_eq!(wire.count("TcpExtTCPTimeouts"), 0);
}

/// RFC 6298: no acknowledgement arrives; the timeout doubles.
#[test]
fn the_timeout_doubles_while_nothing_answers() {
    let mut wire = Wire::new();
    let (id, ours, _) = measured(&mut wire);
    wire.send(id, b"lost").unwrap();
    wire.taken();
    wire.pass(Span::from_secs(1));
    let times: Vec<_> =
        wire.taken_at().into_iter().inspect(|(_, s)| assert_eq!(s.seq, ours)).map(|(at, _)| at).collect();
    let gaps: Vec<_> = times.windows(2).map(|w| w[1].since(w[0]).as_millis()).collect();
    assert_eq!(gaps, [6, 12, 24, 48, 96, 192, 384]);
}

/// RFC 5681 §3.1: after a timeout the window is one segment, and grows again by slow start.
#[test]
fn a_timeout_closes_the_window_to_one_segment() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(10_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    wire.pass(Span::from_millis(12)); // probe, then timeout
    let again: Vec<_> = wire.taken().iter().map(|s| s.seq).collect();
    assert_eq!(again, [ours + 9000, ours]);
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    let next: Vec<_> = wire.taken().iter().map(|s| s.seq).collect();
    assert_eq!(next, [ours + 1000, ours + 2000]);
}

/// RFC 6582: a peer without SACK.
#[test]
fn three_duplicate_acknowledgements_repair_a_loss_without_sack() {
    let mut wire = Wire::new();
    let listener = wire.listen(4);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    wire.send(id, &pattern(10_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    for _ in 0..2 {
        wire.put(Seg::new(ACK, theirs, ours));
        wire.nothing();
    }
    wire.put(Seg::new(ACK, theirs, ours));
    assert_eq!(wire.one().seq, ours);
    // A partial acknowledgement shows the next loss.
    wire.put(Seg::new(ACK, theirs, ours + 4000));
    assert_eq!(wire.taken()[0].seq, ours + 4000);
    wire.put(Seg::new(ACK, theirs, ours + 10_000));
    assert_eq!(wire.count("TcpRetransSegs"), 2);
}

/// RFC 9937 §6.2 (PRR): half a window is lost at once. Until a retransmission is acknowledged no
/// more is sent than is delivered: the queue has just overflowed.
#[test]
fn rfc9937_6_2_no_more_is_sent_than_arrives_until_repairs_arrive() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(30_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    wire.pass(Span::from_millis(1));
    let mut sent = Vec::new();
    for n in 6..=10 {
        wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 5000, ours + n * 1000)]));
        sent.push(wire.taken().len());
    }
    assert_eq!(sent[2..], [1, 1, 1], "{sent:?}");
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 5000, ours + 10_000)]));
    assert_eq!(wire.taken().iter().map(|s| s.seq - ours).collect::<Vec<_>>(), [3000, 4000]);
}

/// RFC 6582 §3.2, step 3: a partial acknowledgement shows the next loss, which is retransmitted at
/// once. Segments counted by duplicate acknowledgements stay out of the bytes in flight afterwards.
#[test]
fn rfc6582_3_2_a_partial_acknowledgement_sends_the_next_loss_at_once() {
    let mut wire = Wire::new();
    let listener = wire.listen(4);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    wire.send(id, &pattern(30_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    // The first and the sixth are lost.
    let mut sent = Vec::new();
    for _ in 0..8 {
        wire.put(Seg::new(ACK, theirs, ours));
        sent.extend(wire.taken().iter().map(|s| s.seq - ours));
    }
    assert_eq!(sent[..3], [10_000, 11_000, 0], "new ones for the first two (RFC 3042)");
    assert!(sent.len() <= 8 && sent[3..].iter().all(|&seq| seq >= 12_000), "{sent:?}");
    wire.put(Seg::new(ACK, theirs, ours + 5000));
    let next: Vec<_> = wire.taken().iter().map(|s| s.seq - ours).collect();
    assert!(next.first() == Some(&5000) && next.len() <= 2, "{next:?}");
}

/// RFC 8985: once reordering has been seen, RACK waits a quarter of the round trip for late
/// segments.
#[test]
fn reordering_alone_soon_causes_no_retransmission() {
    let link = LinkConfig {
        delay: Span::from_micros(500),
        reorder: 20_000,
        reorder_by: Span::from_micros(100),
        rate: 1_000_000_000,
        ..LinkConfig::default()
    };
    let mut pair = pair_with(1, link);
    let (client, server, _) = connected(&mut pair, 0);
    transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 4_000_000)], Span::from_secs(60));
    let again = pair.stack(0).counters().tcp_retrans_segs.get();
    assert!(again < 20, "{again} of about 2760 segments were sent again");
    assert_eq!(pair.stack(0).counters().tcp_timeouts.get(), 0);
}

/// RFC 2018 §8: a peer that discards SACKed data (reneging).
#[test]
fn a_peer_that_reneges_still_gets_everything() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(4_000, 1)).unwrap();
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 1000, ours + 4000)]));
    wire.pass(Span::from_millis(1));
    wire.taken();
    // The hole is filled, but the SACKed data is not acknowledged: it was discarded.
    wire.put(Seg::new(ACK, theirs, ours + 1000));
    wire.pass(Span::from_millis(100));
    let again: Vec<_> = wire.taken().iter().map(|s| s.seq).collect();
    assert_eq!(again.first(), Some(&(ours + 1000)), "{again:?}");
    for n in 2..=4 {
        wire.put(Seg::new(ACK, theirs, ours + n * 1000));
    }
    let now = wire.now;
    assert_eq!(wire.stack().tcp_info(id, now).unwrap().outstanding, 0);
    assert_eq!(wire.held(), 0);
}

/// RFC 3522: the echo of an old timestamp shows that the timeout was spurious, and the window is
/// restored.
#[test]
fn a_needless_timeout_is_taken_back() {
    let mut wire = Wire::new();
    let listener = wire.listen(4);
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232, 4, 2, 1, 1]).timestamps(5, 0);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    wire.pass(Span::from_millis(10));
    wire.send(id, &pattern(9_000, 1)).unwrap();
    let first = wire.taken();
    let stamp = first[0].times().unwrap().0;
    let now = wire.now;
    let before = wire.stack().tcp_info(id, now).unwrap().cwnd;
    wire.pass(Span::from_millis(1_200)); // the first timeout is after one second
    let now = wire.now;
    assert!(wire.stack().tcp_info(id, now).unwrap().cwnd < before);
    wire.put(Seg::new(ACK, theirs, ours + first[0].data.len() as u32).timestamps(6, stamp));
    let now = wire.now;
    assert!(wire.stack().tcp_info(id, now).unwrap().cwnd >= before);
    assert_eq!(wire.count("TcpExtTCPSpuriousRTOs"), 1);
}

/// RFC 6298 §5: the cable is down for a while and comes back.
#[test]
fn a_blackout_is_survived() {
    for (seed, dark) in [10, 100, 1_000, 10_000].into_iter().enumerate() {
        let mut pair = SimulatedPair::seeded(seed as u64);
        let (client, server, listener) = connected(&mut pair, seed & 1);
        let mut flows = [Flow::new((0, client), (1, server), 8_000_000), Flow::new((1, server), (0, client), 300_000)];
        pair.link_mut(0).rate = 1_000_000_000;
        pair.run_until(Span::from_millis(5), |pair| {
            flows.iter_mut().for_each(|f| f.pump(pair));
            false
        });
        assert!(!flows[0].done());
        for from in 0..2 {
            pair.link_mut(from).loss = 1_000_000;
        }
        pair.run_until(Span::from_millis(dark), |pair| {
            flows.iter_mut().for_each(|f| f.pump(pair));
            false
        });
        for from in 0..2 {
            pair.link_mut(from).loss = 0;
        }
        let took = transfer(&mut pair, &mut flows, Span::from_secs(60));
        let limit = Span::from_millis(2 * dark + 500);
        assert!(took < limit, "{} ms after {dark} ms of darkness", took.as_millis());
        close_and_check(&mut pair, client, server, listener);
    }
}

/// RFC 8985 §7: one lost message in a ping-pong costs about the minimum timeout, not 200 ms.
#[test]
fn a_lost_message_costs_milliseconds() {
    let mut pair = SimulatedPair::seeded(3);
    let (client, server, _) = connected(&mut pair, 0);
    let mut worst = Span::ZERO;
    for round in 0..1_000 {
        if round > 100 {
            (0..2).for_each(|from| pair.link_mut(from).loss = 10_000);
        }
        let start = pair.now();
        send(&mut pair, 0, client, &[1; 64]).unwrap();
        let mut answered = false;
        let done = pair.run_until(Span::from_secs(1), |pair| {
            if !answered && recv(pair, 1, server, 64).is_ok() {
                answered = true;
                send(pair, 1, server, &[2; 64]).unwrap();
            }
            recv(pair, 0, client, 64).is_ok()
        });
        assert!(done);
        worst = worst.max(pair.now().since(start));
    }
    assert!(pair.stack(0).counters().tcp_retrans_segs.get() > 0);
    assert!(worst < Span::from_millis(35), "the worst round trip took {} us", worst.as_micros());
}

/// RFC 9438 §4, RFC 5681 §3.1: CUBIC keeps a bottleneck with a short queue busy.
#[test]
fn a_bottleneck_is_kept_busy() {
    for name in ["cubic", "reno"] {
        let link =
            LinkConfig { delay: Span::from_micros(200), rate: 100_000_000, queue: 30_000, ..LinkConfig::default() };
        let mut pair = pair_with(4, link);
        let (client, server, _) = connected(&mut pair, 0);
        let algorithm = tickwire_stack::tcp::Algorithm::from_name(name).unwrap();
        let now = pair.now();
        pair.stack(0).tcp_set(client, now, TcpSetting::Algorithm(algorithm)).unwrap();
        let took = transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 10_000_000)], Span::from_secs(60));
        let ideal = 800_000; // microseconds: ten megabytes at 100 Mbit/s
        assert!(took.as_micros() < ideal * 11 / 10, "{name}: {} of {ideal} us", took.as_micros());
        assert_eq!(state(&mut pair, 0, client), TcpState::Established);
    }
}

/// A program that did not run for a while finds its timers late and the acknowledgements in its
/// receive ring. It must not treat its own pause as a loss.
#[test]
fn a_late_timer_is_not_taken_for_a_loss() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(5_000, 1)).unwrap();
    wire.taken();
    wire.now += Span::from_millis(50);
    wire.pass(Span::ZERO);
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours + 5_000));
    assert_eq!((wire.count("TcpRetransSegs"), wire.count("TcpExtTCPTimeouts")), (0, 0));
    // The grace is given once; a real loss is repaired.
    wire.send(id, &pattern(5_000, 1)).unwrap();
    wire.taken();
    wire.now += Span::from_millis(50);
    wire.pass(Span::from_millis(200));
    assert!(wire.taken().iter().any(|s| s.seq == ours + 5_000));
}

/// The grace for such a program is one round trip, however often the timeout has doubled: the cable
/// may have come back long ago.
#[test]
fn a_late_timer_does_not_double_the_silence() {
    let mut wire = Wire::new();
    let (id, ours, _) = measured(&mut wire);
    wire.send(id, &pattern(5_000, 1)).unwrap();
    wire.pass(Span::from_millis(700));
    let timeouts = wire.count("TcpExtTCPTimeouts");
    assert!(timeouts >= 6, "{timeouts} timeouts, the last some 300 ms ago");
    wire.taken();
    wire.now += Span::from_millis(700);
    wire.pass(Span::ZERO);
    wire.nothing();
    wire.pass(Span::from_millis(10));
    assert_eq!(wire.one().seq, ours);
    assert_eq!(wire.count("TcpExtTCPTimeouts"), timeouts + 1);
}

/// A late probe (RFC 8985 §7) may precede the timeout by far, because that stays doubled until a
/// round trip is measured (RFC 6298 §5). New data must not inherit the silence of the previous
/// outage: its user timeout (RFC 5482) begins with its transmission.
#[test]
fn a_late_probe_does_not_count_an_outage_before_it() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::UserTimeout(Span::from_secs(6))).unwrap();
    wire.send(id, &pattern(1_000, 1)).unwrap();
    wire.pass(Span::from_millis(5_300));
    assert!(wire.taken().iter().all(|seg| seg.seq == ours));
    wire.put(Seg::new(ACK, theirs, ours + 1_000));
    wire.send(id, &pattern(1_000, 2)).unwrap();
    assert_eq!(wire.one().seq, ours + 1_000);
    wire.now += Span::from_millis(50);
    wire.pass(Span::from_secs(5));
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.pass(Span::from_secs(5));
    assert_eq!(wire.state(id), Ok(TcpState::Closed));
}

/// RFC 8985 §8: the reordering timer continues, also if the acknowledgement that started it
/// releases new data.
#[test]
fn new_data_does_not_stop_the_wait_for_reordered_segments() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(30_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 10);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 1000).sack(&[(ours + 2000, ours + 3000)]));
    let new = wire.taken();
    assert!(!new.is_empty() && new.iter().all(|s| s.seq >= ours + 10_000), "{new:?}");
    wire.pass(Span::from_micros(251)); // a quarter of the round trip
    assert_eq!(wire.taken().iter().map(|s| s.seq).collect::<Vec<_>>(), [ours + 1000]);
}

/// RFC 8985 §6.2, step 3: the order in which the blocks of one acknowledgement arrived is unknown,
/// so the newest block, which comes first, shows no reordering. A segment below three that have
/// arrived is still retransmitted at once.
#[test]
fn blocks_of_one_acknowledgement_show_no_reordering() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = measured(&mut wire);
    wire.send(id, &pattern(4_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 4);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 3000, ours + 4000), (ours + 1000, ours + 2000)]));
    wire.pass(Span::from_micros(251)); // a quarter of the round trip: so far there are fewer than three
    assert_eq!(wire.one().seq, ours);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 2000).sack(&[(ours + 3000, ours + 4000)]));
    assert_eq!(wire.one().seq, ours + 2000);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 4000));
    let ours = ours + 4000;
    wire.send(id, &pattern(4_000, 1)).unwrap();
    assert_eq!(wire.taken().len(), 4);
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours).sack(&[(ours + 1000, ours + 4000)]));
    assert_eq!(wire.one().seq, ours);
}

/// Requests and responses, one at a time. `delay` is the extra delay of each request.
fn ask(pair: &mut SimulatedPair, ends: (TcpId, TcpId), questions: u32, delay: impl Fn(u32) -> Span) {
    let usual = pair.link_mut(0).delay;
    for n in 0..questions {
        pair.link_mut(0).delay = usual + delay(n);
        send(pair, 0, ends.0, &[1; 64]).unwrap();
        assert!(pair.run_until(Span::from_secs(1), |pair| recv(pair, 1, ends.1, 64).is_ok()));
        send(pair, 1, ends.1, &[2; 64]).unwrap();
        assert!(pair.run_until(Span::from_secs(1), |pair| recv(pair, 0, ends.0, 64).is_ok()));
    }
    pair.link_mut(0).delay = usual;
}

/// RFC 8985 §7.2: a peer that pauses for a scheduler tick (4 ms), or delays its acknowledgement,
/// has lost nothing.
#[test]
fn a_peer_that_takes_breaks_is_not_probed() {
    for micros in [10, 600, 1_500] {
        let mut pair = pair_with(1, LinkConfig { delay: Span::from_micros(micros), ..LinkConfig::default() });
        let (client, server, _) = connected(&mut pair, 0);
        ask(&mut pair, (client, server), 100, |_| Span::ZERO);
        ask(&mut pair, (client, server), 1_000, |n| Span::from_millis(if n % 50 == 49 { 4 } else { 0 }));
        // Nor has a peer that reads requests and answers none of them at once.
        for _ in 0..100 {
            send(&mut pair, 0, client, &[1; 64]).unwrap();
            pair.run_for(Span::from_millis(30));
            recv(&mut pair, 1, server, 64).unwrap();
        }
        let stack = pair.stack(0);
        let counters = stack.counters();
        assert_eq!((counters.tcp_loss_probes.get(), counters.tcp_retrans_segs.get()), (0, 0), "{micros} us each way");
    }
}

/// RFC 8985 §7.2. The very last message is lost: a probe retransmits it after two smoothed round
/// trips and at most 5 ms. That time restarts when the data before it is acknowledged (within 3.75
/// ms).
#[test]
fn a_lost_last_message_comes_two_round_trips_and_five_milliseconds_later() {
    for micros in [10, 100, 1_000, 10_000] {
        for messages in [1, 3] {
            let mut pair = pair_with(2, LinkConfig { delay: Span::from_micros(micros), ..LinkConfig::default() });
            let (client, server, _) = connected(&mut pair, 0);
            let now = pair.now();
            pair.stack(0).tcp_set(client, now, TcpSetting::NoDelay(true)).unwrap();
            ask(&mut pair, (client, server), 200, |_| Span::ZERO);
            pair.run_for(Span::from_millis(100));
            let start = pair.now();
            for n in 1..=messages {
                pair.link_mut(0).loss = if n == messages { 1_000_000 } else { 0 };
                send(&mut pair, 0, client, &[1; 64]).unwrap();
                pair.flush();
            }
            pair.link_mut(0).loss = 0;
            let mut got = 0;
            let all = pair.run_until(Span::from_secs(1), |pair| {
                got += recv(pair, 1, server, 1000).map_or(0, |bytes| bytes.len());
                got == 64 * messages
            });
            let took = pair.now().since(start);
            let stack = pair.stack(0);
            let counters = stack.counters();
            assert_eq!((all, counters.tcp_timeouts.get(), counters.tcp_retrans_segs.get()), (true, 0, 1));
            let now = pair.now();
            let srtt = pair.stack(0).tcp_info(client, now).unwrap().srtt;
            let ack_delay = Span::from_micros(if messages > 1 { 3_750 + 2 * micros } else { 0 });
            let limit = srtt.times(2) + Span::from_millis(5) + ack_delay + Span::from_micros(micros + 10);
            assert!(took <= limit, "{} us, {} us each way", took.as_micros(), micros);
        }
    }
}

/// RFC 3708: only retransmissions of this recovery tell whether it was spurious.
#[test]
fn a_duplicate_of_an_earlier_probe_does_not_undo_a_later_recovery() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let ack = |ours: u32| Seg::new(ACK, theirs, ours);
    wire.send(id, &[1; 1000]).unwrap();
    wire.one();
    wire.pass(Span::from_millis(1));
    wire.put(ack(ours + 1000));
    // The acknowledgement of this segment is late: a probe repeats it.
    wire.send(id, &[2; 1000]).unwrap();
    wire.pass(Span::from_millis(9));
    assert_eq!(wire.taken().len(), 2, "the segment and the probe");
    wire.put(ack(ours + 2000));
    let now = wire.now;
    let before = wire.stack().tcp_info(id, now).unwrap().cwnd;
    wire.send(id, &[3; 5000]).unwrap();
    assert_eq!(wire.taken().len(), 5);
    wire.pass(Span::from_millis(1));
    wire.put(ack(ours + 2000).sack(&[(ours + 3000, ours + 7000)]));
    assert_eq!(wire.one().seq, ours + 2000, "the first of the five was lost");
    wire.put(ack(ours + 2000).sack(&[(ours + 1000, ours + 2000), (ours + 3000, ours + 7000)]));
    wire.pass(Span::from_millis(1));
    wire.put(ack(ours + 7000));
    let now = wire.now;
    let after = wire.stack().tcp_info(id, now).unwrap().cwnd;
    assert!(after < before, "{after} after a loss, {before} before");
}
