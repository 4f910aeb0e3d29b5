//! UDP between two hosts, as a program sees it.

mod common;

use common::{counter, frame, ip, open, open_with, pattern, received, send, udp};
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::Span;
use tickwire_stack::udp::{MtuDiscover, SendTo, UdpOptions};
use tickwire_stack::{Limits, Ready, StackError};

const MS: Span = Span::from_millis(1);

/// RFC 768, RFC 1122 §4.1.3.5: both families, all sizes around every boundary, up to the largest
/// datagram.
#[test]
fn datagrams_of_every_size_arrive_whole() {
    for family in 0..2 {
        let mut pair = SimulatedPair::new(&PairConfig::default());
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let a = open(&mut pair, 0, from, 1000);
        let b = open(&mut pair, 1, to, 2000);
        let mut sizes =
            vec![0, 1, 2, 7, 63, 64, 1400, 1451, 1452, 1453, 1471, 1472, 1473, 1920, 1921, 2960, 8972, 30_001];
        sizes.push([65_507, 65_527][family]);
        for (salt, &size) in sizes.iter().enumerate() {
            let sent = pattern(size, salt as u8);
            assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &sent), Ok(size));
            pair.run_for(MS);
            assert_eq!(received(&mut pair, 1, b), [sent], "family {family}, {size} bytes");
        }
        let too_long = vec![0; sizes.last().unwrap() + 1];
        assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &too_long), Err(StackError::MessageTooLong));
        pair.run_for(MS);
        assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    }
}

/// Many unread sockets, each below its own limit, must not hold all frames: without any in the fill
/// ring a lane receives nothing.
#[test]
fn unread_sockets_leave_frames_to_receive_into() {
    let limits = Limits { frames: 1024, udp: 256, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let unread: Vec<_> = (0..250).map(|n| open(&mut pair, 1, to, 2000 + n)).collect();
    for _ in 0..16 {
        for n in 0..250 {
            // A datagram that finds no room is not sent.
            let _ = send(&mut pair, 0, a, Endpoint::new(to, 2000 + n), b"unread");
            pair.run_for(Span::from_micros(20));
        }
    }
    let filled = pair.stack(1).filled();
    assert!(filled > 100, "{filled} frames are set aside for receiving");
    assert!(unread.iter().any(|&socket| !received(&mut pair, 1, socket).is_empty()));
}

#[test]
fn jumbo_frames_from_a_peer_are_taken_in_pieces() {
    let mut pair = SimulatedPair::seeded(1);
    let [peer, own] = [1, 0].map(|h| pair.host(h).addresses[0]);
    let (from, to) = (Endpoint::new(peer, 9), Endpoint::new(own, 1000));
    let socket = open(&mut pair, 0, own, 1000);
    for size in [1792 - 42, 1792 - 41, 3542, 8972] {
        let sent = pattern(size, 3);
        let packet = frame(&ip(peer, own, 17, &udp(from, to, &sent)));
        let now = pair.now();
        assert!(pair.host_mut(0).receive(now, &packet));
        assert_eq!(received(&mut pair, 0, socket), [sent], "{size} bytes");
    }
    assert_eq!(pair.frames_held(0), 0);
}

/// RFC 1122 §4.1.3.5, RFC 3542 §6.
#[test]
fn a_receive_tells_where_from_where_to_and_how() {
    let mut pair = SimulatedPair::seeded(1);
    for family in 0..2 {
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let a = open(&mut pair, 0, from, 1000);
        let b = open(&mut pair, 1, [Address::ANY_V4, Address::ANY][family], 2000);
        let now = pair.now();
        let how = SendTo {
            destination: Some(Endpoint::new(to, 2000)),
            ttl: Some(9),
            tos: Some(0xb8),
            source: Some(from),
            interface: 0,
            segment: None,
        };
        // Packets of another type of service may take another path: the host is asked.
        let asked = pair.stack(0).udp_send(a, now, &how, &mut &b"hello"[..]);
        assert_eq!(asked, Err(StackError::NeedPath));
        let known = pair.stack(0).path_get(&Query::to(to).from(from)).unwrap().info;
        let query = pair.stack(0).udp_query(a, &how).unwrap();
        assert_eq!(query, known.query.of_service(0xb8));
        pair.stack(0).path_set(PathInfo { query, ..known }, now);
        pair.stack(0).udp_send(a, now, &how, &mut &b"hello"[..]).unwrap();
        pair.run_for(MS);
        let mut bytes = [0; 3];
        let peeked = pair.stack(1).udp_recv(b, true, &mut &mut bytes[..]).unwrap();
        let taken = pair.stack(1).udp_recv(b, false, &mut &mut bytes[..]).unwrap();
        assert_eq!(peeked, taken);
        assert_eq!((taken.len, taken.copied, &bytes), (5, 3, b"hel"));
        assert_eq!((taken.source, taken.destination), (Endpoint::new(from, 1000), to));
        assert_eq!((taken.ttl, taken.tos), (9, 0xb8));
        assert!(taken.at > now);
        assert_eq!(pair.stack(1).udp_recv(b, false, &mut &mut bytes[..]), Err(StackError::WouldBlock));
        pair.stack(1).udp_close(b).unwrap();
    }
}

#[test]
fn a_connected_socket_hears_its_peer_only_and_an_unconnected_one_all() {
    let mut pair = SimulatedPair::seeded(1);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let (a, other) = (open(&mut pair, 0, from, 1000), open(&mut pair, 0, from, 1001));
    let b = open(&mut pair, 1, Address::ANY_V4, 2000);
    let now = pair.now();
    pair.stack(1).udp_connect(b, now, Some(Endpoint::new(from, 1000)), 0).unwrap();
    assert_eq!(pair.stack(1).udp_names(b).unwrap().0.address, to, "the local address is settled by connecting");
    for (socket, bytes) in [(a, b"a"), (other, b"o")] {
        send(&mut pair, 0, socket, Endpoint::new(to, 2000), bytes).unwrap();
    }
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b), [b"a"]);
    assert_eq!(counter(&mut pair, 1, "UdpNoPorts"), 1);
    let now = pair.now();
    pair.stack(1).udp_send(b, now, &SendTo::default(), &mut &b"back"[..]).unwrap();
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 0, a), [b"back"]);
    let now = pair.now();
    pair.stack(1).udp_connect(b, now, None, 0).unwrap();
    send(&mut pair, 0, other, Endpoint::new(to, 2000), b"o").unwrap();
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b), [b"o"]);
    assert_eq!(pair.stack(1).udp_send(b, now, &SendTo::default(), &mut &b"x"[..]), Err(StackError::NotConnected));
}

/// RFC 1122 §4.1.3.5, RFC 3493 §3.7.
#[test]
fn the_best_fitting_socket_gets_the_datagram() {
    let mut pair = SimulatedPair::seeded(1);
    let [v4, v6] = pair.host(1).addresses;
    let dual = open(&mut pair, 1, Address::ANY, 2000);
    let any = open(&mut pair, 1, Address::ANY_V4, 2000);
    let exact = open(&mut pair, 1, v4, 2000);
    let from = [0, 1].map(|f| pair.host(0).addresses[f]);
    let senders = [open(&mut pair, 0, from[0], 1), open(&mut pair, 0, from[1], 1)];
    let round = |pair: &mut SimulatedPair| {
        send(pair, 0, senders[0], Endpoint::new(v4, 2000), b"4").unwrap();
        send(pair, 0, senders[1], Endpoint::new(v6, 2000), b"6").unwrap();
        pair.run_for(MS);
    };
    round(&mut pair);
    assert_eq!((received(&mut pair, 1, exact), received(&mut pair, 1, any).len()), (vec![b"4".to_vec()], 0));
    assert_eq!(received(&mut pair, 1, dual), [b"6"]);
    pair.stack(1).udp_close(exact).unwrap();
    round(&mut pair);
    assert_eq!((received(&mut pair, 1, any).len(), received(&mut pair, 1, dual).len()), (1, 1));
    pair.stack(1).udp_close(any).unwrap();
    round(&mut pair);
    assert_eq!(received(&mut pair, 1, dual).len(), 2, "a dual-stack socket takes both families");
    pair.stack(1).udp_close(dual).unwrap();
    let six = open_with(&mut pair, 1, Address::ANY, 2000, UdpOptions { v6only: true, ..UdpOptions::default() });
    round(&mut pair);
    assert_eq!(received(&mut pair, 1, six), [b"6"]);
}

#[test]
fn sockets_that_share_a_port_share_the_flows_and_a_flow_stays_with_its_socket() {
    let mut pair = SimulatedPair::seeded(3);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let shares = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let workers: Vec<_> = (0..4).map(|_| open_with(&mut pair, 1, to, 2000, shares)).collect();
    let mut owners = Vec::new();
    for port in 1000..1064 {
        let sender = open(&mut pair, 0, from, port);
        for _ in 0..3 {
            send(&mut pair, 0, sender, Endpoint::new(to, 2000), b"x").unwrap();
        }
        pair.run_for(MS);
        let got: Vec<usize> = workers.iter().map(|&w| received(&mut pair, 1, w).len()).collect();
        owners.push(got.iter().position(|&n| n == 3).unwrap_or_else(|| panic!("flow {port} was split: {got:?}")));
    }
    for worker in 0..4 {
        assert!(owners.iter().filter(|&&o| o == worker).count() >= 4, "{owners:?}");
    }
}

#[test]
fn of_sockets_that_reuse_an_address_the_one_that_was_bound_last_hears_all() {
    let mut pair = SimulatedPair::seeded(3);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let mut sockets: Vec<_> = (0..3).map(|_| open(&mut pair, 1, to, 2000)).collect();
    let mut port = 1000;
    while let Some(last) = sockets.pop() {
        for _ in 0..8 {
            let sender = open(&mut pair, 0, from, port);
            send(&mut pair, 0, sender, Endpoint::new(to, 2000), b"x").unwrap();
            port += 1;
        }
        pair.run_for(MS);
        assert_eq!(received(&mut pair, 1, last).len(), 8);
        assert!(sockets.iter().all(|&other| received(&mut pair, 1, other).is_empty()));
        pair.stack(1).udp_close(last).unwrap();
    }
}

#[test]
fn a_full_receive_queue_drops_and_counts_and_recovers() {
    let mut pair = SimulatedPair::seeded(1);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open_with(&mut pair, 1, to, 2000, UdpOptions { rcvbuf: 10_000, ..UdpOptions::default() });
    for _ in 0..100 {
        send(&mut pair, 0, a, Endpoint::new(to, 2000), &[1; 100]).unwrap();
    }
    pair.run_for(MS);
    let got = received(&mut pair, 1, b).len();
    assert!((10..30).contains(&got), "{got}");
    assert_eq!(counter(&mut pair, 1, "UdpRcvbufErrors"), 100 - got as u64);
    assert_eq!(pair.stack(1).socket_row(b.into()).unwrap().drops.get(), 100 - got as u32);
    send(&mut pair, 0, a, Endpoint::new(to, 2000), b"again").unwrap();
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b).len(), 1);
}

#[test]
fn a_sender_that_is_too_fast_has_to_wait_and_is_told_when_to_go_on() {
    let limits = Limits { frames: 256, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let mut sent = 0;
    while send(&mut pair, 0, a, Endpoint::new(to, 2000), &[0; 1400]) == Ok(1400) {
        sent += 1;
    }
    assert!((100..256).contains(&sent), "{sent}");
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x"), Err(StackError::WouldBlock));
    assert!(!pair.stack(0).readiness(a.into()).unwrap().contains(Ready::OUT));
    let set = pair.stack(0).set_create().unwrap();
    let out = tickwire_stack::epoll_sets::Interest::edge(Ready::OUT);
    pair.stack(0).item_add(set, a.into(), 0, out, 5).unwrap();
    assert_eq!(pair.stack(0).set_wait(set, 9, |_| {}), Ok(0));
    pair.run_for(MS);
    let mut events = Vec::new();
    pair.stack(0).set_wait(set, 9, |event| events.push(event.data)).unwrap();
    assert_eq!(events, [5]);
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x"), Ok(1));
}

#[test]
fn a_sender_that_waits_because_receivers_hold_all_frames_goes_on_when_they_read() {
    let limits = Limits { frames: 256, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let options = UdpOptions { rcvbuf: 1 << 20, ..UdpOptions::default() };
    let b = open_with(&mut pair, 1, to, 2000, options);
    for _ in 0..300 {
        let _ = send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x");
        pair.run_for(Span::from_micros(50));
    }
    assert_eq!(pair.stack(1).readiness(b.into()), Ok(Ready::IN), "no room, though no send has failed");
    let set = pair.stack(1).set_create().unwrap();
    let out = tickwire_stack::epoll_sets::Interest::edge(Ready::OUT);
    pair.stack(1).item_add(set, b.into(), 0, out, 5).unwrap();
    assert_eq!(pair.stack(1).set_wait(set, 9, |_| {}), Ok(0));
    assert!(received(&mut pair, 1, b).len() > 64);
    assert_eq!(pair.stack(1).set_wait(set, 9, |_| {}), Ok(1));
    assert_eq!(send(&mut pair, 1, b, Endpoint::new(from, 1000), b"back"), Ok(4));
}

/// RFC 1191 §3.
#[test]
fn what_may_not_be_fragmented_is_refused() {
    let mut pair = SimulatedPair::seeded(1);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let options = UdpOptions { mtu_discover: MtuDiscover::Do, ..UdpOptions::default() };
    let a = open_with(&mut pair, 0, from, 1000, options);
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &[0; 1472]), Ok(1472));
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &[0; 1473]), Err(StackError::MessageTooLong));
}

/// RFC 1122 §2.3.2.2, RFC 4861 §7.2.2: packets that wait for address resolution are sent once it
/// succeeds.
#[test]
fn packets_wait_for_the_neighbour_and_go_out_in_order_once_it_is_known() {
    let mut pair = SimulatedPair::new(&PairConfig { paths: false, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    let peer = Endpoint::new(to, 2000);
    assert_eq!(send(&mut pair, 0, a, peer, b"x"), Err(StackError::NeedPath));
    let now = pair.now();
    let resolving = PathInfo {
        query: Query::to(to).from(from),
        source: from,
        mtu: 1500,
        state: PathState::Resolving,
        ..PathInfo::default()
    };
    pair.stack(0).path_set(resolving, now);
    for i in 0..5u8 {
        assert_eq!(send(&mut pair, 0, a, peer, &[i]), Ok(1));
    }
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b).len(), 0);
    pair.resolve(0);
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b), (0..5u8).map(|i| vec![i]).collect::<Vec<_>>());
    assert_eq!(pair.frames_held(0), 0);
}

/// RFC 4861 §7.2.2: when resolution has failed, waiting packets are dropped, and the sender gets an
/// error.
#[test]
fn a_neighbour_that_never_answers_costs_its_packets_and_then_an_error() {
    let mut pair = SimulatedPair::new(&PairConfig { paths: false, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let now = pair.now();
    let resolving = PathInfo {
        query: Query::to(to).from(from),
        source: from,
        mtu: 1500,
        state: PathState::Resolving,
        ..PathInfo::default()
    };
    pair.stack(0).path_set(resolving, now);
    for _ in 0..300 {
        let _ = send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x");
    }
    assert!(pair.frames_held(0) <= 128, "waiting packets are bounded");
    pair.run_for(Span::from_secs(4));
    assert_eq!(pair.frames_held(0), 0);
    assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x"), Err(StackError::NoPath));
    pair.run_for(Span::from_secs(4));
    assert_eq!(
        send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x"),
        Err(StackError::NeedPath),
        "the verdict is not for ever"
    );
}

#[test]
fn a_full_path_cache_forgets_what_was_not_used() {
    let limits = Limits { paths: 8, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    let now = pair.now();
    for n in 0..200u8 {
        let other = Address::v4([10, 0, 1, n]);
        let info = PathInfo {
            query: Query::to(other).from(from),
            source: from,
            mtu: 1500,
            state: PathState::Ready,
            ..PathInfo::default()
        };
        pair.stack(0).path_set(info, now);
        assert!(pair.stack(0).path_get(&Query::to(other).from(from)).is_some());
        if send(&mut pair, 0, a, Endpoint::new(to, 2000), b"x") == Err(StackError::NeedPath) {
            pair.resolve(0);
        }
        pair.run_for(MS);
    }
    assert!(received(&mut pair, 1, b).len() > 150);
}

#[test]
fn after_a_restart_everything_is_new_and_nothing_is_lost_but_the_sockets() {
    let mut pair = SimulatedPair::seeded(1);
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let a = open(&mut pair, 0, from, 1000);
    let b = open(&mut pair, 1, to, 2000);
    for _ in 0..50 {
        send(&mut pair, 0, a, Endpoint::new(to, 2000), &[0; 3000]).unwrap();
    }
    pair.run_for(MS);
    send(&mut pair, 0, a, Endpoint::new(to, 2000), &[0; 3000]).unwrap();
    pair.flush();
    for host in 0..2 {
        pair.stack(host).restart(&tickwire_stack::StackConfig::default());
        pair.resolve(host);
    }
    assert_eq!(pair.stack(1).readiness(b.into()), Err(StackError::Stale));
    pair.run_for(MS);
    assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    let again = open(&mut pair, 0, from, 1000);
    assert_ne!(again, a);
    let b = open(&mut pair, 1, to, 2000);
    send(&mut pair, 0, again, Endpoint::new(to, 2000), b"new").unwrap();
    pair.run_for(MS);
    assert_eq!(received(&mut pair, 1, b), [b"new"]);
}

#[test]
fn shutting_and_errors_show_in_readiness() {
    let mut pair = SimulatedPair::seeded(1);
    let own = pair.host(0).addresses[0];
    let a = open(&mut pair, 0, own, 1000);
    assert_eq!(pair.stack(0).readiness(a.into()), Ok(Ready::OUT));
    assert_eq!(pair.stack(0).udp_shutdown(a, true, false), Err(StackError::NotConnected));
    assert_eq!(pair.stack(0).readiness(a.into()), Ok(Ready::IN | Ready::OUT | Ready::RDHUP));
    assert_eq!(pair.stack(0).udp_recv(a, false, &mut Vec::new()), Err(StackError::WouldBlock));
    assert_eq!(pair.stack(0).udp_is_shut(a), Ok(true));
    let _ = pair.stack(0).udp_shutdown(a, false, true);
    assert!(pair.stack(0).readiness(a.into()).unwrap().contains(Ready::HUP));
    let to = Endpoint::new(pair.host(1).addresses[0], 1);
    assert_eq!(send(&mut pair, 0, a, to, b"x"), Err(StackError::Pipe));
}
