//! ICMP errors of routers and hosts about a destination (RFC 1122 §4.2.3.9, RFC 9293 §3.9.2.2).
//! They end an attempt to connect, and explain the end of a connection, but do not cause it (RFC
//! 5927 §5.2, §6).

mod common;
mod tcp_support;

use common::{counter, frame, icmp, ip};
use tcp_support::raw::{ACK, Seg};
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackError, TcpId};

const NET: StackError = StackError::NetworkUnreachable;
const HOST: StackError = StackError::HostUnreachable;

/// ICMP type, code, and the error that a program gets: as in Linux's `icmp_err_convert`, and
/// Linux's errors for time exceeded and parameter problems.
const V4: [(u8, u8, StackError); 18] = [
    (3, 0, NET),
    (3, 1, HOST),
    (3, 2, StackError::ProtocolUnreachable),
    (3, 3, StackError::Refused),
    (3, 5, StackError::SourceRoute),
    (3, 6, NET),
    (3, 7, StackError::HostDown),
    (3, 8, StackError::Isolated),
    (3, 9, NET),
    (3, 10, HOST),
    (3, 11, NET),
    (3, 12, HOST),
    (3, 13, HOST),
    (3, 14, HOST),
    (3, 15, HOST),
    (11, 0, HOST),
    (11, 1, HOST),
    (12, 0, StackError::Malformed),
];

/// ICMPv6 likewise (RFC 4443 §3.1): no route, prohibited, out of scope, address, port, policy,
/// rejected, and an undefined code; time exceeded, and parameter problems, an unknown next header
/// among them (§3.3, §3.4).
const V6: [(u8, u8, StackError); 11] = [
    (1, 0, NET),
    (1, 1, StackError::Prohibited),
    (1, 2, HOST),
    (1, 3, HOST),
    (1, 4, StackError::Refused),
    (1, 5, StackError::Prohibited),
    (1, 6, StackError::Prohibited),
    (1, 7, StackError::Malformed),
    (3, 0, HOST),
    (4, 0, StackError::Malformed),
    (4, 1, StackError::Malformed),
];

fn errors() -> impl Iterator<Item = (usize, (u8, u8, StackError))> {
    V4.into_iter().map(|e| (0, e)).chain(V6.into_iter().map(|e| (1, e)))
}

/// A router on the path to host 1 sends host 0 an error that quotes a packet.
fn complain(pair: &mut SimulatedPair, family: usize, (kind, code): (u8, u8), quoted: &[u8]) {
    let mut v6 = pair.host(1).addresses[1];
    v6.0[15] = 99;
    let router = [Address::v4([10, 0, 0, 99]), v6][family];
    let (own, now) = (pair.host(0).addresses[family], pair.now());
    assert!(pair.host_mut(0).receive(now, &frame(&icmp(router, own, kind, code, 0, quoted))));
}

/// Host 0 has sent a SYN, which is in flight.
fn opening(family: usize) -> (SimulatedPair, TcpId, Vec<u8>) {
    let mut pair = SimulatedPair::seeded(1);
    let client = connect(&mut pair, family, 4000);
    let now = pair.now();
    let mut sent = pair.host_mut(0).transmit(now);
    assert_eq!((sent.len(), state(&mut pair, 0, client)), (1, TcpState::SynSent));
    (pair, client, sent.remove(0).split_off(14))
}

/// The packet with the first bytes of a segment from host 0 to host 1 with this sequence number.
fn quote(pair: &SimulatedPair, family: usize, seq: u32) -> Vec<u8> {
    let [own, peer] = [0, 1].map(|host| pair.host(host).addresses[family]);
    let ports = [4000u16.to_be_bytes(), PORT.to_be_bytes()].concat();
    ip(own, peer, 6, &[&ports[..], &seq.to_be_bytes(), &[0; 12]].concat())
}

/// RFC 9293 §3.9.2.2 and RFC 1122 §4.2.3.9: the attempt ends at once, with the error for the code.
/// Time exceeded counts as unreachable.
#[test]
fn an_error_about_the_syn_ends_the_attempt() {
    for (family, (kind, code, told)) in errors() {
        let (mut pair, client, syn) = opening(family);
        complain(&mut pair, family, (kind, code), &syn);
        assert_eq!(state(&mut pair, 0, client), TcpState::Closed);
        let ready = pair.stack(0).readiness(client.into()).unwrap();
        assert!(ready.contains(Ready::ERR | Ready::HUP | Ready::IN | Ready::OUT), "{ready:?}");
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(told)), "family {family}, type {kind}, code {code}");
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(None), "told once");
        assert_eq!((counter(&mut pair, 0, "TcpAttemptFails"), pair.stack(0).deadline()), (1, None));
        close(&mut pair, 0, client);
        pair.run_for(Span::from_millis(1));
        assert_eq!(pair.frames_held(0), 0);
    }
}

/// RFC 9293 §3.10.7.1: nothing is left of the attempt, and a late SYN-ACK is reset.
#[test]
fn what_answers_the_syn_after_the_error_is_reset() {
    let (mut pair, client, syn) = opening(0);
    let iss = u32::from_be_bytes(syn[24..28].try_into().unwrap());
    complain(&mut pair, 0, (3, 1), &syn);
    let [own, peer] = [(0, 4000), (1, PORT)].map(|(host, port)| end(&pair, host, 0, port));
    let mut late = Seg::new(ACK, 1, iss + 1).packet(peer, own);
    late[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let now = pair.now();
    assert!(pair.host_mut(0).receive(now, &late));
    let answer = pair.host_mut(0).transmit(now).remove(0);
    assert_eq!((answer[47], &answer[38..42]), (4, &(iss + 1).to_be_bytes()[..]), "RST");
    assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::HostUnreachable)));
}

/// RFC 5927 §4.1: a sender that does not know the number of our SYN has not seen it. Undefined
/// codes do not end the attempt either, nor does a source quench (RFC 6633).
#[test]
fn an_error_that_is_forged_or_says_nothing_does_not_end_the_attempt() {
    for family in 0..2 {
        let (mut pair, client, syn) = opening(family);
        let transport = [20, 40][family];
        let iss = u32::from_be_bytes(syn[transport + 4..transport + 8].try_into().unwrap());
        let unreachable = [(3, 1), (1, 3)][family];
        for seq in [iss.wrapping_sub(1), iss.wrapping_add(1), iss ^ 1 << 31] {
            let quoted = quote(&pair, family, seq);
            complain(&mut pair, family, unreachable, &quoted);
        }
        assert_eq!(counter(&mut pair, 0, "IcmpInUnmatched"), 3);
        for (kind, code) in [&[(3, 16), (3, 255), (4, 0)][..], &[]][family] {
            complain(&mut pair, family, (*kind, *code), &syn);
        }
        assert_eq!(state(&mut pair, 0, client), TcpState::SynSent);
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(None));
        complain(&mut pair, family, unreachable, &syn);
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::HostUnreachable)));
    }
}

/// RFC 1122 §4.2.3.9 and RFC 5927 §5.2: no error, not even a hard one, ends an established
/// connection. If it times out because nothing gets through any more, the error gives the reason.
#[test]
fn an_error_about_an_open_connection_explains_its_end() {
    for (family, (kind, code, told)) in errors() {
        let what = format!("family {family}, type {kind}, code {code}");
        let mut pair = SimulatedPair::seeded(1);
        let (client, _, _) = connected(&mut pair, family);
        let now = pair.now();
        pair.stack(0).tcp_set(client, now, TcpSetting::UserTimeout(Span::from_millis(50))).unwrap();
        pair.link_mut(0).loss = 1_000_000;
        let una = pair.stack(0).socket_row(client.into()).unwrap().snd_una.get();
        send(&mut pair, 0, client, b"Hello").unwrap();
        let quoted = quote(&pair, family, una);
        complain(&mut pair, family, (kind, code), &quoted);
        assert_eq!(pair.stack(0).tcp_take_error(client), Ok(None), "{what}: not yet");
        assert_eq!(send(&mut pair, 0, client, b"Hello"), Ok(5));
        pair.run_for(Span::from_millis(45));
        assert_eq!(state(&mut pair, 0, client), TcpState::Established, "{what}");
        pair.run_for(Span::from_millis(10));
        assert_eq!(send(&mut pair, 0, client, b"Hello"), Err(told), "{what}");
        assert_eq!(send(&mut pair, 0, client, b"Hello"), Err(StackError::Pipe), "{what}: told once");
    }
}

/// RFC 1122 §4.2.3.9: an error from before the peer's last acknowledgement explains nothing any
/// more.
#[test]
fn an_error_is_forgotten_when_the_peer_is_heard_again() {
    let mut pair = SimulatedPair::seeded(1);
    let (client, server, _) = connected(&mut pair, 0);
    let now = pair.now();
    pair.stack(0).tcp_set(client, now, TcpSetting::UserTimeout(Span::from_millis(50))).unwrap();
    let una = pair.stack(0).socket_row(client.into()).unwrap().snd_una.get();
    send(&mut pair, 0, client, b"Hello").unwrap();
    let quoted = quote(&pair, 0, una);
    complain(&mut pair, 0, (3, 1), &quoted);
    pair.run_for(Span::from_millis(20));
    assert_eq!(recv(&mut pair, 1, server, 10).unwrap(), b"Hello");
    pair.link_mut(0).loss = 1_000_000;
    send(&mut pair, 0, client, b"Hello").unwrap();
    pair.run_for(Span::from_millis(60));
    assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::TimedOut));
}

/// RFC 5927 §4.1: a half-open connection of a listener is not a local attempt, and an error about
/// it does not end it.
#[test]
fn an_error_about_a_syn_that_was_answered_leaves_the_peer_its_time() {
    let mut pair = SimulatedPair::seeded(1);
    let now = pair.now();
    let options = options(&mut pair, 0);
    let listener = pair.stack(0).tcp_listen(&options, Endpoint::new(Address::ANY, PORT), 8).unwrap();
    let [own, peer] = [(0, PORT), (1, 4000)].map(|(host, port)| end(&pair, host, 0, port));
    let meet = |pair: &mut SimulatedPair, seg: Seg| {
        let mut packet = seg.packet(peer, own);
        packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        assert!(pair.host_mut(0).receive(now, &packet));
        pair.host_mut(0).transmit(now)
    };
    let answer = meet(&mut pair, Seg::new(raw::SYN, 1000, 0)).remove(0).split_off(14);
    let iss = u32::from_be_bytes(answer[24..28].try_into().unwrap());
    complain(&mut pair, 0, (3, 3), &answer);
    assert!(meet(&mut pair, Seg::new(ACK, 1001, iss + 1)).is_empty());
    assert!(pair.stack(0).tcp_accept(listener).is_ok());
}
