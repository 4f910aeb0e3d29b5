//! The path to a peer: guessed from its SYN, requested from the host, evicted, lost, and found
//! again.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_sim::PairConfig;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{Metrics, PathInfo, PathState, Query};
use tickwire_stack::tcp::{TcpOptions, TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{Limits, StackError};

/// The host's answer about a destination.
fn told(wire: &Wire, destination: Address, state: PathState, mtu: u32, next_hop: u8) -> PathInfo {
    PathInfo {
        query: Query::to(destination).from(wire.own.address),
        source: wire.own.address,
        interface: 1,
        mtu,
        source_mac: Mac([2, 0, 0, 0, 0, 2]),
        next_hop_mac: Mac([2, 0, 0, 0, 9, next_hop]),
        state,
        ..PathInfo::default()
    }
}

fn tell(wire: &mut Wire, destination: Address, state: PathState, mtu: u32, next_hop: u8) {
    let (info, now) = (told(wire, destination, state, mtu, next_hop), wire.now);
    wire.stack().path_set(info, now);
}

/// The cached path to a destination.
fn known(wire: &mut Wire, destination: Address) -> Option<PathInfo> {
    let query = Query::to(destination).from(wire.own.address);
    wire.stack().path_get(&query).map(|path| path.info)
}

/// The destination for which the stack requests a path.
fn asked(wire: &mut Wire) -> Option<Address> {
    let query = wire.stack().take_request()?;
    assert_eq!((query.source, query.interface), (wire.own.address, 0));
    Some(query.destination)
}

fn stranger(n: u32) -> Address {
    let [_, a, b, c] = n.to_be_bytes();
    Address::v4([10, 1 + a, b, c])
}

/// A wire whose stack knows no path yet, and has room for `paths`.
fn wire(paths: u32) -> Wire {
    let limits = Limits { frames: 1024, tcp: 256, paths, ..Limits::DEFAULT };
    Wire::on(&PairConfig { limits, paths: false, ..PairConfig::default() })
}

/// Like [`wire`], with a connection to a peer whose path the host has resolved.
fn accepted(paths: u32) -> (Wire, tickwire_stack::TcpId, u32, u32) {
    let mut wire = wire(paths);
    let peer = wire.peer.address;
    tell(&mut wire, peer, PathState::Ready, 1500, 1);
    let (id, ours, theirs) = wire.accepted();
    (wire, id, ours, theirs)
}

#[test]
fn a_connection_whose_path_was_evicted_asks_for_it_and_goes_on() {
    let (mut wire, id, _, _) = accepted(8);
    let peer = wire.peer.address;
    for n in 0..64 {
        tell(&mut wire, stranger(n), PathState::Ready, 600, 7);
    }
    assert!(known(&mut wire, peer).is_none(), "strangers fill the cache");
    wire.send(id, &[1; 3000]).unwrap();
    wire.nothing();
    // The process that takes the request may die before it has asked the host.
    for _ in 0..3 {
        assert_eq!(asked(&mut wire), Some(peer));
        assert_eq!(asked(&mut wire), None);
        wire.pass(Span::from_millis(500));
    }
    tell(&mut wire, peer, PathState::Ready, 1500, 3);
    let lens: Vec<_> = wire.taken().iter().map(|seg| seg.data.len()).collect();
    assert_eq!(lens, [1000; 3], "a stranger's MTU is not ours");
    assert_eq!(wire.last_to, [2, 0, 0, 0, 9, 3]);
    let row_mac = wire.stack().socket_row(id.into()).unwrap().next_hop_mac.get();
    assert_ne!(row_mac.0, [2, 0, 0, 0, 9, 7], "nor is its next hop");
}

#[test]
fn a_path_in_use_is_not_evicted() {
    let (mut wire, id, mut ours, theirs) = accepted(8);
    let peer = wire.peer.address;
    for n in 0..256 {
        tell(&mut wire, stranger(n), PathState::Ready, 1500, 7);
        wire.send(id, &[1; 10]).unwrap();
        assert_eq!(wire.one().data.len(), 10, "stranger {n}");
        ours += 10;
        wire.put(Seg::new(ACK, theirs, ours));
        assert!(known(&mut wire, peer).is_some());
    }
}

/// A cable is unplugged for some seconds. Only this stack has a reason to resolve the neighbour
/// again.
#[test]
fn a_neighbour_that_failed_is_asked_for_again() {
    let (mut wire, id, _, _) = accepted(64);
    let peer = wire.peer.address;
    tell(&mut wire, peer, PathState::Unreachable, 0, 1);
    wire.send(id, &[1; 1000]).unwrap();
    wire.pass(Span::from_secs(2));
    assert_eq!(asked(&mut wire), None, "the host's word counts for a while");
    wire.pass(Span::from_secs(10));
    wire.nothing();
    assert_eq!(asked(&mut wire), Some(peer));
    tell(&mut wire, peer, PathState::Ready, 1500, 4);
    wire.pass(Span::from_secs(5));
    let sent = wire.taken();
    assert!(!sent.is_empty() && sent.iter().all(|seg| seg.data.len() == 1000), "{sent:?}");
    assert_eq!(wire.last_to, [2, 0, 0, 0, 9, 4]);
    assert_eq!(wire.state(id), Ok(TcpState::Established));
}

/// As on Linux: route metrics apply to connections over that route, and changes apply at once.
#[test]
fn what_a_route_sets_holds() {
    let (mut wire, id, ours, theirs) = accepted(8);
    let peer = wire.peer.address;
    let set = |wire: &mut Wire, metrics| {
        let (info, now) = (told(wire, peer, PathState::Ready, 1500, 1), wire.now);
        wire.stack().path_set(PathInfo { metrics, ..info }, now);
    };
    let metrics = Metrics { initcwnd: 2, rto_min_ms: 500, quick_ack: true, ..Metrics::default() };
    set(&mut wire, metrics);
    wire.send(id, &[1; 5000]).unwrap();
    assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).collect::<Vec<_>>(), [1000; 2]);
    wire.pass(Span::from_millis(499));
    wire.nothing();
    wire.pass(Span::from_millis(600));
    let furthest = |sent: &[Seg]| sent.iter().map(|seg| seg.end().wrapping_sub(ours)).max();
    let mut got = furthest(&wire.taken()).expect("it is sent again").max(2000);
    while got < 5000 {
        wire.put(Seg::new(ACK, theirs, ours.wrapping_add(got)));
        got = furthest(&wire.taken()).expect("it goes on");
    }
    let ours = ours.wrapping_add(5000);
    wire.put(Seg::new(ACK, theirs, ours));
    wire.taken();
    // Far more segments than get quick acknowledgements at the start.
    for n in 0..40 {
        wire.put(Seg::new(ACK, theirs + n, ours).data(b"x"));
        assert_eq!(wire.one().ack, theirs + n + 1, "segment {n}");
    }
    set(&mut wire, Metrics::default());
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::QuickAck(false)).unwrap();
    // Data sent soon after a received segment makes the exchange interactive.
    wire.send(id, b"answer").unwrap();
    wire.put(Seg::new(ACK, theirs + 40, ours.wrapping_add(6)).data(b"x"));
    wire.taken();
    wire.put(Seg::new(ACK, theirs + 41, ours.wrapping_add(6)).data(b"x"));
    wire.nothing();
}

/// Any host on the link can send a SYN from any address; data is sent only to the next hop that the
/// host has resolved.
#[test]
fn a_guess_answers_the_syn_and_data_waits_for_the_host() {
    let mut wire = wire(64);
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1000, 0));
    let ours = wire.one().seq.wrapping_add(1);
    assert_eq!(wire.last_to, [2, 0, 0, 0, 0, 1], "back to where it came from");
    assert_eq!(asked(&mut wire), None, "the host is not asked about a source that may be forged");
    let (own, peer, now) = (wire.own, wire.peer, wire.now);
    let options = wire.stack().tcp_defaults();
    let other = Endpoint::new(own.address, 2000);
    assert_eq!(
        wire.stack().tcp_connect(&options, other, peer, now),
        Err(StackError::NeedPath),
        "no use is made of it either"
    );
    wire.put(Seg::new(ACK, 1001, ours));
    let id = wire.stack().tcp_accept(listener).unwrap();
    assert_eq!(asked(&mut wire), Some(peer.address));
    wire.send(id, b"secret").unwrap();
    wire.nothing();
    tell(&mut wire, peer.address, PathState::Resolving, 1500, 0);
    wire.put(Seg::new(SYN, 5, 0));
    wire.nothing();
    tell(&mut wire, peer.address, PathState::Ready, 1500, 5);
    assert!(wire.taken().iter().any(|seg| seg.data == b"secret"));
    assert_eq!(wire.last_to, [2, 0, 0, 0, 9, 5]);
}

/// A connection from the forged address of a host that does not exist ends with the host's answer,
/// accepted or not, whether or not data was sent to it.
#[test]
fn a_connection_from_a_forged_address_ends_when_the_host_finds_no_neighbour() {
    for (accepts, greets) in [(false, false), (true, false), (true, true)] {
        let mut wire = wire(64);
        let listener = wire.listen(8);
        wire.put(Seg::new(SYN, 1000, 0));
        let ours = wire.one().seq.wrapping_add(1);
        wire.put(Seg::new(ACK, 1001, ours));
        let mut accepted = accepts.then(|| wire.stack().tcp_accept(listener).unwrap());
        if let Some(id) = accepted.filter(|_| greets) {
            wire.send(id, b"220 hello").unwrap();
        }
        let peer = wire.peer.address;
        assert_eq!(asked(&mut wire), Some(peer));
        tell(&mut wire, peer, PathState::Resolving, 1500, 0);
        // The host reports the failure, or never answers.
        if greets {
            tell(&mut wire, peer, PathState::Unreachable, 1500, 0);
        } else {
            wire.pass(Span::from_secs(4));
        }
        let id = accepted.take().unwrap_or_else(|| wire.stack().tcp_accept(listener).unwrap());
        assert_eq!(wire.recv(id), Err(StackError::HostUnreachable));
        wire.close(id);
        assert_eq!(wire.count("TcpCurrEstab"), 0);
        assert_eq!(wire.held(), 0);
    }
}

/// However late the forger completes the handshake: the time limit counts the host's time for its
/// answer.
#[test]
fn a_made_up_name_that_answers_late_ends_too() {
    for late in [Span::from_millis(10), Span::from_secs(5), Span::from_secs(14)] {
        let mut wire = wire(64);
        let listener = wire.listen(8);
        wire.put(Seg::new(SYN, 1000, 0));
        let ours = wire.one().seq.wrapping_add(1);
        wire.pass(late);
        wire.taken();
        wire.put(Seg::new(ACK, 1001, ours));
        let (id, peer) = (wire.stack().tcp_accept(listener).unwrap(), wire.peer.address);
        assert_eq!(asked(&mut wire), Some(peer));
        tell(&mut wire, peer, PathState::Resolving, 1500, 0);
        wire.pass(Span::from_secs(4));
        assert_eq!(wire.recv(id), Err(StackError::HostUnreachable), "{late:?} late");
        wire.close(id);
        assert_eq!((wire.count("TcpCurrEstab"), wire.held()), (0, 0));
    }
}

/// The host's answer concerns the whole address: a connection from it during the resolution, or
/// just after its failure, is treated alike.
#[test]
fn a_made_up_name_does_not_stay_by_its_second_connection() {
    for gave_up in [false, true] {
        let mut wire = wire(64);
        let (listener, peer) = (wire.listen(8), wire.peer);
        wire.put(Seg::new(SYN, 1000, 0));
        let ours = wire.one().seq.wrapping_add(1);
        wire.peer.port += 1;
        wire.put(Seg::new(SYN, 1000, 0));
        let second = wire.one().seq.wrapping_add(1);
        wire.peer = peer;
        wire.put(Seg::new(ACK, 1001, ours));
        assert_eq!(asked(&mut wire), Some(peer.address));
        let state = if gave_up { PathState::Unreachable } else { PathState::Resolving };
        tell(&mut wire, peer.address, state, 1500, 0);
        wire.peer.port += 1;
        wire.put(Seg::new(ACK, 1001, second));
        wire.pass(Span::from_secs(4));
        while let Ok(id) = wire.stack().tcp_accept(listener) {
            assert_eq!(wire.recv(id), Err(StackError::HostUnreachable));
            wire.close(id);
        }
        assert_eq!(wire.count("TcpCurrEstab"), 0);
    }
}

/// The host has found the peer that was unknown at the time of the SYN; from then on it is a peer
/// like any other.
#[test]
fn a_peer_that_the_host_has_found_outlives_its_neighbour_entry() {
    for idle in [Span::from_millis(10), Span::from_secs(60)] {
        let mut wire = wire(64);
        let (id, ours, theirs) = wire.accepted();
        let peer = wire.peer.address;
        assert_eq!(asked(&mut wire), Some(peer));
        wire.pass(Span::from_millis(10));
        tell(&mut wire, peer, PathState::Ready, 1500, 1);
        wire.pass(idle);
        wire.send(id, b"hello").unwrap();
        assert_eq!(wire.one().data, b"hello");
        tell(&mut wire, peer, PathState::Unreachable, 1500, 1);
        assert_eq!(wire.state(id), Ok(TcpState::Established), "{idle:?}");
        wire.pass(Span::from_secs(1));
        tell(&mut wire, peer, PathState::Ready, 1500, 1);
        wire.pass(Span::from_secs(2));
        assert!(wire.taken().iter().any(|seg| seg.data == b"hello"));
        wire.put(Seg::new(ACK, theirs, ours + 5));
        assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    }
}

/// A peer that has acknowledged data, or that has been connected for long, survives failures of its
/// neighbour entry.
#[test]
fn a_connection_outlives_a_neighbour_that_fails_for_a_while() {
    for proven in [true, false] {
        let (mut wire, id, ours, theirs) = accepted(64);
        let peer = wire.peer.address;
        if proven {
            wire.send(id, b"x").unwrap();
            wire.one();
            wire.put(Seg::new(ACK, theirs, ours + 1));
        } else {
            wire.pass(Span::from_secs(60));
        }
        tell(&mut wire, peer, PathState::Unreachable, 1500, 1);
        wire.pass(Span::from_secs(5));
        tell(&mut wire, peer, PathState::Ready, 1500, 1);
        assert_eq!(wire.state(id), Ok(TcpState::Established));
        assert_eq!(wire.recv(id), Err(StackError::WouldBlock));
    }
}

#[test]
fn the_hosts_word_is_not_overruled_by_a_packet() {
    for state in [PathState::Kernel, PathState::Unreachable, PathState::Resolving] {
        let mut wire = wire(64);
        let peer = wire.peer.address;
        wire.listen(8);
        tell(&mut wire, peer, state, 1500, 1);
        wire.put(Seg::new(SYN, 1000, 0));
        wire.put(Seg::new(ACK, 1000, 0));
        wire.nothing();
        assert_eq!(known(&mut wire, peer).unwrap().state, state);
        // Nor for a segment to a closed port.
        wire.own.port += 1;
        wire.put(Seg::new(SYN, 1000, 0));
        wire.nothing();
    }
}

/// RFC 1122 §3.2.1.3, RFC 9293 §3.9.2.3 (MUST-63): a SYN from an address that is not a single
/// host's, or from our own, is dropped silently.
#[test]
fn a_syn_from_an_impossible_address_is_not_answered() {
    let mut wire = wire(64);
    wire.listen(8);
    let (peer, own) = (wire.peer, wire.own);
    let mut packet = Seg::new(SYN, 1000, 0).packet(peer, own);
    packet[6] |= 1;
    wire.put_bytes(&packet);
    packet[6..12].fill(0xff);
    wire.put_bytes(&packet);
    wire.put_bytes(&Seg::new(SYN, 1000, 0).packet(Endpoint::new(own.address, 4000), own));
    wire.nothing();
    assert_eq!(wire.count("IpInAddrErrors"), 3);
}

/// RFC 4987. Neither the path cache nor the host is affected.
#[test]
fn a_flood_of_syns_costs_no_path_and_no_request() {
    let (mut wire, id, _, _) = accepted(64);
    let (peer, own) = (wire.peer, wire.own);
    for n in 0..2000 {
        let from = Endpoint::new(stranger(n), 4000);
        wire.put_bytes(&Seg::new(SYN, 1000, 0).packet(from, own));
        wire.put_bytes(&Seg::new(ACK, 1000, 7).packet(from, Endpoint::new(own.address, 81)));
    }
    let answers = wire.taken();
    assert_eq!(answers.iter().filter(|seg| seg.bits == SYN | ACK).count(), 2000);
    assert_eq!(answers.iter().filter(|seg| seg.bits == RST).count(), 2000);
    assert!(wire.count("TcpExtSyncookiesSent") > 0);
    assert_eq!(asked(&mut wire), None);
    let guesses = (0..2000).filter(|n| known(&mut wire, stranger(*n)).is_some()).count();
    assert!(guesses <= 16, "{guesses}");
    wire.send(id, b"still here").unwrap();
    assert_eq!(wire.one().data, b"still here");
    // The guessed paths are removed with their failed connections.
    wire.pass(Span::from_secs(300));
    wire.taken();
    assert!((0..2000).all(|n| known(&mut wire, stranger(n)).is_none()));
    assert!(known(&mut wire, peer.address).is_some());
}

/// RFC 4987 §3.6: a valid cookie is equivalent to an acknowledged SYN-ACK.
#[test]
fn a_connection_from_a_cookie_asks_the_host_too() {
    let mut wire = wire(2);
    let listener = wire.listen(8);
    wire.put(Seg::new(SYN, 1000, 0));
    let ours = wire.one().seq.wrapping_add(1);
    assert_eq!(wire.count("TcpExtSyncookiesSent"), 1);
    wire.put(Seg::new(ACK, 1001, ours));
    let (id, peer) = (wire.stack().tcp_accept(listener).unwrap(), wire.peer.address);
    wire.send(id, b"secret").unwrap();
    wire.nothing();
    assert_eq!(asked(&mut wire), Some(peer));
    tell(&mut wire, peer, PathState::Ready, 1500, 5);
    assert_eq!(wire.one().data, b"secret");
}

/// As on Linux (`SO_BINDTODEVICE`, a link-local peer): packets of another interface are not
/// delivered to it. The wire's packets arrive by interface 1.
#[test]
fn a_connection_that_is_bound_to_an_interface_hears_nothing_by_another() {
    for interface in [1, 2] {
        let mut wire = wire(64);
        let (own, peer, now) = (wire.own, wire.peer, wire.now);
        let query = Query::to(peer.address).from(own.address).by(interface);
        let way = PathInfo { query, ..told(&wire, peer.address, PathState::Ready, 1500, 3) };
        wire.stack().path_set(way, now);
        let options = TcpOptions { interface, ..wire.stack().tcp_defaults() };
        let id = wire.stack().tcp_connect(&options, own, peer, now).unwrap();
        let syn = wire.one();
        assert_eq!(wire.last_to, [2, 0, 0, 0, 9, 3]);
        wire.put(Seg::new(SYN | ACK, 1000, syn.seq.wrapping_add(1)));
        let heard = if interface == 1 { TcpState::Established } else { TcpState::SynSent };
        assert_eq!(wire.state(id), Ok(heard));
        assert_eq!(wire.taken().len(), usize::from(interface == 1), "no answer to what is not for it");
        assert_eq!(wire.count("TcpNoSocket"), u64::from(interface == 2));
    }
}
