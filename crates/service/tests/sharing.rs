//! Ports and groups that several programs share, and listeners that close.

mod common;

use common::{LaneOf, PEER, World, now, skipped, until, within};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use tickwire_lane::control::{Claim, CountersOf, Reason, Reply, Request};
use tickwire_lane_linux::sys_packet::PacketSender;
use tickwire_service::Attach;
use tickwire_stack::Stack;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::ids::UdpId;
use tickwire_stack::udp::{GroupFilter, UdpOptions};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// A socket of host `a` on the group's port, as every multicast receiver makes it.
fn member(world: &World) -> UdpSocket {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
    within(&world.pair.a, || {
        let fd: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&fd, sockopt::ReuseAddr, &true).unwrap();
        let any: std::net::SocketAddr = "0.0.0.0:5000".parse().unwrap();
        bind(fd.as_raw_fd(), &SockaddrStorage::from(any)).unwrap();
        let socket = UdpSocket::from(fd);
        socket.join_multicast_v4(&GROUP, &world.pair.a_v4().parse().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    })
}

fn received(stack: &mut Stack<'_>, id: UdpId) -> Option<Vec<u8>> {
    let mut buffer = [0; 2048];
    let mut room = &mut buffer[..];
    let datagram = stack.udp_recv(id, false, &mut room).ok()?;
    Some(buffer[..datagram.copied].to_vec())
}

fn every_member_hears(attach: Attach) {
    if skipped() {
        return;
    }
    let mut world = World::new(attach);
    let group = Endpoint::new(GROUP.into(), 5000);
    world.pair.a.run(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]).unwrap();
    world.pair.b.run(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]).unwrap();
    let kernel = member(&world);
    let mut programs: Vec<_> = (0..2)
        .map(|_| {
            let (mut client, lane, mut stack) = world.program();
            let socket = member(&world);
            let claim = client.claim_bound(&socket).unwrap();
            let (reply, _) = client.request(&Request::Join { claim, group: group.address }, &[]);
            assert!(matches!(reply, Reply::Joined { interfaces } if interfaces.as_slice().len() == 1), "{reply:?}");
            let id = stack.udp_open(UdpOptions::default()).unwrap();
            stack.udp_bind(id, Endpoint::new(Address::ANY_V4, 5000)).unwrap();
            stack.udp_set_filter(id, &GroupFilter::all(group.address)).unwrap();
            (client, lane, stack, socket, claim, id)
        })
        .collect();
    let sender = within(&world.pair.b, || UdpSocket::bind(world.b(0)).unwrap());
    for payload in [&[1_u8; 100][..], &[2; 1400]] {
        sender.send_to(payload, (GROUP, 5000)).unwrap();
        for (_, lane, stack, socket, _, id) in &mut programs {
            let mut got = None;
            lane.turn_until(stack, "each lane hears it", |stack| {
                got = received(stack, *id);
                got.is_some()
            });
            assert_eq!(got.unwrap(), payload);
            assert_eq!(socket.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "once is enough");
        }
        let mut buffer = [0; 2048];
        common::until("the kernel's member hears it", || kernel.recv(&mut buffer).is_ok_and(|n| n == payload.len()));
    }
    let (client, lane, stack, socket, claim, id) = &mut programs[0];
    assert!(matches!(client.request(&Request::Leave { claim: *claim, group: group.address }, &[]).0, Reply::Done));
    sender.send_to(b"later", (GROUP, 5000)).unwrap();
    common::until("the socket that left the lane's group hears by the kernel", || {
        lane.turn(stack);
        assert_eq!(received(stack, *id), None);
        socket.recv(&mut [0; 8]).is_ok()
    });
    let counters = client.counters(CountersOf::Host, 0);
    assert_eq!(counters[2], 2 * 2 + 1, "copies: {counters:?}");
    // When the service ends, the remaining members continue with the kernel.
    world.stop();
    sender.send_to(b"kernel", (GROUP, 5000)).unwrap();
    let (_, _, _, socket, _, _) = &programs[1];
    common::until("the kernel delivers again", || socket.recv(&mut [0; 8]).is_ok());
}

#[test]
fn every_member_of_a_group_hears_once_with_tc() {
    every_member_hears(Attach::Tc);
}

#[test]
fn every_member_of_a_group_hears_once_beside_xdp() {
    every_member_hears(Attach::Generic);
}

#[test]
fn while_a_socket_is_connected_its_lane_takes_nothing_that_comes_to_other_addresses() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    world.pair.a.run(&["ip", "address", "add", "10.77.0.3/24", "dev", "eth0"]).unwrap();
    let (mut client, lane, _stack) = world.program();
    let socket = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    client.claim_bound(&socket).unwrap();
    let peer = within(&world.pair.b, || UdpSocket::bind(world.b(9000)).unwrap());
    let mut taken = |to: &str| {
        let before = client.counters(CountersOf::Lane, lane.lane)[0];
        peer.send_to(b"x", (to, 7000)).unwrap();
        // On this cable it has arrived when the call returns, if the neighbour is known.
        client.counters(CountersOf::Lane, lane.lane)[0] != before
    };
    common::until("both addresses are its", || taken("10.77.0.1") && taken("10.77.0.3"));
    socket.connect(world.b(9000)).unwrap();
    let other = within(&world.pair.a, || UdpSocket::bind("10.77.0.3:7000").unwrap());
    other.set_nonblocking(true).unwrap();
    common::until("packets to the other are another socket's", || {
        !taken("10.77.0.3") && other.recv(&mut [0; 8]).is_ok()
    });
    common::until("what comes to its own is not", || taken("10.77.0.1"));
    drop(other);
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    // SAFETY: `nowhere` is a whole `sockaddr` that lives for the call.
    assert_eq!(unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, 16) }, 0);
    common::until("both are again", || taken("10.77.0.3") && taken("10.77.0.1"));
}

#[test]
fn memberships_are_limited_and_what_is_left_is_free_again() {
    if skipped() {
        return;
    }
    let config = "[limits]\nmemberships = 4\nmemberships_per_user = 3\nmemberships_per_lane = 2\n";
    let world = World::with(Attach::Tc, config);
    world.pair.a.run(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]).unwrap();
    let group = |n: u8| Ipv4Addr::new(239, 1, 2, n);
    let own: Ipv4Addr = world.pair.a_v4().parse().unwrap();
    let program = |mut client: common::Client| {
        let lane = client.hello().unwrap();
        let socket = member(&world);
        let claim = client.claim_bound(&socket).unwrap();
        (client, lane, socket, claim)
    };
    type Program = (common::Client, LaneOf, UdpSocket, Claim);
    let join = |(client, _, socket, claim): &mut Program, n| {
        // It may be a member already.
        let _ = socket.join_multicast_v4(&group(n), &own);
        match client.request(&Request::Join { claim: *claim, group: group(n).into() }, &[]).0 {
            Reply::Joined { .. } => None,
            Reply::Refused { reason, .. } => Some(reason),
            other => panic!("{other:?}"),
        }
    };
    let (mut first, mut second) = (program(world.client()), program(world.client()));
    let mut third = program(common::Client::as_user(&world, 65_534));
    assert_eq!([1, 2, 2].map(|n| join(&mut first, n)), [None; 3], "the same one twice is one");
    assert_eq!(join(&mut first, 3), Some(Reason::LaneMembershipLimit));
    assert_eq!(join(&mut second, 1), None);
    assert_eq!(join(&mut second, 2), Some(Reason::UserMembershipLimit));
    assert_eq!(join(&mut third, 1), None);
    assert_eq!(join(&mut third, 2), Some(Reason::MembershipLimit));
    let (client, _, _, claim) = &mut first;
    let leave = Request::Leave { claim: *claim, group: group(1).into() };
    for _ in 0..2 {
        assert!(matches!(client.request(&leave, &[]).0, Reply::Done));
    }
    assert_eq!(join(&mut third, 2), None, "what was left is free");
    drop(first);
    common::until("what a dead program had is free", || join(&mut second, 2).is_none());
}

/// Accepts one connection from host `b`.
fn accepted(lane: &LaneOf, stack: &mut Stack<'_>, id: tickwire_stack::ids::ListenerId) -> tickwire_stack::ids::TcpId {
    let mut found = None;
    lane.turn_until(stack, "a connection comes", |stack| {
        found = stack.tcp_accept(id).ok();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn connections_that_the_kernel_accepted_stay_with_it() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(8080)).unwrap());
    let mut old = within(&world.pair.b, || TcpStream::connect(world.a(8080)).unwrap());
    let (mut client, lane, mut stack) = world.program();
    stack.path_set(client.path(PEER), now());
    client.claim_bound(&listener).unwrap();
    let id = stack.tcp_listen(&stack.tcp_defaults(), world.a(8080).into(), 16).unwrap();
    let (mut accepted_by_kernel, _) = listener.accept().unwrap();
    old.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    accepted_by_kernel.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    accepted_by_kernel.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| within(&world.pair.b, || TcpStream::connect(world.a(8080)).unwrap()));
        accepted(&lane, &mut stack, id);
        connecting.join().unwrap();
    });
}

/// A listener of host `a` that shares its port.
fn sharing(world: &World, port: u16) -> TcpListener {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage};
    use nix::sys::socket::{bind, listen, setsockopt, socket, sockopt};
    within(&world.pair.a, || {
        let fd: OwnedFd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&fd, sockopt::ReusePort, &true).unwrap();
        bind(fd.as_raw_fd(), &SockaddrStorage::from(world.a(port))).unwrap();
        listen(&fd, Backlog::new(64).unwrap()).unwrap();
        TcpListener::from(fd)
    })
}

/// A program that shares port 8080.
struct Server {
    client: common::Client,
    lane: LaneOf,
    stack: Stack<'static>,
    listener: tickwire_stack::ids::ListenerId,
    _socket: TcpListener,
    connections: Vec<tickwire_stack::ids::TcpId>,
}

impl Server {
    fn new(world: &World) -> Self {
        let (mut client, lane) = world.laned();
        let mut stack = lane.stack();
        stack.path_set(client.path(Address::v4([10, 77, 0, 2])), now());
        let listener = stack.tcp_listen(&stack.tcp_defaults(), world.a(8080).into(), 64).unwrap();
        let socket = sharing(world, 8080);
        client.claim_bound(&socket).unwrap();
        Self { client, lane, stack, listener, _socket: socket, connections: Vec::new() }
    }

    /// Accepts, and answers what arrives.
    fn turn(&mut self) {
        self.lane.turn(&mut self.stack);
        self.connections.extend(self.stack.tcp_accept(self.listener).ok());
        for &id in &self.connections {
            let mut got = [0; 64];
            let mut room = &mut got[..];
            if let Ok(n @ 1..) = self.stack.tcp_recv(id, now(), Default::default(), &mut room) {
                self.stack.tcp_send(id, now(), false, &mut &got[..n]).unwrap();
            }
        }
    }
}

/// Connects so often while the servers work.
fn connect_to(world: &World, servers: &mut [Server], number: usize) -> Vec<TcpStream> {
    let before: usize = servers.iter().map(|s| s.connections.len()).sum();
    let address = world.a(8080);
    std::thread::scope(|scope| {
        let pair = &world.pair;
        let connecting = scope.spawn(move || {
            within(&pair.b, || (0..number).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>())
        });
        common::until("all are accepted", || {
            servers.iter_mut().for_each(Server::turn);
            servers.iter().map(|s| s.connections.len()).sum::<usize>() == before + number
        });
        connecting.join().unwrap()
    })
}

/// Whether each peer gets its answer.
fn all_answer(servers: &mut [Server], peers: &[TcpStream]) {
    for mut peer in peers {
        peer.set_nonblocking(true).unwrap();
        peer.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        common::until("the answer of a connection that lives", || {
            servers.iter_mut().for_each(Server::turn);
            match peer.read(&mut got) {
                Ok(n) => n == 4,
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// Begins so many connections from host `b` to port 8080 of host `a`.
fn begin_connections(world: &World, number: usize) -> Vec<TcpStream> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
    let begin = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let done = connect(fd.as_raw_fd(), &SockaddrStorage::from(world.a(8080)));
        assert_eq!(done, Err(nix::errno::Errno::EINPROGRESS));
        TcpStream::from(fd)
    };
    within(&world.pair.b, || (0..number).map(|_| begin()).collect())
}

#[test]
fn handshakes_that_are_under_way_stay_when_a_lane_joins_their_port() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let mut servers = vec![Server::new(&world)];
        let begun = begin_connections(&world, 16);
        // The lane has the segments; its stack has not seen them.
        let Server { client, lane, .. } = &mut servers[0];
        common::until("all have come", || client.counters(CountersOf::Lane, lane.lane)[0] >= 16);
        servers.push(Server::new(&world));
        common::until("all are accepted", || {
            servers.iter_mut().for_each(Server::turn);
            servers.iter().map(|s| s.connections.len()).sum::<usize>() == begun.len()
        });
        assert_eq!(servers[1].connections, [], "{attach:?}");
        // So do new ones, begun while the lane was joining, when it has joined.
        let new = connect_to(&world, &mut servers, 32);
        assert!(servers[1].connections.len() > 4, "{attach:?}");
        all_answer(&mut servers, &begun);
        all_answer(&mut servers, &new);
        let end = std::time::Instant::now() + Duration::from_millis(4500);
        while std::time::Instant::now() < end {
            servers.iter_mut().for_each(Server::turn);
        }
        all_answer(&mut servers, &begun);
        all_answer(&mut servers, &new);
    }
}

#[test]
fn a_flood_does_not_part_a_joining_lane_from_its_connections() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nflows = 1024\n");
    let mut servers = vec![Server::new(&world), Server::new(&world)];
    let peers = connect_to(&world, &mut servers, 32);
    assert!(servers[1].connections.len() > 4, "the second has some, while it is joining");
    servers.push(Server::new(&world));
    let link =
        |host| within(host, || tickwire_host::RouteNetlink::open().unwrap().link_by_name("eth0").unwrap().unwrap());
    let (here, there) = (link(&world.pair.a), link(&world.pair.b));
    let wire = within(&world.pair.b, || PacketSender::open(there.index).unwrap());
    for n in 0..10_000_u32 {
        let from = std::net::SocketAddr::from(([10, 78, (n >> 8) as u8, n as u8], 1024));
        // SYN, and an ACK, so that it is not forgotten first.
        for flags in [2, 16] {
            let segment = common::segment(here.mac.unwrap(), from, world.a(8080), flags, n);
            until("the device takes it", || wire.send(&segment).is_ok());
        }
    }
    all_answer(&mut servers, &peers);
}

#[test]
fn a_handshake_of_the_kernels_that_is_under_way_stays_with_it() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(8080)).unwrap());
    listener.set_nonblocking(true).unwrap();
    // Its answers are lost.
    let neighbour = ["ip", "neighbour", "replace", "10.77.0.2", "lladdr", "02:00:00:00:00:99", "dev", "eth0"];
    world.pair.a.run(&[&neighbour[..], &["nud", "permanent"]].concat()).unwrap();
    let begun = begin_connections(&world, 1);
    common::until("the handshake is under way", || {
        let connections = within(&world.pair.a, || tickwire_host::Connections::open().unwrap().of_port(8080).unwrap());
        connections.iter().any(|(_, remote)| *remote == Endpoint::from(begun[0].local_addr().unwrap()))
    });
    let (mut client, _lane) = world.laned();
    client.claim_bound(&listener).unwrap();
    world.pair.a.run(&["ip", "neighbour", "del", "10.77.0.2", "dev", "eth0"]).unwrap();
    common::until("the kernel finishes it", || listener.accept().is_ok());
}

#[test]
fn connections_stay_when_lanes_join_and_leave_their_port() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut servers = vec![Server::new(&world)];
    let old = connect_to(&world, &mut servers, 16);
    servers.push(Server::new(&world));
    all_answer(&mut servers, &old);
    let new = connect_to(&world, &mut servers, 32);
    assert!(servers.iter().all(|s| s.connections.len() > 4), "both have some");
    servers.push(Server::new(&world));
    all_answer(&mut servers, &old);
    all_answer(&mut servers, &new);
    // The first leaves; the connections of the second are not touched.
    let theirs: Vec<Endpoint> =
        servers[1].connections.iter().map(|&id| servers[1].stack.tcp_endpoints(id).unwrap().1).collect();
    drop(servers.remove(0));
    let mut kept: Vec<TcpStream> = old.into_iter().chain(new).collect();
    kept.retain(|peer| theirs.contains(&peer.local_addr().unwrap().into()));
    std::thread::sleep(Duration::from_millis(100));
    all_answer(&mut servers, &kept);
    let Server { client, lane, .. } = &mut servers[1];
    assert_eq!(client.counters(CountersOf::Lane, lane.lane)[4..], [0; 8], "the guard refused nothing");
}
