//! SYN cookies (RFC 4987 §3.6): their SYN-ACK is that of a connection in the SYN queue.

mod common;
mod tcp_support;

use common::{frame, ip};
use tcp_support::raw::*;
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::checksum;
use tickwire_stack::path::{Metrics, PathInfo, PathState, Query};
use tickwire_stack::tcp::{TcpOptions, TcpSetting};
use tickwire_stack::{StackConfig, TcpId};

/// Lengths of the SYN queue: with the second, every SYN is answered by a cookie.
const SYN_QUEUES: [u32; 2] = [256, 0];

/// A stack with this SYN queue that knows no path.
fn wire(syn_queue: u32) -> Wire {
    let mut config = PairConfig { paths: false, ..PairConfig::default() };
    config.stack.tcp.syn_queue = syn_queue;
    Wire::on(&config)
}

/// The SYN-ACK for a SYN with the MSS 1460.
fn answer(wire: &mut Wire) -> Seg {
    wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180]));
    wire.one()
}

/// The host's answer to a query.
fn tell(wire: &mut Wire, query: Query, metrics: Metrics) {
    let (source, now) = (wire.own.address, wire.now);
    let (source_mac, next_hop_mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 9, 9]));
    let state = PathState::Ready;
    let info = PathInfo {
        query,
        source,
        interface: 1,
        mtu: 1500,
        source_mac,
        next_hop_mac,
        state,
        metrics,
        ..Default::default()
    };
    wire.stack().path_set(info, now);
}

/// The socket's options are those of every packet of its connections: MSS (RFC 9293 §3.7.1), TTL,
/// type of service, "don't fragment", and the receive buffer as the window.
#[test]
fn a_cookie_is_sent_with_the_listeners_options() {
    for syn_queue in SYN_QUEUES {
        let mut wire = wire(syn_queue);
        let listener = wire.listen(8);
        let plain = answer(&mut wire);
        assert_eq!(plain.option(2), Some(&1460u16.to_be_bytes()[..]));
        assert_eq!((plain.window, plain.class, wire.last_ttl, wire.last_may_fragment), (0xffff, 0, 64, false));
        for setting in [
            TcpSetting::MaxSegment(600),
            TcpSetting::Ttl(3),
            TcpSetting::Tos(0xb8),
            TcpSetting::DontFragment(false),
            TcpSetting::ReceiveBuffer(5000),
        ] {
            wire.stack().tcp_listener_set(listener, setting).unwrap();
        }
        wire.peer.port += 1;
        let set = answer(&mut wire);
        assert_eq!(set.option(2), Some(&600u16.to_be_bytes()[..]), "SYN queue {syn_queue}");
        assert_eq!((set.window, set.class, wire.last_ttl, wire.last_may_fragment), (5000, 0xb8, 3, true));
        let sent = if syn_queue == 0 { 2 } else { 0 };
        assert_eq!(wire.count("TcpExtSyncookiesSent"), sent);
    }
}

/// The path is that of the socket's interface and type of service (`SO_BINDTODEVICE`, `IP_TOS`),
/// and its metrics apply: MSS, window, TTL.
#[test]
fn a_cookie_takes_the_listeners_path() {
    for syn_queue in SYN_QUEUES {
        let mut wire = wire(syn_queue);
        let own = wire.own;
        let options = TcpOptions { interface: 1, tos: 0x10, ..wire.stack().tcp_defaults() };
        wire.stack().tcp_listen(&options, own, 8).unwrap();
        let query = Query::to(wire.peer.address).from(own.address).by(1).of_service(0x10);
        tell(&mut wire, query, Metrics { advmss: 1000, initrwnd: 4, hop_limit: 9, ..Metrics::default() });
        let seg = answer(&mut wire);
        assert_eq!(seg.option(2), Some(&1000u16.to_be_bytes()[..]), "SYN queue {syn_queue}");
        assert_eq!((seg.window, wire.last_ttl, wire.last_to), (4000, 9, [2, 0, 0, 0, 9, 9]));
    }
}

/// A segment from `from` to `to`, in a frame to host 1.
fn put(pair: &mut SimulatedPair, from: Endpoint, to: Endpoint, seq: u32, ack: u32, bits: u8) {
    let mut tcp =
        [&from.port.to_be_bytes()[..], &to.port.to_be_bytes(), &seq.to_be_bytes(), &ack.to_be_bytes()].concat();
    tcp.extend_from_slice(&[5 << 4, bits, 0xff, 0xff, 0, 0, 0, 0]);
    let sum = checksum::transport(from.address, to.address, 6, &tcp);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut packet = frame(&ip(from.address, to.address, 6, &tcp));
    (packet[5], packet[11]) = (2, 1);
    let now = pair.now();
    assert!(pair.host_mut(1).receive(now, &packet));
}

/// A peer that sends no MSS option opens a connection with host 1.
fn opened(family: usize, syn_queue: u32) -> (SimulatedPair, TcpId) {
    let mut config = StackConfig::default();
    config.tcp.syn_queue = syn_queue;
    let mut pair = SimulatedPair::new(&PairConfig { stack: config, ..PairConfig::default() });
    let [from, to] = [(0, 4000), (1, 80)].map(|(host, port)| Endpoint::new(pair.host(host).addresses[family], port));
    let options = pair.stack(1).tcp_defaults();
    let listener = pair.stack(1).tcp_listen(&options, Endpoint::new(Address::ANY, 80), 8).unwrap();
    put(&mut pair, from, to, 1000, 0, SYN);
    let now = pair.now();
    let answer = pair.host_mut(1).transmit(now).remove(0);
    let at = [14 + 20, 14 + 40][family] + 4;
    let iss = u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
    put(&mut pair, from, to, 1001, iss.wrapping_add(1), ACK);
    let id = pair.stack(1).tcp_accept(listener).unwrap();
    (pair, id)
}

/// RFC 9293 §3.7.1 (MUST-15).
#[test]
fn without_an_mss_the_segments_are_those_that_every_host_of_the_family_takes() {
    for (family, mss) in [(0, 536), (1, 1220)] {
        for syn_queue in SYN_QUEUES {
            let (mut pair, id) = opened(family, syn_queue);
            let now = pair.now();
            let info = pair.stack(1).tcp_info(id, now).unwrap();
            assert_eq!(info.send_mss, mss, "family {family}, SYN queue {syn_queue}");
        }
    }
}
