//! The initial sequence number of a connection, as a peer sees it.

mod tcp_support;

use std::collections::BTreeSet;
use tcp_support::raw::*;
use tickwire_sim::PairConfig;
use tickwire_stack::time::Span;

/// The peer sends a SYN from that port, receives the ISN, and resets the connection.
fn number(wire: &mut Wire, port: u16) -> u32 {
    wire.peer.port = port;
    wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    let answer = wire.one();
    assert!(answer.has(SYN | ACK), "{answer:?}");
    wire.put(Seg::new(RST, 1001, 0));
    wire.nothing();
    answer.seq
}

/// Distance from the first number to the second; negative in the other half of the sequence space.
fn step(first: u32, second: u32) -> i32 {
    second.wrapping_sub(first) as i32
}

/// RFC 6528 §3: for the same ends the ISN grows by one every 4 us, so that old segments of one
/// connection are not taken for the next one's.
#[test]
fn rfc6528_3_a_pair_of_ports_that_is_used_again_begins_with_a_higher_number() {
    let mut wire = Wire::new();
    wire.listen(8);
    let mut last = number(&mut wire, 4000);
    for micros in [4, 40, 1_000, 250_000, 60_000_000] {
        wire.pass(Span::from_micros(micros));
        let next = number(&mut wire, 4000);
        assert_eq!(step(last, next), micros as i32 / 4, "after {micros} us");
        last = next;
    }
}

/// RFC 6528 §3, RFC 9293 §3.4.1: the same where this host opens the connection.
#[test]
fn rfc6528_3_a_port_that_is_connected_again_begins_with_a_higher_number() {
    let mut wire = Wire::new();
    let (own, peer, options) = (wire.own, wire.peer, wire.stack().tcp_defaults());
    let mut last = None;
    for _ in 0..4 {
        let now = wire.now;
        let id = wire.stack().tcp_connect(&options, own, peer, now).unwrap();
        let syn = wire.one();
        assert!(syn.has(SYN) && !syn.has(ACK));
        assert!(last.is_none_or(|last| step(last, syn.seq) == 25), "{last:?}, then {}", syn.seq);
        last = Some(syn.seq);
        wire.close(id);
        wire.pass(Span::from_micros(100));
        wire.nothing();
    }
}

/// RFC 6528 §3: a peer that opens connections learns nothing about the numbers between other ends,
/// neither from its own ports nor from another host that does the same.
#[test]
fn rfc6528_3_the_number_of_one_port_says_nothing_of_another() {
    let steps = |seed| {
        let mut wire = Wire::on(&PairConfig::default().with_seed(seed));
        wire.listen(8);
        let numbers: Vec<u32> = (4000..4200).map(|port| number(&mut wire, port)).collect();
        numbers.windows(2).map(|two| step(two[0], two[1])).collect::<Vec<_>>()
    };
    let [one, other] = [1, 2].map(steps);
    let all: BTreeSet<_> = one.iter().chain(&other).collect();
    assert_eq!(all.len(), 2 * 199, "no step from port to port comes twice");
    let near = all.iter().filter(|step| step.unsigned_abs() < 1 << 24).count();
    assert!(near < 12, "{near} of 398 lie within 1/128 of the space, where 3 are to be expected");
}
