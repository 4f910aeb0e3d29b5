//! TCP transfers data over cables with any faults.

mod tcp_support;

use tcp_support::*;
use tickwire_sim::{Burst, LinkConfig, SimulatedPair};
use tickwire_stack::tcp::TcpState;
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, StackError};

/// RFC 9293 §3.5 and §3.6: three-way handshake, a few bytes both ways, an orderly close.
#[test]
fn a_connection_opens_carries_bytes_and_closes() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let (client, server, listener) = connected(&mut pair, family);
        assert_eq!(send(&mut pair, 0, client, b"question"), Ok(8));
        pair.run_for(Span::from_millis(1));
        assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"question");
        assert_eq!(recv(&mut pair, 1, server, 100), Err(StackError::WouldBlock));
        assert_eq!(send(&mut pair, 1, server, b"answer"), Ok(6));
        pair.run_for(Span::from_millis(1));
        assert_eq!(recv(&mut pair, 0, client, 100).unwrap(), b"answer");
        assert_eq!(state(&mut pair, 0, client), TcpState::Established);
        close(&mut pair, 0, client);
        pair.run_for(Span::from_millis(1));
        assert_eq!(state(&mut pair, 1, server), TcpState::CloseWait);
        assert_eq!(recv(&mut pair, 1, server, 100).unwrap(), b"");
        close(&mut pair, 1, server);
        let now = pair.now();
        pair.stack(1).tcp_close_listener(listener, now).unwrap();
        pair.run_for(Span::from_secs(70));
        for host in 0..2 {
            assert_eq!(pair.frames_held(host), 0);
            assert_eq!(pair.stack(host).in_use(), InUse::default());
            assert!(pair.stack(host).deadline().is_none());
        }
    }
}

/// Segments sent together leave as one train, so none of them is sent by itself first.
#[test]
fn several_segments_at_once_are_a_stream_and_few_are_not() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(3);
        let (client, server, _listener) = connected(&mut pair, family);
        let now = pair.now();
        let mss = pair.stack(0).tcp_info(client, now).unwrap().send_mss as usize;
        for (segments, queued) in [(1, (1, 0)), (2, (2, 0)), (3, (0, 3)), (7, (0, 7)), (2, (2, 0))] {
            assert_eq!(send(&mut pair, 0, client, &vec![7; segments * mss]), Ok(segments * mss));
            let stack = pair.stack(0);
            assert_eq!((stack.prompt_len(), stack.stream_len()), queued, "{segments} segments");
            pair.run_for(Span::from_millis(100));
            assert_eq!(recv(&mut pair, 1, server, 1 << 20).unwrap().len(), segments * mss);
        }
    }
}

/// A thread that sends one message per millisecond must not wait for another thread's bulk stream
/// in the same stack.
#[test]
fn what_is_no_stream_leaves_before_what_streams_have_queued() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(7);
        let (client, server, _listener) = connected(&mut pair, family);
        let (local, remote) = (end(&pair, 0, family, 4001), end(&pair, 1, family, PORT));
        let (options, now) = (options(&mut pair, 0), pair.now());
        let beside = pair.stack(0).tcp_connect(&options, local, remote, now).unwrap();
        // Its window is large by then.
        transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 2 << 20)], Span::from_secs(10));
        pair.run_for(Span::from_millis(10));
        let stream = pattern(200_000, 3);
        assert_eq!(send(&mut pair, 0, client, &stream), Ok(stream.len()));
        assert!(pair.stack(0).stream_len() > 50 && pair.stack(0).prompt_len() == 0);
        send(&mut pair, 0, beside, b"soon").unwrap();
        assert_eq!(pair.stack(0).prompt_len(), 1);
        pair.flush();
        assert!(pair.last_sent(0).len() > 1000, "the message was not the last");
        // All data arrives in order, so no segment was overtaken within the connection.
        let mut got = Vec::new();
        pair.run_until(Span::from_secs(1), |pair| {
            got.extend(recv(pair, 1, server, 1 << 20).unwrap_or_default());
            got.len() == stream.len()
        });
        assert!(got == stream);
        assert_eq!(pair.stack(1).counters().tcp_ofo_queue.get(), 0);
        // With nothing in flight it no longer counts as a stream.
        pair.run_for(Span::from_millis(10));
        send(&mut pair, 0, client, b"again").unwrap();
        assert_eq!((pair.stack(0).prompt_len(), pair.stack(0).stream_len()), (1, 0));
    }
}

#[test]
fn a_clean_cable_needs_no_retransmission() {
    let mut pair = SimulatedPair::seeded(2);
    let (client, server, listener) = connected(&mut pair, 0);
    transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 20 << 20)], Span::from_secs(10));
    assert_eq!(pair.stack(0).counters().tcp_retrans_segs.get(), 0);
    close_and_check(&mut pair, client, server, listener);
}

/// RFC 9293 §3.8.1, RFC 6675, RFC 8985.
#[test]
fn loss_of_a_tenth_of_a_percent_to_a_fifth_is_repaired_in_both_directions() {
    for (seed, loss) in [1_000, 10_000, 50_000, 100_000, 200_000].into_iter().enumerate() {
        for family in 0..2 {
            let link = LinkConfig { loss, delay: Span::from_micros(50), ..LinkConfig::default() };
            let mut pair = pair_with(seed as u64, link);
            let (client, server, listener) = connected(&mut pair, family);
            let len = if loss > 50_000 { 300_000 } else { 2_000_000 };
            let mut flows = [Flow::new((0, client), (1, server), len), Flow::new((1, server), (0, client), len)];
            transfer(&mut pair, &mut flows, Span::from_secs(300));
            close_and_check(&mut pair, client, server, listener);
        }
    }
}

/// RFC 9293 §3.1, §3.4.
#[test]
fn reorder_duplication_and_corruption_together_change_nothing() {
    for seed in 0..6 {
        let link = LinkConfig {
            loss: 5_000,
            reorder: 50_000,
            duplicate: 30_000,
            corrupt: 5_000,
            jitter: Span::from_micros(30),
            ..LinkConfig::default()
        };
        let mut pair = pair_with(seed, link);
        let (client, server, listener) = connected(&mut pair, (seed & 1) as usize);
        let mut flows =
            [Flow::new((0, client), (1, server), 1_000_000), Flow::new((1, server), (0, client), 1_000_000)];
        flows[1].chunk = 700;
        transfer(&mut pair, &mut flows, Span::from_secs(120));
        close_and_check(&mut pair, client, server, listener);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let mut pair = pair_with(seed, LinkConfig { loss: 20_000, reorder: 20_000, ..LinkConfig::default() });
        let (client, server, _) = connected(&mut pair, 0);
        transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 500_000)], Span::from_secs(60));
        pair.trace()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// RFC 9293 §3.8.1, RFC 6675, RFC 8985: a cable that loses 0.8 %, four in a row, like the
/// benchmark's. If the end of a flight or its repair is among the four, only a timer detects that.
/// If its retransmission is unanswered as well, the next timeout is twice as long.
#[test]
fn bursts_of_loss_are_repaired_in_both_directions_and_soon() {
    const LEN: usize = 640_000;
    const RUNS: u64 = 20;
    let burst = Burst { begin: 2_000, end: 250_000, longest: Span::from_millis(1), loss: 1_000_000 };
    let link = LinkConfig { burst, delay: Span::from_micros(50), rate: 10_000_000_000, ..LinkConfig::default() };
    let run = |seed| {
        let mut pair = pair_with(seed, link);
        let (client, server, listener) = connected(&mut pair, (seed & 1) as usize);
        let mut flows = [Flow::new((0, client), (1, server), LEN), Flow::new((1, server), (0, client), LEN)];
        let took = transfer(&mut pair, &mut flows, Span::from_millis(100));
        close_and_check(&mut pair, client, server, listener);
        let lost: u64 = [0, 1].map(|from| pair.link_stats(from).lost).iter().sum();
        (lost, took, pair.trace())
    };
    let runs: Vec<_> = (0..RUNS).map(run).collect();
    let lost: u64 = runs.iter().map(|(lost, ..)| lost).sum();
    assert!(lost > 10 * RUNS, "{lost} packets of {RUNS} runs");
    assert_eq!(run(7), runs[7], "the same seed loses the same");
}
