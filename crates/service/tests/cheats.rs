//! Programs that ask for what they may not have, with a hand-made lane user. (Those that send what
//! they may not: `guard.rs`.)

mod common;

use common::{Client, LaneOf, PEER, World, lingering, reusing, skipped, until, within};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tickwire_lane::control::{ClaimKind, CountersOf, MessageTo, Name, Push, Reason, Reply, Request};
use tickwire_service::Attach;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::table::kind;
use tickwire_stack::{Memory, Stack};

#[test]
fn a_connection_of_the_kernels_cannot_be_claimed() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    // A server that accepted a connection and closed its listener: the port can be bound by others.
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(8080)).unwrap());
    let peer = within(&world.pair.b, || TcpStream::connect(world.a(8080)).unwrap());
    let (victim, _) = listener.accept().unwrap();
    drop(listener);
    let remote = Endpoint::from(peer.local_addr().unwrap());
    let (mut client, _lane) = world.laned();
    let thief = reusing(&world, 8080);
    assert_eq!(client.claim(ClaimKind::Flow, remote, thief.as_fd()), Err(Reason::PortTaken));
    assert_eq!(client.claim(ClaimKind::Flow, remote, victim.as_fd()), Err(Reason::BadRequest), "it is connected");
    let other = Endpoint::new(remote.address, remote.port ^ 1);
    let claim = client.claim(ClaimKind::Flow, other, thief.as_fd()).expect("no lane has that connection");
    assert_eq!(client.claim(ClaimKind::Flow, remote, thief.as_fd()), Err(Reason::PortTaken), "also beside it");
    (&peer).write_all(b"still").unwrap();
    let mut got = [0; 5];
    victim.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    (&victim).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still");
    // Once it is connected in the kernel, the socket proves nothing any more.
    let other = within(&world.pair.b, || TcpListener::bind(world.b(9999)).unwrap());
    use nix::sys::socket::{SockaddrStorage, connect};
    connect(thief.as_raw_fd(), &SockaddrStorage::from(other.local_addr().unwrap())).unwrap();
    loop {
        match client.push() {
            // Its neighbour is resolved again now and then.
            Push::PathChanged { .. } => {}
            Push::ClaimLost { claim: lost, reason } => {
                assert_eq!((lost, reason), (claim, Reason::NotBound));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Bound to a port of any address, of one family: in the other another socket may have that port.
#[test]
fn a_port_of_one_family_gives_no_right_to_flows_of_the_other() {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let ((mut client, _lane), (mut another, _other)) = (world.laned(), world.laned());
    let any = |family, only: Option<bool>, address: &str| {
        within(&world.pair.a, || {
            let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            only.iter().for_each(|only| setsockopt(&socket, sockopt::Ipv6V6Only, only).unwrap());
            let address: std::net::SocketAddr = address.parse().unwrap();
            bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
            socket
        })
    };
    let _victims = within(&world.pair.a, || {
        (TcpListener::bind(world.a(8080)).unwrap(), TcpListener::bind((world.pair.a_v6(), 8081)).unwrap())
    });
    let v6 = Endpoint::new(world.pair.b_v6().parse::<std::net::Ipv6Addr>().unwrap().into(), 9000);
    let near = Endpoint::new("fe80::1".parse::<std::net::Ipv6Addr>().unwrap().into(), 9000);
    let v4 = Endpoint::from(world.b(9000));
    for (thief, taken, own) in [
        (any(AddressFamily::Inet6, Some(true), "[::]:8080"), v4, v6),
        (any(AddressFamily::Inet, None, "0.0.0.0:8081"), v6, v4),
    ] {
        assert_eq!(client.claim(ClaimKind::Flow, taken, thief.as_fd()), Err(Reason::BadRequest));
        client.claim(ClaimKind::Flow, own, thief.as_fd()).expect("its own family");
        // The service checks every second whether that still holds.
        std::thread::sleep(Duration::from_millis(1200));
        assert_eq!(another.claim(ClaimKind::Flow, own, thief.as_fd()), Err(Reason::PortTaken), "it does");
    }
    let both = any(AddressFamily::Inet6, Some(false), "[::]:8082");
    for remote in [v4, v6] {
        client.claim(ClaimKind::Flow, remote, both.as_fd()).expect("both are its own");
    }
    assert_eq!(client.claim(ClaimKind::Flow, near, both.as_fd()), Err(Reason::NotBound), "on which link?");
}
#[test]
fn a_listener_that_stops_in_the_kernel_loses_its_claim() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, _lane) = world.laned();
    let listener = within(&world.pair.a, || TcpListener::bind("0.0.0.0:8080").unwrap());
    let claim = client.claim_bound(&listener).unwrap();
    nix::sys::socket::shutdown(listener.as_raw_fd(), nix::sys::socket::Shutdown::Both).unwrap();
    match client.push() {
        Push::ClaimLost { claim: lost, reason } => assert_eq!((lost, reason), (claim, Reason::NotBound)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_counts_until_what_it_brought_is_closed() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nconnections_per_user = 1\nrequests_per_second = 1\n");
    const USER: libc::uid_t = 65_534;
    let listener = within(&world.pair.b, || TcpListener::bind(world.b(80)).unwrap());
    let bad = Client::as_user(&world, USER).entered();
    let socket = lingering(&world.pair);
    let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    // More than are read in an hour.
    for _ in 0..4 {
        bad.channel().send(&Request::ListInterfaces { after: 0 }, 1, &[]).unwrap();
    }
    bad.channel().send(&claim, 2, &[socket.as_fd()]).unwrap();
    // The last copy that is closed blocks, and that may be ours.
    let closing = std::thread::spawn(move || drop(socket));
    until("its own copy is gone", || closing.is_finished());
    drop(bad);
    for _ in 0..3 {
        let again = Client::as_user(&world, USER);
        until("there is no room for another", || again.is_closed());
    }
    drop(listener);
    until("its peer is gone, and it is closed", || {
        let mut again = Client::as_user(&world, USER);
        again.try_request(&Request::ListInterfaces { after: 0 }, &[]).is_ok()
    });
}

#[test]
fn a_socket_that_lingers_stops_no_other_client() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut good = world.client();
    let _lane = good.hello().unwrap();
    let mut bad = world.client();
    let _bad_lane = bad.hello().unwrap();
    let listener = within(&world.pair.b, || TcpListener::bind(world.b(80)).unwrap());
    let lingering = || lingering(&world.pair);
    // The last copy that is closed blocks, and that may be ours.
    let forget = |socket: TcpStream| drop(std::thread::spawn(move || drop(socket)));
    let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
    // As what it claims, as part of garbage, as one of too many, and unread.
    let socket = lingering();
    bad.channel().send(&claim, 1, &[socket.as_fd()]).unwrap();
    forget(socket);
    let answer = Instant::now();
    good.counters(CountersOf::Host, 0);
    assert!(answer.elapsed() < Duration::from_secs(2), "claimed: {:?}", answer.elapsed());
    for request in [&Request::ListLanes { after: 0 }, &claim] {
        let socket = lingering();
        bad.channel().send(request, 2, &[socket.as_fd(), socket.as_fd()]).unwrap();
        forget(socket);
        let answer = Instant::now();
        good.counters(CountersOf::Host, 0);
        assert!(answer.elapsed() < Duration::from_secs(2), "garbage: {:?}", answer.elapsed());
        bad = world.client().entered();
    }
    let socket = lingering();
    for _ in 0..8 {
        bad.channel().send(&Request::ListLanes { after: 0 }, 3, &[]).unwrap();
        bad.channel().send(&claim, 4, &[socket.as_fd()]).unwrap();
    }
    forget(socket);
    drop(bad);
    let answer = Instant::now();
    good.counters(CountersOf::Host, 0);
    let claimed = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    // The same user: its sockets are not waited for now, and continue with the kernel.
    let _ = good.claim_bound(&claimed);
    assert!(answer.elapsed() < Duration::from_secs(3), "unread: {:?}", answer.elapsed());
    drop(listener);
}

#[test]
fn rows_that_lie_reset_no_connection() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    // A connection of the kernel's, which the cheat would like to see reset.
    let listener = within(&world.pair.b, || std::net::TcpListener::bind(world.b(80)).unwrap());
    let honest = within(&world.pair.a, || std::net::TcpStream::connect(world.b(80)).unwrap());
    let (peer, _) = listener.accept().unwrap();
    let (mut client, lane) = world.laned();
    let path = client.path(PEER);
    // SAFETY: this test alone uses the region, and `lane` outlives `memory`.
    let memory: Memory<'_> = unsafe { lane.region.memory() };
    for row in memory.rows.iter() {
        row.kind.set(kind::TCP);
        row.state.set(1);
        row.local.set(honest.local_addr().unwrap().into());
        row.remote.set(world.b(80).into());
        row.source_mac.set(path.source_mac);
        row.next_hop_mac.set(path.next_hop_mac);
    }
    drop((client, memory, lane));
    until("the lane is gone", || world.lane_devices().is_empty());
    (&honest).write_all(b"alive").unwrap();
    let mut got = [0; 5];
    (&peer).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"alive");
}

#[test]
fn a_client_that_asks_too_fast_is_slowed_and_loses_nothing() {
    if skipped() {
        return;
    }
    const RATE: u32 = 200;
    const REQUESTS: u32 = 3 * RATE;
    let world = World::with(Attach::Tc, &format!("[limits]\nrequests_per_second = {RATE}\n"));
    let (mut quick, mut good) = (world.client(), world.client());
    let lane = quick.hello().unwrap();
    let begun = Instant::now();
    let (mut asked, mut answered) = (0, 0);
    until("all is answered", || {
        while asked < REQUESTS && quick.channel().send(&Request::ListInterfaces { after: 0 }, asked, &[]).is_ok() {
            asked += 1;
        }
        while let Some(incoming) = quick.channel().try_receive().expect("the connection lives") {
            assert_eq!(incoming.decode::<Reply>().unwrap().0, answered, "in order, and none is lost");
            answered += 1;
        }
        answered == REQUESTS
    });
    // Two seconds' worth may come at once; that of another one takes its time.
    assert!(begun.elapsed() >= Duration::from_millis(950), "{:?}", begun.elapsed());
    assert_eq!(good.counters(CountersOf::Lane, lane.lane)[4..], [0; 8], "its lane lives");
    // A process that goes while it is paused is noticed at once.
    for number in 0..2 * RATE {
        let _ = quick.channel().send(&Request::ListInterfaces { after: 0 }, number, &[]);
    }
    drop((quick, lane));
    until("its lane goes with it", || world.lane_devices().is_empty());
}

#[test]
fn a_flood_of_one_user_leaves_others_their_turn() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nrequests_per_second = 1000000\n");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let flood: Vec<Client> = (0..32).map(|_| world.client()).collect();
                    let mut answers = 0_u64;
                    while !over.load(Relaxed) {
                        for client in &flood {
                            while client.channel().send(&Request::ListInterfaces { after: 0 }, 1, &[]).is_ok() {}
                            while let Ok(Some(_)) = client.channel().try_receive() {
                                answers += 1;
                            }
                        }
                    }
                    answers
                })
            })
            .collect();
        let mut other = Client::as_user(&world, 65_534);
        let _lane = other.hello().unwrap();
        for _ in 0..100 {
            other.counters(CountersOf::Host, 0);
        }
        over.store(true, Relaxed);
        assert!(floods.into_iter().map(|flood| flood.join().unwrap()).sum::<u64>() > 100, "it was one");
    });
}

#[test]
fn garbage_ends_only_its_own_connection() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut good = world.client();
    let lane = good.hello().unwrap();
    let garbage = world.client();
    garbage.channel().send(&Reply::Done, 1, &[]).unwrap();
    until("garbage ends the connection", || garbage.is_closed());

    let counters = good.counters(CountersOf::Lane, lane.lane);
    assert_eq!(counters[4..], [0; 8]);
}

#[test]
fn a_client_that_does_not_read_answers_is_not_served_until_it_does() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nrequests_per_second = 1000000\n");
    let (mut good, deaf) = (world.client(), world.client());
    let _lane = good.hello().unwrap();
    // Each answer brings a descriptor.
    let mut asked = 0;
    loop {
        match deaf.channel().send(&Request::ListLanes { after: 0 }, asked, &[]) {
            Ok(()) => asked += 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error} after {asked} requests"),
        }
    }
    good.counters(CountersOf::Host, 0);
    for number in 0..asked {
        let incoming = deaf.channel().receive(Duration::from_secs(2)).unwrap();
        assert_eq!(incoming.decode::<Reply>().unwrap().0, number, "in order, and none is lost");
    }
}

#[test]
fn limits_refuse_the_new_and_keep_the_old() {
    if skipped() {
        return;
    }
    let config = "[limits]\nlanes = 3\nlanes_per_user = 2\nflows = 4\nflows_per_user = 3\nmemory_mib = 128\n";
    let world = World::with(Attach::Tc, config);
    let (mut first, mut second, mut third) = (world.client(), world.client(), world.client());
    let _lane = first.hello().unwrap();
    let other = second.hello().unwrap();
    assert_eq!(third.hello().err(), Some(Reason::UserLaneLimit));
    let sockets: Vec<UdpSocket> =
        within(&world.pair.a, || (0..5).map(|n| UdpSocket::bind(("0.0.0.0", 7000 + n)).unwrap()).collect());
    for socket in &sockets[..3] {
        first.claim_bound(socket).unwrap();
    }
    assert_eq!(first.claim_bound(&sockets[3]).err(), Some(Reason::UserFlowLimit));
    assert_eq!(second.claim_bound(&sockets[3]).err(), Some(Reason::UserFlowLimit));
    // A program that was refused is listed with the reason.
    let mut after = 0;
    let mut reasons = Vec::new();
    while let Reply::LaneInfo { cursor, info } = first.request(&Request::ListLanes { after }, &[]).0 {
        reasons.push(info.reason);
        after = cursor;
    }
    assert_eq!(reasons, [Reason::None, Reason::None, Reason::UserLaneLimit]);
    drop((second, other));
    until("the lane is given back", || third.hello().is_ok());
    drop(first);
    until("the flows are given back", || third.claim_bound(&sockets[4]).is_ok());
}

#[test]
fn programs_without_a_lane_leave_most_connections_to_others() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nconnections_per_user = 8\n");
    let on_kernel = Request::OnKernel { program: Name::new("old"), reason: Reason::Restarted };
    let mut clients: Vec<Client> = (0..3).map(|_| world.client()).collect();
    let replies: Vec<Reply> = clients.iter_mut().map(|client| client.request(&on_kernel, &[]).0).collect();
    assert!(matches!(replies[..], [Reply::Done, Reply::Done, Reply::Refused { .. }]), "{replies:?}");
    until("the third is sent away", || clients[2].is_closed());
    let mut refused = world.client();
    let hello = Request::Hello { program: Name::new("older"), layout: Memory::LAYOUT_HASH ^ 1 };
    assert!(matches!(refused.request(&hello, &[]).0, Reply::Refused { reason: Reason::Version, .. }), "still told why");
    until("and so is the fourth", || refused.is_closed());

    // A program that is on a lane after all is not listed without one, and leaves its place to
    // another.
    let mut owner = world.client();
    let lane = owner.hello().unwrap();
    let attach = Request::Attach { lane: lane.lane, token: lane.token, descriptors: false };
    assert!(matches!(clients[0].request(&attach, &[]).0, Reply::Attached));
    assert!(matches!(world.client().request(&on_kernel, &[]).0, Reply::Done));
    let mut after = 0;
    let mut reasons = Vec::new();
    while let Reply::LaneInfo { cursor, info } = owner.request(&Request::ListLanes { after }, &[]).0 {
        reasons.push(info.reason);
        after = cursor;
    }
    assert_eq!(reasons[..2], [Reason::None, Reason::Restarted]);
}

#[test]
fn only_a_process_that_knows_the_token_attaches_and_the_lane_ends_with_the_last() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut parent, mut child, mut thief) = (world.client(), world.client(), world.client());
    let lane = parent.hello().unwrap();
    let attach = |token, descriptors| Request::Attach { lane: lane.lane, token, descriptors };
    let guess = tickwire_lane::control::Token([0; 16]);
    assert!(matches!(thief.request(&attach(guess, true), &[]).0, Reply::Refused { reason: Reason::LaneGone, .. }));
    assert!(matches!(child.request(&attach(lane.token, false), &[]).0, Reply::Attached));
    let (reply, descriptors) = child.request(&attach(lane.token, true), &[]);
    let Reply::Lane { lane: number, token, limits, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((number, token, descriptors.len()), (lane.lane, lane.token, 5));
    drop(LaneOf::new(number, token, limits, descriptors));
    drop(parent);
    assert!(matches!(child.push(), Push::PeerGone { .. }));
    assert_eq!(world.lane_devices().len(), 1, "the child goes on");
    drop(child);
    until("the lane ends with its last process", || world.lane_devices().is_empty());
}

#[test]
fn a_library_of_another_version_is_told_so() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut client: Client = world.client();
    let hello = Request::Hello { program: Name::new("old"), layout: Memory::LAYOUT_HASH ^ 1 };
    assert!(matches!(client.request(&hello, &[]).0, Reply::Refused { reason: Reason::Version, .. }));
    // One that speaks another protocol gets an answer in ours, from which it sees the version.
    let client = world.client();
    let mut bytes = Vec::new();
    hello.encode(1, &mut |message| bytes = message.to_vec());
    bytes[4] ^= 0x40;
    nix::sys::socket::send(client.channel().as_raw_fd(), &bytes, nix::sys::socket::MsgFlags::empty()).unwrap();
    let answer = client.channel().receive(Duration::from_secs(5)).unwrap().decode::<Reply>().unwrap();
    assert!(matches!(answer, (0, Reply::Refused { reason: Reason::Version, .. })), "{answer:?}");
    until("the connection ends", || client.is_closed());
}

#[test]
fn a_socket_that_lets_go_of_its_port_loses_its_claim() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane) = world.laned();
    let _stack: Stack<'_> = lane.stack();
    let socket = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:0").unwrap());
    let claim = client.claim_bound(&socket).unwrap();
    // Connecting to "nowhere" dissolves the binding of a socket that asked for any free port.
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    // SAFETY: `nowhere` is a whole `sockaddr` that lives for the call.
    let done = unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, 16) };
    assert_eq!(done, 0);
    assert_eq!(socket.local_addr().unwrap().port(), 0);
    match client.push() {
        Push::ClaimLost { claim: lost, reason } => assert_eq!((lost, reason), (claim, Reason::NotBound)),
        other => panic!("{other:?}"),
    }
}
