//! Path MTU: routers that report it, and hosts that change it.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::SimulatedPair;
use tickwire_stack::checksum;
use tickwire_stack::path::{PathState, Query};
use tickwire_stack::tcp::TcpSetting;
use tickwire_stack::time::Span;
use tickwire_stack::{Ready, StackError};

/// ICMP "fragmentation needed" (RFC 1191) about the segment with this sequence number.
fn too_big(wire: &Wire, seq: u32, mtu: u16) -> Vec<u8> {
    let mut tcp = vec![0; 8];
    tcp[0..2].copy_from_slice(&wire.own.port.to_be_bytes());
    tcp[2..4].copy_from_slice(&wire.peer.port.to_be_bytes());
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    let quoted = ipv4(wire.own, wire.peer, 6, &tcp);
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend_from_slice(&mtu.to_be_bytes());
    icmp.extend_from_slice(&quoted[14..]);
    let sum = checksum::plain(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(wire.peer, wire.own, 1, &icmp)
}

/// RFC 1191 §6.4: resegmented and retransmitted at once, without a congestion response.
#[test]
fn what_does_not_fit_is_sent_again_in_pieces_that_do() {
    let mut wire = Wire::new();
    let listener = wire.listen(4);
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180, 4, 2, 1, 1]);
    let (id, ours, theirs) = wire.accepted_with(listener, syn);
    let data = pattern(5_000, 3);
    wire.send(id, &data).unwrap();
    assert_eq!(wire.taken().iter().map(|s| s.data.len()).collect::<Vec<_>>(), [1460, 1460, 1460, 620]);
    let now = wire.now;
    let cwnd = wire.stack().tcp_info(id, now).unwrap().cwnd;
    let packet = too_big(&wire, ours, 1000);
    wire.put_bytes(&packet);
    let again = wire.taken();
    assert!(again.iter().all(|s| s.data.len() <= 960), "{again:?}");
    let mut stream = vec![0; 5_000];
    stream[4380..].copy_from_slice(&data[4380..]); // arrived the first time
    for seg in &again {
        let at = seg.seq.wrapping_sub(ours) as usize;
        stream[at..at + seg.data.len()].copy_from_slice(&seg.data);
    }
    assert!(stream == data);
    assert_eq!(wire.stack().tcp_info(id, now).unwrap().cwnd, cwnd);
    wire.put(Seg::new(ACK, theirs, ours + 5_000));
    wire.send(id, &[1; 2_000]).unwrap();
    assert!(wire.taken().iter().all(|s| s.data.len() <= 960));
    wire.put(Seg::new(ACK, theirs, ours + 7_000));
    assert_eq!(wire.held(), 0);
}

/// RFC 1191 §3: a reported path MTU below 552 bytes may be forged, so segments get no smaller. It
/// may also be true, so they are sent without DF, as on Linux, until the report expires (§6.3).
#[test]
fn rfc1191_3_a_path_that_is_too_narrow_to_be_believed_may_fragment() {
    for first in [None, Some(552)] {
        let mut wire = Wire::new();
        let listener = wire.listen(4);
        let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 5, 180, 4, 2, 1, 1]);
        let (id, ours, theirs) = wire.accepted_with(listener, syn);
        wire.send(id, &[1; 1_460]).unwrap();
        assert_eq!((wire.one().data.len(), wire.last_may_fragment), (1_460, false));
        for mtu in first.into_iter().chain([400]) {
            let packet = too_big(&wire, ours, mtu);
            wire.put_bytes(&packet);
            wire.pass(Span::from_secs(2));
            let again = wire.taken();
            assert!(again.iter().any(|seg| seg.seq == ours && seg.data.len() == 512), "{again:?}");
            assert!(again.iter().all(|seg| seg.data.len() <= 512), "{again:?}");
            assert_eq!(wire.last_may_fragment, mtu == 400);
        }
        wire.put(Seg::new(ACK, theirs, ours + 1_460));
        wire.pass(Span::from_secs(601));
        wire.send(id, b"notices").unwrap();
        wire.one();
        wire.put(Seg::new(ACK, theirs, ours + 1_467));
        wire.send(id, &[1; 1_460]).unwrap();
        assert_eq!((wire.one().data.len(), wire.last_may_fragment), (1_460, false));
    }
}

/// RFC 5927 §7.2: a forged report is ignored, and so is one that would make packets absurdly small.
#[test]
fn forged_mtu_reports_do_no_harm() {
    let mut wire = Wire::new();
    let (id, ours, _) = wire.accepted();
    wire.send(id, &[1; 3_000]).unwrap();
    wire.taken();
    let packet = too_big(&wire, ours + 50_000, 600);
    wire.put_bytes(&packet);
    wire.nothing();
    let packet = too_big(&wire, ours, 68);
    wire.put_bytes(&packet);
    let now = wire.now;
    assert!(wire.stack().tcp_info(id, now).unwrap().send_mss >= 500);
}

/// RFC 9293 §3.7.2: the host's own MTU decreases and increases again.
#[test]
fn a_changed_interface_mtu_is_followed() {
    for family in 0..2 {
        let mut pair = SimulatedPair::seeded(1);
        let (client, server, listener) = connected(&mut pair, family);
        let mut flows = [Flow::new((0, client), (1, server), 9_000_000)];
        for mtu in [1300, 1500, 1280, 1500] {
            for (host, peer) in [(0, 1), (1, 0)] {
                let way = Query::to(pair.host(peer).addresses[family]).from(pair.host(host).addresses[family]);
                let now = pair.now();
                let mut info = pair.stack(host).path_get(&way).unwrap().info;
                info.mtu = mtu;
                pair.stack(host).path_set(info, now);
            }
            for from in 0..2 {
                pair.link_mut(from).mtu = mtu as usize;
            }
            let until = flows[0].got.len() + 700_000;
            let went = pair.run_until(Span::from_secs(20), |pair| {
                flows[0].pump(pair);
                flows[0].got.len() >= until
            });
            assert!(went, "MTU {mtu}: {} bytes", flows[0].got.len());
        }
        transfer(&mut pair, &mut flows, Span::from_secs(5));
        close_and_check(&mut pair, client, server, listener);
    }
}

/// RFC 9293 §3.7.1: `TCP_MAXSEG`.
#[test]
fn a_segment_size_that_was_set_is_asked_for_and_kept_to() {
    let mut pair = SimulatedPair::seeded(2);
    let listener = listen(&mut pair, 1, 4);
    pair.stack(1).tcp_listener_set(listener, TcpSetting::MaxSegment(600)).unwrap();
    let client = connect(&mut pair, 0, 4000);
    pair.run_for(Span::from_millis(1));
    let server = pair.stack(1).tcp_accept(listener).unwrap();
    let now = pair.now();
    assert_eq!(pair.stack(0).tcp_info(client, now).unwrap().send_mss, 588);
    assert_eq!(pair.stack(1).tcp_info(server, now).unwrap().send_mss, 588);
}

/// RFC 9293 §3.9.2.2.
#[test]
fn an_unreachable_host_ends_the_attempt() {
    let mut pair = SimulatedPair::seeded(3);
    let client = connect(&mut pair, 0, 4000);
    let way = Query::to(pair.host(1).addresses[0]).from(pair.host(0).addresses[0]);
    let now = pair.now();
    let mut info = pair.stack(0).path_get(&way).unwrap().info;
    info.state = PathState::Unreachable;
    pair.stack(0).path_set(info, now);
    assert!(pair.stack(0).readiness(client.into()).unwrap().contains(Ready::ERR));
    assert_eq!(pair.stack(0).tcp_take_error(client), Ok(Some(StackError::HostUnreachable)));
}
