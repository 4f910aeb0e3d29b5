//! RFC 8899, RFC 4821: paths that silently drop large packets.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::TcpId;
use tickwire_stack::time::Span;

/// Two hosts with interface MTU `told`, on a cable that carries packets of up to `carried` bytes.
fn pair(told: u32, carried: usize) -> SimulatedPair {
    let mut config = PairConfig { mtu: told, ..PairConfig::default() };
    for link in &mut config.links {
        link.mtu = carried;
    }
    SimulatedPair::new(&config)
}

fn segment_size(pair: &mut SimulatedPair, id: TcpId) -> u32 {
    let now = pair.now();
    pair.stack(0).tcp_info(id, now).unwrap().send_mss.into()
}

/// RFC 8899 §4.3, §5.2: within a fraction of a second, and without a probe of every size.
#[test]
fn rfc8899_4_3_a_transfer_finds_the_size_that_gets_through() {
    for (told, carried, found) in
        [(1500, 1300, 1280), (1500, 1280, 1280), (9000, 1500, 1500), (9000, 1400, 1280), (1500, 1000, 576)]
    {
        for family in 0..2 {
            if family == 1 && carried < 1280 {
                continue; // no IPv6 path carries less
            }
            let mut pair = pair(told, carried);
            let (client, server, listener) = connected(&mut pair, family);
            let mut flows = [Flow::new((0, client), (1, server), 300_000)];
            transfer(&mut pair, &mut flows, Span::from_millis(500));
            let headers = [52, 72][family];
            let (size, most) = (segment_size(&mut pair, client), carried as u32 - headers);
            assert!((found - headers..=most).contains(&size), "{size} with {carried} of {told}, family {family}");
            assert!(pair.link_stats(0).too_big < 20, "{:?}", pair.link_stats(0));
            close_and_check(&mut pair, client, server, listener);
        }
    }
}

/// RFC 8899 §4.3: a complete outage is no sign of a black hole.
#[test]
fn rfc8899_4_3_after_an_outage_segments_are_as_long_as_before() {
    for told in [1500, 9000] {
        for outage in [20, 200, 2_000] {
            let mut pair = pair(told, 9000);
            let (client, server, listener) = connected(&mut pair, 0);
            let before = segment_size(&mut pair, client);
            let mut flows = [Flow::new((0, client), (1, server), 20_000_000)];
            let some = |pair: &mut SimulatedPair, flows: &mut [Flow], bytes: usize| {
                let until = flows[0].got.len() + bytes;
                assert!(pair.run_until(Span::from_secs(10), |pair| {
                    flows[0].pump(pair);
                    flows[0].got.len() >= until
                }));
            };
            some(&mut pair, &mut flows, 1_000_000);
            pair.link_mut(0).loss = 1_000_000;
            pair.run_for(Span::from_millis(outage));
            pair.link_mut(0).loss = 0;
            some(&mut pair, &mut flows, 100_000);
            assert_eq!(segment_size(&mut pair, client), before, "{outage} ms");
            transfer(&mut pair, &mut flows, Span::from_secs(10));
            close_and_check(&mut pair, client, server, listener);
        }
    }
}

/// RFC 8899 §5.1.1, §5.3.2: larger packets are probed again, with increasing intervals, and used
/// once they get through.
#[test]
fn rfc8899_5_1_1_a_larger_size_is_tried_again_and_taken_up() {
    let mut pair = pair(1500, 1400);
    let (client, server, _) = connected(&mut pair, 0);
    let mut got = 0;
    let mut run = |pair: &mut SimulatedPair, seconds: u64| {
        let lost = pair.link_stats(0).too_big;
        for _ in 0..seconds {
            send(pair, 0, client, &[1; 10_000]).unwrap();
            pair.run_for(Span::from_secs(1));
            got += recv(pair, 1, server, 1 << 20).unwrap().len();
        }
        assert_eq!(got % 10_000, 0);
        pair.link_stats(0).too_big - lost
    };
    run(&mut pair, 20);
    assert_eq!(segment_size(&mut pair, client), 1280 - 52);
    let probes = run(&mut pair, 3_000);
    assert!((4..=16).contains(&probes), "{probes} probes in 50 minutes");
    assert_eq!(segment_size(&mut pair, client), 1280 - 52);
    pair.link_mut(0).mtu = 1500;
    assert_eq!(run(&mut pair, 610), 0);
    assert_eq!(segment_size(&mut pair, client), 1500 - 52);
}

/// RFC 4821 §7.7: repeated loss of a segment says little about its size, if that is below what most
/// paths carry.
#[test]
fn rfc4821_7_7_what_fits_a_smaller_packet_is_sent_again_as_it_is() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180, 4, 2, 1, 1]));
    wire.send(id, &[1; 1_200]).unwrap();
    wire.pass(Span::from_secs(5));
    assert!(wire.taken().iter().all(|seg| seg.data.len() == 1_200));
    wire.pass(Span::from_secs(60));
    assert!(wire.taken().iter().any(|seg| seg.data.len() == 536), "what every host takes is tried at last");
    wire.put(Seg::new(ACK, theirs, ours + 1_200));
    wire.taken();
    wire.send(id, &[1; 1_460]).unwrap();
    assert_eq!(wire.one().data.len(), 1_460);
}
