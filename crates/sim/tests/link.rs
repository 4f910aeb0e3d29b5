//! The simulation itself: it is reproducible, and applies the configured faults to packets.

#[path = "../../stack/tests/common/mod.rs"]
mod common;

use common::{open, received, send};
use tickwire_sim::{Burst, LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::time::Span;

/// Sends numbered datagrams; returns their numbers in the order of arrival, and the pair.
fn run(config: &PairConfig, count: u16, gap: Span) -> (Vec<u16>, SimulatedPair) {
    let mut pair = SimulatedPair::new(config);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    let mut got = Vec::new();
    for number in 0..count {
        send(&mut pair, 0, a, Endpoint::new(to, 2000), &number.to_be_bytes()).unwrap();
        pair.run_for(gap);
        got.extend(received(&mut pair, 1, b));
    }
    pair.run_for(Span::from_millis(10));
    got.extend(received(&mut pair, 1, b));
    let numbers = got.iter().map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])).collect();
    (numbers, pair)
}

fn rough() -> LinkConfig {
    LinkConfig {
        loss: 50_000,
        duplicate: 30_000,
        reorder: 100_000,
        corrupt: 10_000,
        jitter: Span::from_micros(9),
        ..LinkConfig::default()
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let trace =
        |seed| run(&PairConfig::default().with_link(rough()).with_seed(seed), 500, Span::from_micros(3)).1.trace();
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn a_perfect_link_delivers_all_in_order_after_its_delay() {
    let (got, pair) = run(&PairConfig::default(), 100, Span::from_micros(1));
    assert_eq!(got, (0..100).collect::<Vec<_>>());
    assert_eq!(pair.link_stats(0).delivered, 100);
}

#[test]
fn jitter_alone_keeps_the_order() {
    let link = LinkConfig { jitter: Span::from_micros(50), ..LinkConfig::default() };
    let (got, _) = run(&PairConfig::default().with_link(link), 200, Span::from_micros(1));
    assert_eq!(got, (0..200).collect::<Vec<_>>());
}

#[test]
fn loss_duplication_and_reordering_happen_about_as_often_as_asked() {
    let config = PairConfig::default().with_link(LinkConfig { corrupt: 0, ..rough() });
    let (got, pair) = run(&config, 4000, Span::from_micros(3));
    let stats = pair.link_stats(0);
    assert!((150..250).contains(&stats.lost), "{stats:?}");
    assert_eq!(got.len() as u64, stats.delivered);
    assert_eq!(stats.delivered, stats.sent - stats.lost + stats.duplicated);
    assert!((80..160).contains(&stats.duplicated), "{stats:?}");
    assert!((320..480).contains(&stats.reordered), "{stats:?}");
    let overtaken = got.windows(2).filter(|w| w[1] < w[0]).count();
    assert!((200..500).contains(&overtaken), "{overtaken}");
}

#[test]
fn bursts_take_neighbours() {
    let burst = Burst { begin: 10_000, end: 200_000, loss: 1_000_000, longest: Span::from_millis(1) };
    let link = LinkConfig { burst, ..LinkConfig::default() };
    let (got, pair) = run(&PairConfig::default().with_link(link), 4000, Span::from_micros(3));
    let stats = pair.link_stats(0);
    assert!((120..280).contains(&stats.lost), "{stats:?}");
    assert_eq!(got.len() as u64 + stats.lost, 4000);
    let gaps = got.windows(2).filter(|two| two[1] > two[0] + 1).count() as u64;
    assert!((20..60).contains(&gaps) && stats.lost > 3 * gaps, "{gaps}: {stats:?}");
}

#[test]
fn nothing_passes_a_dark_cable_in_its_direction() {
    let mut pair = SimulatedPair::seeded(1);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    pair.link_mut(0).dark_until = pair.now() + Span::from_secs(1);
    let mut got = [0, 0];
    for _ in 0..20 {
        send(&mut pair, 0, a, Endpoint::new(to, 2000), b"there").unwrap();
        send(&mut pair, 1, b, Endpoint::new(from, 1000), b"back").unwrap();
        pair.run_for(Span::from_millis(100));
        got[0] += received(&mut pair, 1, b).len();
        got[1] += received(&mut pair, 0, a).len();
    }
    assert_eq!((got, pair.link_stats(0).dark, pair.link_stats(1).dark), ([10, 20], 10, 0));
}

#[test]
fn the_rate_limit_spreads_packets_and_its_queue_is_bounded() {
    let link = LinkConfig { rate: 1_000_000, queue: 440, ..LinkConfig::default() };
    let (got, pair) = run(&PairConfig::default().with_link(link), 50, Span::from_micros(1));
    // 44 bytes at 1 Mbit/s take 352 us: ten fit the queue, the others are dropped.
    assert!((10..=13).contains(&got.len()), "{}", got.len());
    assert_eq!(pair.link_stats(0).overflowed, 50 - got.len() as u64);
}

#[test]
fn what_exceeds_the_mtu_of_the_link_vanishes() {
    let mut pair =
        SimulatedPair::new(&PairConfig::default().with_link(LinkConfig { mtu: 1000, ..LinkConfig::default() }));
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    for size in [972, 973] {
        send(&mut pair, 0, a, Endpoint::new(to, 2000), &vec![0; size]).unwrap();
    }
    pair.run_for(Span::from_millis(1));
    assert_eq!(received(&mut pair, 1, b).len(), 1);
    assert_eq!(pair.link_stats(0).too_big, 1);
}
