//! Listeners that close, and what becomes of the connections that they had.

mod common;

use common::tcp_flag::{ACK, FIN, RST, SYN};
use common::{
    Client, LaneOf, PEER, TIMEOUT, Wire, World, accepted, checksum, connecting, now, release, segment, skipped, until,
    within,
};
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, SockaddrStorage, bind, getsockopt, shutdown, socket, sockopt,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tickwire_lane::control::{Claim, ClaimKind, ClaimPart, CountersOf, Parts, Push, Reason, Reply, Request};
use tickwire_service::Attach;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::ids::TcpId;
use tickwire_stack::udp::UdpOptions;
use tickwire_stack::{SocketId, Stack};

/// A program whose listener at port 8080 has accepted one connection, and then closed.
struct Closed {
    client: Client,
    claim: Claim,
    lane: LaneOf,
    stack: Stack<'static>,
    connection: TcpId,
    peer: TcpStream,
}

impl Closed {
    fn new(world: &World) -> Self {
        Self::beside(world, &[])
    }

    /// It reports that it had connections to these, too.
    fn beside(world: &World, others: &[SocketAddr]) -> Self {
        let (mut client, lane, mut stack) = world.program();
        stack.path_set(client.path(PEER), now());
        let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
        let claim = client.claim_bound(&listener).unwrap();
        let id = stack.tcp_listen(&stack.tcp_defaults(), Endpoint::new(Address::ANY_V4, 8080), 16).unwrap();
        let peer = connecting(world, 0, 8080);
        let connection = lane.accept(&mut stack, id);
        peer.set_nonblocking(false).unwrap();
        peer.set_read_timeout(Some(TIMEOUT)).unwrap();
        let remotes = [others, &[peer.local_addr().unwrap()]].concat();
        assert_eq!(client.convert(claim, &remotes, false), None);
        drop(listener);
        stack.tcp_close_listener(id, now()).unwrap();
        Self { client, claim, lane, stack, connection, peer }
    }

    /// Reports that connections to these are over.
    fn has_ended(&mut self, remotes: &[SocketAddr]) {
        let part = |&remote: &SocketAddr| ClaimPart { claim: self.claim, remote: remote.into() };
        for parts in remotes.iter().map(part).collect::<Vec<_>>().chunks(Parts::MAX) {
            let release = Request::Release { parts: Parts::new(parts) };
            assert!(matches!(self.client.request(&release, &[]).0, Reply::Done));
        }
    }

    /// The connection works in both directions, by the lane.
    fn lives(&mut self) {
        let Self { lane, stack, connection, peer, .. } = self;
        peer.write_all(b"ping").unwrap();
        let mut got = [0; 16];
        lane.turn_until(stack, "data still comes", |stack| {
            let mut room = &mut got[..];
            stack.tcp_recv(*connection, now(), Default::default(), &mut room).is_ok_and(|n| n == 4)
        });
        stack.tcp_send(*connection, now(), false, &mut &b"pong"[..]).unwrap();
        lane.turn(stack);
        let mut answer = [0; 4];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"pong");
    }
}

#[test]
fn a_listener_that_closes_keeps_its_connections_and_frees_the_port() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    Closed::new(&world).lives();
    // New ones are refused by the kernel: no socket listens.
    let refused = within(&world.pair.b, || TcpStream::connect(world.a(8080)));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Whether a port can be bound by a socket that shares it with nothing, not even with a claim's
/// socket.
fn is_free(world: &World, port: u16) -> bool {
    within(&world.pair.a, || {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(world.a(port))).is_ok()
    })
}

#[test]
fn the_claim_of_a_closed_listener_goes_with_its_last_connection() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nflows_per_user = 4\n");
    let mut closed = Closed::beside(&world, &[world.b(9998)]);
    closed.has_ended(&[world.b(9998)]);
    closed.lives();
    assert!(!is_free(&world, 8080));
    let peer = closed.peer.local_addr().unwrap();
    // Connections that were reported already, and those that never were, do not count.
    closed.has_ended(&[world.b(9998), world.b(9997)]);
    closed.lives();
    closed.has_ended(&[peer]);
    until("the port is free", || is_free(&world, 8080));
    // A server of FTP opens a listener for each transfer.
    for n in 0..20 {
        let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8090").unwrap());
        let mut claim = Err(Reason::None);
        until("there is room for its claim", || {
            claim = closed.client.claim_bound(&listener);
            claim.is_ok()
        });
        closed.claim = claim.unwrap();
        let remotes: Vec<SocketAddr> = (0..n % 3).map(|port| world.b(9000 + port)).collect();
        assert_eq!(closed.client.convert(closed.claim, &remotes, false), None);
        drop(listener);
        if n % 3 > 0 {
            closed.has_ended(&remotes);
        }
        until("the port is free", || is_free(&world, 8090));
    }
}

#[test]
fn at_any_limit_the_connections_of_a_closed_listener_go_on() {
    if skipped() {
        return;
    }
    for limit in ["flows_per_user", "flows"] {
        let world = World::with(Attach::Tc, &format!("[limits]\n{limit} = 3\n"));
        let others: Vec<SocketAddr> = (0..10).map(|port| world.b(9000 + port)).collect();
        let mut closed = Closed::beside(&world, &others);
        closed.lives();
        closed.has_ended(&others);
        closed.lives();
        // The packets for another listener would be diverted: the host allows none, as while the
        // first one listened.
        let other = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080"));
        assert_eq!(other.unwrap_err().kind(), ErrorKind::AddrInUse, "{limit}");
        let peer = closed.peer.local_addr().unwrap();
        closed.has_ended(&[peer]);
        until("the port is free", || is_free(&world, 8080));
        let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
        assert!(closed.client.claim_bound(&listener).is_ok(), "{limit}");
    }
}

/// The next sequence number of a socket.
fn next_sequence(socket: &TcpStream) -> u32 {
    let mut sequence = 0_u32;
    let set = |option, value: libc::c_int| {
        // SAFETY: the option's value is an integer, alive for the call.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_TCP,
                option,
                (&raw const value).cast(),
                size_of_val(&value) as u32,
            )
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    const SEND_QUEUE: libc::c_int = 2;
    const OFF_WITHOUT_A_WORD: libc::c_int = -1;
    set(libc::TCP_REPAIR, 1);
    set(libc::TCP_REPAIR_QUEUE, SEND_QUEUE);
    let mut length = size_of_val(&sequence) as libc::socklen_t;
    // SAFETY: the option's value is an integer of the length given, both alive for the call.
    let done = unsafe {
        let (option, value) = (libc::TCP_QUEUE_SEQ, (&raw mut sequence).cast());
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_TCP, option, value, &raw mut length)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    set(libc::TCP_REPAIR, OFF_WITHOUT_A_WORD);
    sequence
}

#[test]
fn a_lane_that_does_not_see_an_idle_connection_cannot_take_it() {
    if skipped() {
        return;
    }
    const FAR: u32 = 1 << 30;
    for (attach, beyond) in [(Attach::Tc, FAR), (Attach::Native, FAR), (Attach::Tc, 100_u32.wrapping_neg())] {
        let world = World::new(attach);
        let mut closed = Closed::new(&world);
        let _next = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
        let wire = Wire::new(&world);
        let begin = next_sequence(&closed.peer).wrapping_add(beyond);
        let (from, at) = (closed.peer.local_addr().unwrap(), world.a(8080));
        wire.sender.send(&segment(Mac([2, 0, 0, 0, 0, 0x77]), from, at, SYN, begin)).unwrap();
        for flags in [SYN | RST, SYN | FIN, SYN | FIN | RST, SYN, RST] {
            wire.send(from, at, flags, begin);
        }
        // Not the SYNs, which are for the present owner of the port.
        let lane = closed.lane.lane;
        let before = closed.client.counters(CountersOf::Lane, lane)[0];
        wire.send(from, at, RST, begin.wrapping_add(FAR));
        until("all have come", || closed.client.counters(CountersOf::Lane, lane)[0] > before);
        closed.lives();
        // Nor by going on as if that had been answered, however near it is to the connection.
        wire.send(from, at, ACK, begin.wrapping_add(1));
        closed.lives();
    }
}

#[test]
fn connections_that_a_closed_listener_never_had_are_those_of_the_next() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let (mut client, lane) = world.laned();
        let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
        let claim = client.claim_bound(&listener).unwrap();
        assert_eq!(client.convert(claim, &[world.b(9999)], false), None);
        drop(listener);
        // A segment that any host may send proves nothing.
        let wire = Wire::new(&world);
        wire.send(world.b(9999), world.a(8080), ACK, 1);
        until("it has come", || client.counters(CountersOf::Lane, lane.lane)[0] == 1);
        let next = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
        let (mut ours, peer) = accepted(&world, &next, 9999);
        // No more than a window is a segment that is far from the last one another connection's.
        wire.send(world.b(9999), world.a(8080), ACK, next_sequence(&peer).wrapping_add(1 << 30));
        // All of it, far beyond where it began.
        const MUCH: usize = 20 << 20;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&peer).write_all(&vec![7; MUCH]).unwrap();
                peer.shutdown(std::net::Shutdown::Write).unwrap();
            });
            assert_eq!(std::io::copy(&mut ours, &mut std::io::sink()).unwrap(), MUCH as u64);
        });
        assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], 1, "{attach:?}");
    }
}

/// An ICMP error of host `b`: a segment of `sequence` between these ends, ours first, needs pieces
/// of so many bytes (RFC 1191).
fn too_big(to: Mac, ours: SocketAddr, theirs: SocketAddr, sequence: u32, mtu: u16) -> Vec<u8> {
    let (SocketAddr::V4(ours), SocketAddr::V4(theirs)) = (ours, theirs) else { panic!("IPv4") };
    let ip = |protocol: u8, length: u8, from: [u8; 4], to: [u8; 4]| {
        let mut header = [&[0x45, 0, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0][..], &from, &to].concat();
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum);
        header
    };
    let [a, b] = [ours.ip().octets(), theirs.ip().octets()];
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(ip(6, 40, a, b));
    icmp.extend(ours.port().to_be_bytes());
    icmp.extend(theirs.port().to_be_bytes());
    icmp.extend(sequence.to_be_bytes());
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);
    [&to.0[..], &[2, 0, 0, 0, 0, 9, 8, 0], &ip(1, 20 + icmp.len() as u8, b, a), &icmp].concat()
}

#[test]
fn what_a_router_says_of_a_connection_goes_to_its_owner() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane) = world.laned();
    let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
    let claim = client.claim_bound(&listener).unwrap();
    assert_eq!(client.convert(claim, &[world.b(9999)], false), None);
    drop(listener);
    let next = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
    let (ours, _peer) = accepted(&world, &next, 9999);
    let wire = Wire::new(&world);
    let error = too_big(wire.here, world.a(8080), world.b(9999), next_sequence(&ours), 1000);
    wire.sender.send(&error).unwrap();
    until("its path is narrower", || getsockopt(&ours, sockopt::IpMtu) == Ok(1000));
    assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], 0);
}

#[test]
fn a_claim_of_which_a_killed_process_has_not_learned_ends_with_its_connection() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane) = world.laned();
    let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
    let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    let ports = Request::Ports { source: world.a(0).ip().into(), count: 16 };
    for (request, descriptors) in [(claim, vec![listener.as_fd()]), (ports, Vec::new())] {
        let mut killed = world.client();
        let attach = Request::Attach { lane: lane.lane, token: lane.token, descriptors: false };
        assert!(matches!(killed.request(&attach, &[]).0, Reply::Attached));
        // As if it had been killed before the service answers: no answer reaches it.
        shutdown(killed.channel().as_raw_fd(), Shutdown::Read).unwrap();
        killed.channel().send(&request, 9, &descriptors).unwrap();
        assert!(matches!(client.push(), Push::PeerGone { .. }));
        let list = Request::ListClaims { lane: lane.lane, after: Claim(0) };
        assert!(matches!(client.request(&list, &[]).0, Reply::Done), "the lane has no claim");
    }
    let (mut other, _) = world.laned();
    other.claim_bound(&listener).unwrap();
}

#[test]
fn what_a_killed_process_has_not_noted_ends_and_what_it_has_goes_on() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane, mut stack) = world.program();
    for (port, is_noted) in [(8080, true), (8081, false)] {
        let listener = within(&world.pair.a, || TcpListener::bind(world.a(port)).unwrap());
        let datagrams = within(&world.pair.a, || UdpSocket::bind(world.a(port)).unwrap());
        let mut killed = world.client();
        let attach = Request::Attach { lane: lane.lane, token: lane.token, descriptors: false };
        assert!(matches!(killed.request(&attach, &[]).0, Reply::Attached));
        let claims = [killed.claim_bound(&listener).unwrap(), killed.claim_bound(&datagrams).unwrap()];
        let listens = stack.tcp_listen(&stack.tcp_defaults(), world.a(port).into(), 8).unwrap();
        let receives = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(receives, world.a(port).into()).unwrap();
        let sockets: [SocketId; 2] = [listens.into(), receives.into()];
        for (socket, claim) in sockets.into_iter().zip(claims).filter(|_| is_noted) {
            stack.socket_row(socket).unwrap().claim.set(claim.0);
        }
        drop(killed);
        assert!(matches!(client.push(), Push::PeerGone { .. }));
        // Longer than the service takes for two looks.
        std::thread::sleep(Duration::from_millis(2500));
        let (mut after, mut held) = (Claim(0), Vec::new());
        while let Reply::Held { held: info } = client.request(&Request::ListClaims { lane: lane.lane, after }, &[]).0 {
            after = info.claim;
            held.push(info.claim);
        }
        assert_eq!(claims.map(|claim| held.contains(&claim)), [is_noted; 2]);
        client.request(&release(&claims), &[]);
    }
}

#[test]
fn a_listener_goes_on_if_it_is_closed_or_settled_before_its_asker_is_missed() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane, mut stack) = world.program();
    let list = Request::ListClaims { lane: lane.lane, after: Claim(0) };
    // Longer than the service takes for two looks.
    let two_looks = || std::thread::sleep(Duration::from_millis(2500));
    for (port, is_old) in [(8080, false), (8081, true)] {
        let listener = within(&world.pair.a, || TcpListener::bind(world.a(port)).unwrap());
        let mut killed = world.client();
        let attach = Request::Attach { lane: lane.lane, token: lane.token, descriptors: false };
        assert!(matches!(killed.request(&attach, &[]).0, Reply::Attached));
        let claim = killed.claim_bound(&listener).unwrap();
        let id = stack.tcp_listen(&stack.tcp_defaults(), world.a(port).into(), 8).unwrap();
        stack.socket_row(id.into()).unwrap().claim.set(claim.0);
        if is_old {
            two_looks();
        }
        drop(killed);
        assert!(matches!(client.push(), Push::PeerGone { .. }));
        // Another process closes it, which takes several messages.
        stack.tcp_close_listener(id, now()).unwrap();
        if !is_old {
            assert_eq!(client.convert(claim, &[world.b(9999)], true), None);
        }
        two_looks();
        assert!(matches!(client.request(&list, &[]).0, Reply::Held { .. }), "old: {is_old}");
        assert_eq!(client.convert(claim, &[], false), None);
        client.request(&release(&[claim]), &[]);
    }
}
