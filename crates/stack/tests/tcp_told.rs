//! Scripted instead of random losses: the last segment of each message, and a cable with a blackout
//! of one second in one direction.

mod tcp_support;

use tcp_support::*;
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::TcpId;
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;

/// A round trip of 100 us.
fn lan() -> LinkConfig {
    LinkConfig { delay: Span::from_micros(50), ..LinkConfig::default() }
}

/// Sends a message and answers it; returns the time until it arrived.
fn message(pair: &mut SimulatedPair, client: TcpId, server: TcpId, size: usize) -> Span {
    let (began, data) = (pair.now(), pattern(size, 3));
    let (mut sent, mut got) = (0, Vec::new());
    let arrived = pair.run_until(Span::from_secs(10), |pair| {
        if sent < size {
            sent += send(pair, 0, client, &data[sent..]).unwrap_or(0);
        }
        got.extend(recv(pair, 1, server, size).unwrap_or_default());
        got.len() == size
    });
    assert!(arrived && got == data, "{} of {size} bytes", got.len());
    let took = pair.now().since(began);
    send(pair, 1, server, b"answer").unwrap();
    assert!(pair.run_until(Span::from_secs(10), |pair| recv(pair, 0, client, 6).is_ok()));
    took
}

fn connected_without_nagle(pair: &mut SimulatedPair, family: usize) -> (TcpId, TcpId) {
    let (client, server, _) = connected(pair, family);
    let now = pair.now();
    pair.stack(0).tcp_set(client, now, TcpSetting::NoDelay(true)).unwrap();
    (client, server)
}

/// RFC 8985 §7: a probe retransmits the end of a message, not a timeout.
#[test]
fn the_lost_end_of_every_message_is_repaired_by_a_probe() {
    for family in [0, 1] {
        let told = LinkConfig { tail_of: 20_000, ..lan() };
        let mut pair = SimulatedPair::new(&PairConfig { links: [told, lan()], ..PairConfig::default() });
        let (client, server) = connected_without_nagle(&mut pair, family);
        for number in 1..=20 {
            let took = message(&mut pair, client, server, 20_000);
            assert!(took < Span::from_millis(15), "message {number}: {took:?}");
            assert_eq!(pair.link_stats(0).tails, number);
        }
    }
}

/// Data in flight at the start of a blackout arrives soon after its end, whichever direction it
/// affects, and the connection continues as before.
#[test]
fn a_second_of_darkness_in_either_direction_costs_little_more_than_the_second() {
    for dark in [0, 1] {
        for size in [20_000, 640_000] {
            let mut pair = SimulatedPair::new(&PairConfig::default().with_link(lan()));
            let (client, server) = connected_without_nagle(&mut pair, 0);
            let usual = message(&mut pair, client, server, size);
            pair.link_mut(dark).dark_until = pair.now() + Span::from_secs(1);
            let took = message(&mut pair, client, server, size);
            assert!(pair.link_stats(dark).dark > 0);
            // The timeout has backed off until then, from a few milliseconds.
            assert!(took < Span::from_millis(2000), "direction {dark}, {size} bytes: {took:?}");
            let after = message(&mut pair, client, server, size);
            assert!(after < usual + Span::from_millis(20), "direction {dark}, {size} bytes: {usual:?}, then {after:?}");
        }
    }
}
