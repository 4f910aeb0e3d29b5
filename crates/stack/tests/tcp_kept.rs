//! Frames that the kernel never completes, and a transmit ring that stays full.

mod tcp_support;

use tcp_support::*;
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::StackError;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;

/// For a millisecond the device of host 0 drops the frames in its ring without completing them.
#[test]
fn a_connection_outlives_the_frames_that_a_reset_device_keeps() {
    for (mtu, late) in [(1500, false), (1500, true), (9000, false), (9000, true)] {
        let mut pair = SimulatedPair::new(&PairConfig { mtu, ..PairConfig::default() });
        pair.link_mut(0).rate = 1_000_000_000;
        let (client, server, listener) = connected(&mut pair, 0);
        let mut flow = Flow::new((0, client), (1, server), 400_000);
        pair.run_until(Span::from_micros(200), |pair| {
            flow.pump(pair);
            false
        });
        assert!(!flow.done());
        pair.link_mut(0).loss = 1_000_000;
        pair.run_until(Span::from_millis(1), |pair| {
            pair.host_mut(0).keep_transmitting();
            flow.pump(pair);
            false
        });
        assert!(!flow.done());
        pair.link_mut(0).loss = 0;
        let took = transfer(&mut pair, std::slice::from_mut(&mut flow), Span::from_secs(10));
        assert!(took < Span::from_secs(2), "mtu {mtu}: {} ms", took.as_millis());
        let given = if late { pair.host_mut(0).give_back() } else { 0 };
        close(&mut pair, 0, client);
        pair.run_for(Span::from_millis(10));
        close(&mut pair, 1, server);
        let now = pair.now();
        pair.stack(1).tcp_close_listener(listener, now).unwrap();
        pair.run_for(Span::from_secs(100));
        // The frames that the kernel kept stay in use, and no others.
        let held = pair.frames_held(0);
        assert!(held + given > 0, "frames were kept");
        let rest = pair.host_mut(0).give_back();
        assert_eq!((held, pair.frames_held(0)), (rest, 0), "mtu {mtu}, late {late}");
    }
}

/// RFC 9293 §3.8.3: if nothing leaves this host any more, the connection ends as if its peer were
/// gone.
#[test]
fn a_ring_that_takes_nothing_ends_the_connection_in_the_end() {
    for keeps in [false, true] {
        let mut pair = SimulatedPair::seeded(2);
        let (client, _, _) = connected(&mut pair, 0);
        pair.link_mut(0).loss = 1_000_000;
        pair.host_mut(0).stall(!keeps);
        send(&mut pair, 0, client, &[1; 20_000]).unwrap();
        let start = pair.now();
        let ended = pair.run_until(Span::from_secs(1_000), |pair| {
            pair.host_mut(0).keep_transmitting();
            state(pair, 0, client) == TcpState::Closed
        });
        let took = pair.now().since(start);
        assert!(ended && took > Span::from_secs(100), "keeps {keeps}: {} s", took.as_millis() / 1000);
        assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::TimedOut));
    }
}

/// `TCP_USER_TIMEOUT` (RFC 5482) counts from the first byte that does not get through, wherever it
/// is queued.
#[test]
fn the_user_timeout_counts_what_has_not_left_this_host() {
    let mut pair = pair_with(3, LinkConfig::default());
    let (client, _, _) = connected(&mut pair, 0);
    let now = pair.now();
    pair.stack(0).tcp_set(client, now, TcpSetting::UserTimeout(Span::from_millis(400))).unwrap();
    pair.host_mut(0).stall(true);
    send(&mut pair, 0, client, b"stuck").unwrap();
    pair.run_for(Span::from_millis(390));
    assert_eq!(state(&mut pair, 0, client), TcpState::Established);
    pair.run_for(Span::from_millis(30));
    assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::TimedOut));
}

/// A ring that is full for a while loses nothing, and nothing is deemed lost.
#[test]
fn a_ring_that_is_full_for_a_while_costs_no_retransmission() {
    let mut pair = SimulatedPair::seeded(4);
    let (client, server, listener) = connected(&mut pair, 0);
    pair.host_mut(0).stall(true);
    send(&mut pair, 0, client, &pattern(20_000, 1)).unwrap();
    pair.run_for(Span::from_millis(500));
    pair.host_mut(0).stall(false);
    pair.run_for(Span::from_millis(1));
    assert_eq!(recv(&mut pair, 1, server, 1 << 20).unwrap(), pattern(20_000, 1));
    assert_eq!(pair.stack(0).counters().tcp_retrans_segs.get(), 0);
    close_and_check(&mut pair, client, server, listener);
}
