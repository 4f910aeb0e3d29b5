//! Interfaces with jumbo frames: packets longer than a frame of the lane, in both directions.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::{PathState, Query};
use tickwire_stack::tcp::{Shutdown, TcpSetting};
use tickwire_stack::time::Span;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{StackError, UdpId};

fn jumbo(seed: u64, link: LinkConfig) -> SimulatedPair {
    SimulatedPair::new(&PairConfig { mtu: 9000, ..PairConfig::default().with_seed(seed).with_link(link) })
}

fn wire() -> Wire {
    Wire::on(&PairConfig { mtu: 9000, ..PairConfig::default() })
}

/// An accepted connection whose peer has an MSS of 8960 bytes, with or without SACK.
fn accepted(wire: &mut Wire, sack: bool) -> (tickwire_stack::TcpId, u32, u32) {
    let listener = wire.listen(4);
    let options: &[u8] = if sack { &[2, 4, 0x23, 0, 4, 2, 1, 1] } else { &[2, 4, 0x23, 0] };
    wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(options))
}

fn lengths(segments: &[Seg]) -> Vec<usize> {
    segments.iter().map(|s| s.data.len()).collect()
}

/// RFC 9293 §3.7.1.
#[test]
fn a_stream_goes_in_full_segments() {
    for family in 0..2 {
        let mut pair = jumbo(1, LinkConfig::default());
        let (client, server, listener) = connected(&mut pair, family);
        transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 20 << 20)], Span::from_secs(10));
        let stats = pair.link_stats(0);
        assert!(stats.bytes / stats.sent > 8_500, "{} bytes a packet", stats.bytes / stats.sent);
        assert_eq!(pair.stack(0).counters().tcp_retrans_segs.get(), 0);
        close_and_check(&mut pair, client, server, listener);
    }
}

/// RFC 9293 §3.8.1, RFC 6675, RFC 8985.
#[test]
fn what_the_cable_does_to_jumbo_frames_is_repaired() {
    for (seed, loss) in [1_000, 10_000, 50_000, 200_000].into_iter().enumerate() {
        let link = LinkConfig { loss, duplicate: 5_000, reorder: 10_000, corrupt: 5_000, ..LinkConfig::default() };
        let mut pair = jumbo(seed as u64, link);
        let (client, server, listener) = connected(&mut pair, seed % 2);
        let len = if loss > 50_000 { 500_000 } else { 4_000_000 };
        let mut flows = [Flow::new((0, client), (1, server), len), Flow::new((1, server), (0, client), len)];
        flows[1].chunk = 3_001;
        transfer(&mut pair, &mut flows, Span::from_secs(300));
        close_and_check(&mut pair, client, server, listener);
    }
}

/// RFC 9293 §3.7.1: a listener's SYN-ACK is sent before the host has resolved the path to the peer.
/// Its MSS fits all interfaces, with a SYN cookie, too.
#[test]
fn strangers_are_offered_what_every_interface_takes() {
    for syn_queue in [256, 0] {
        let mut config = PairConfig { mtu: 9000, paths: false, ..PairConfig::default() };
        config.stack.tcp.syn_queue = syn_queue;
        for (mtu, offered) in [(1500, 1460u16), (9000, 8960)] {
            let mut wire = Wire::on(&config);
            wire.stack().assume_mtu(mtu);
            wire.listen(4);
            wire.put(Seg::new(SYN, 1000, 0).options(&[2, 4, 0x23, 0]));
            assert_eq!(wire.one().option(2), Some(&offered.to_be_bytes()[..]), "SYN queue {syn_queue}");
        }
    }
}

/// RFC 9293 §3.7.4: Nagle's algorithm and retransmissions use whole segments only.
#[test]
fn a_lost_segment_is_sent_again_as_one() {
    for sack in [true, false] {
        let mut wire = wire();
        let (id, ours, theirs) = accepted(&mut wire, sack);
        let full = 8960;
        wire.send(id, &pattern(2 * full + 5_000, 1)).unwrap();
        assert_eq!(lengths(&wire.taken()), [full, full], "the window is two segments; the rest has to wait");
        wire.pass(Span::from_millis(1));
        let end = ours + 2 * full as u32;
        wire.put(Seg::new(ACK, theirs, end));
        assert_eq!(lengths(&wire.taken()), [5_000]);
        wire.pass(Span::from_millis(1));
        wire.put(Seg::new(ACK, theirs, end + 5_000));
        wire.send(id, &pattern(4 * full, 2)).unwrap();
        let sent = wire.taken();
        assert_eq!(lengths(&sent), [full; 4]);
        wire.pass(Span::from_millis(1));
        // The first one is lost.
        for n in 2..=4 {
            let ack = Seg::new(ACK, theirs, sent[0].seq);
            let (start, stop) = (sent[1].seq, sent[0].seq + n * full as u32);
            wire.put(if sack { ack.sack(&[(start, stop)]) } else { ack });
        }
        let again = wire.one();
        assert_eq!((again.seq, again.data == sent[0].data), (sent[0].seq, true), "SACK: {sack}");
        wire.put(Seg::new(ACK, theirs, sent[0].seq + 4 * full as u32));
        wire.nothing();
        assert_eq!(wire.held(), 0);
    }
}

/// RFC 9293 §3.8.6: small writes are coalesced; a peer's small window is filled, and never overrun.
#[test]
fn the_peers_window_is_kept_to_the_byte() {
    let mut wire = wire();
    let (id, ours, theirs) = accepted(&mut wire, true);
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::NoDelay(true)).unwrap();
    wire.put(Seg::new(ACK, theirs, ours).window(5_001));
    wire.send(id, &pattern(30_000, 1)).unwrap();
    wire.pass(Span::from_secs(2));
    let mut edge = ours + 5_001;
    let mut acked = ours;
    for _ in 0..100 {
        for seg in wire.taken() {
            let end = seg.seq + seg.data.len() as u32;
            assert!(end.wrapping_sub(edge) as i32 <= 0, "beyond the window");
            acked = acked.max(end);
        }
        edge = acked + 5_001;
        wire.put(Seg::new(ACK, theirs, acked).window(5_001));
        wire.pass(Span::from_millis(300));
    }
    assert_eq!(acked, ours + 30_000);
    assert_eq!(wire.held(), 0);
}

/// RFC 9293 §3.7.2: the host's MTU decreases while jumbo segments are in flight, and increases
/// again.
#[test]
fn a_smaller_interface_mtu_is_followed() {
    let mut pair = jumbo(5, LinkConfig::default());
    let (client, server, listener) = connected(&mut pair, 0);
    let mut flow = Flow::new((0, client), (1, server), 3 << 20);
    for mtu in [1500, 9000, 4000, 9000] {
        let got = flow.got.len() + (400 << 10);
        assert!(pair.run_until(Span::from_secs(10), |pair| {
            flow.pump(pair);
            flow.got.len() >= got
        }));
        pair.link_mut(0).mtu = mtu as usize;
        let (now, way) = (pair.now(), way(&pair));
        let mut info = pair.stack(0).path_get(&way).unwrap().info;
        (info.mtu, info.state) = (mtu, PathState::Ready);
        pair.stack(0).path_set(info, now);
    }
    let limit = pair.now() + Span::from_secs(20);
    while !flow.done() && pair.step(limit) {
        flow.pump(&mut pair);
    }
    assert!(flow.got == flow.data);
    close_and_check(&mut pair, client, server, listener);
}

/// A packet that waits for neighbour resolution is queued whole or not at all, and is sent whole.
#[test]
fn packets_wait_for_the_neighbour_whole() {
    let mut pair = jumbo(6, LinkConfig::default());
    let (from, to) = (open(&mut pair, 0, 1000), open(&mut pair, 1, 2000));
    let (now, way) = (pair.now(), way(&pair));
    let ready = pair.stack(0).path_get(&way).unwrap().info;
    pair.stack(0).path_forget(&way);
    pair.stack(0).path_set(tickwire_stack::path::PathInfo { state: PathState::Resolving, ..ready }, now);
    pair.stack(1).udp_set_options(to, UdpOptions { rcvbuf: 1 << 20, ..UdpOptions::default() }).unwrap();
    let sent = (0..30).filter(|&n| send_datagram(&mut pair, from, &pattern(8_900, n))).count();
    assert_eq!(sent, 30);
    pair.stack(0).path_set(ready, now);
    pair.run_for(Span::from_millis(1));
    // One neighbour may queue 25 packets of five frames; the oldest ones were dropped.
    for n in 5..30 {
        assert!(receive_datagram(&mut pair, to).unwrap() == pattern(8_900, n));
    }
    assert_eq!(receive_datagram(&mut pair, to), None);
    pair.stack(0).path_set(tickwire_stack::path::PathInfo { state: PathState::Unreachable, ..ready }, now);
    assert!(!send_datagram(&mut pair, from, &[1; 8_900]));
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.frames_held(0), 0);
}

/// The query for the first host's path to the second.
fn way(pair: &SimulatedPair) -> Query {
    Query::to(pair.host(1).addresses[0]).from(pair.host(0).addresses[0])
}

fn open(pair: &mut SimulatedPair, host: usize, port: u16) -> UdpId {
    let address = pair.host(host).addresses[0];
    let id = pair.stack(host).udp_open(UdpOptions::default()).unwrap();
    pair.stack(host).udp_bind(id, Endpoint::new(address, port)).unwrap();
    id
}

fn send_datagram(pair: &mut SimulatedPair, id: UdpId, bytes: &[u8]) -> bool {
    let to = SendTo { destination: Some(end(pair, 1, 0, 2000)), ..SendTo::default() };
    let now = pair.now();
    pair.stack(0).udp_send(id, now, &to, &mut &bytes[..]).is_ok()
}

fn receive_datagram(pair: &mut SimulatedPair, id: UdpId) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    pair.stack(1).udp_recv(id, false, &mut bytes).ok().map(|_| bytes)
}

#[test]
fn datagrams_use_what_a_jumbo_frame_holds() {
    let mut pair = jumbo(7, LinkConfig::default());
    let (from, to) = (open(&mut pair, 0, 1000), open(&mut pair, 1, 2000));
    // The largest that fit one frame, one packet and two fragments; and the largest datagram.
    for (len, packets) in
        [(1920, 1), (1921, 1), (8_971, 1), (8_972, 1), (8_973, 2), (17_944, 2), (17_945, 3), (65_507, 8)]
    {
        let before = pair.link_stats(0).sent;
        assert!(send_datagram(&mut pair, from, &pattern(len, 9)), "{len}");
        pair.run_for(Span::from_millis(1));
        assert!(receive_datagram(&mut pair, to).is_some_and(|got| got == pattern(len, 9)), "{len}");
        assert_eq!(pair.link_stats(0).sent - before, packets, "packets for {len} bytes");
    }
    assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
}

/// RFC 9293 §3.8.1: a FIN queued behind data in flight has a frame of its own. It is lost with the
/// data, and retransmitted.
#[test]
fn data_and_fin_that_are_all_lost_come_again() {
    for (family, len) in [(0, 100), (1, 1_784), (0, 5_000), (1, 8_900), (0, 30_000)] {
        let mut pair = jumbo(8, LinkConfig::default());
        let (client, server, listener) = connected(&mut pair, family);
        let data = pattern(len, 3);
        pair.link_mut(0).loss = 1_000_000;
        assert_eq!(send(&mut pair, 0, client, &data), Ok(len));
        pair.run_for(Span::from_micros(100));
        let now = pair.now();
        pair.stack(0).tcp_shutdown(client, now, Shutdown::Write).unwrap();
        pair.run_for(Span::from_millis(300));
        assert_eq!(recv(&mut pair, 1, server, 1), Err(StackError::WouldBlock));
        pair.link_mut(0).loss = 0;
        let (got, ended) = read_to_end(&mut pair, 1, server, Span::from_secs(60));
        assert!(ended && got == data, "{len}: {} bytes, the end {ended}", got.len());
        close_and_check(&mut pair, client, server, listener);
    }
}
