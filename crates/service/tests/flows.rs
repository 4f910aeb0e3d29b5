//! The ownership of flows: connections of the kernel's and of other lanes, those that are over, and
//! those that are yet to come.

mod common;

use common::{Client, LaneOf, PEER, Wire, World, accepted, connecting, now, release, skipped, tcp_flag, until, within};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;
use tickwire_lane::control::{Claim, ClaimKind, ClaimPart, CountersOf, Parts, Reason, Reply, Request};
use tickwire_lane_linux::bpf;
use tickwire_service::Attach;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::ids::{ListenerId, TcpId};
use tickwire_stack::table::kind;
use tickwire_stack::{Memory, Stack};

const PORT: u16 = 8080;

/// Two hosts, the service on one; `None` where that cannot be.
fn world() -> Option<World> {
    (!skipped()).then(|| World::new(Attach::Tc))
}

/// A TCP socket of host `a`, bound, with which others may share its port.
fn bound(world: &World) -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
    within(&world.pair.a, || {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
        setsockopt(&socket, sockopt::ReusePort, &true).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(world.a(PORT))).unwrap();
        socket
    })
}

/// The same, listening.
fn listening(world: &World) -> TcpListener {
    let socket = bound(world);
    nix::sys::socket::listen(&socket, nix::sys::socket::Backlog::new(64).unwrap()).unwrap();
    TcpListener::from(socket)
}

/// A listener of the kernel's, and a connection that it has accepted.
fn kernels(world: &World) -> (TcpListener, (TcpStream, TcpStream)) {
    let listener = listening(world);
    let connection = kernel_connection(world, &listener, world.a(PORT));
    (listener, connection)
}

/// A connection of the kernel's: both ends.
fn kernel_connection(world: &World, listener: &TcpListener, to: SocketAddr) -> (TcpStream, TcpStream) {
    let theirs = within(&world.pair.b, || TcpStream::connect(to).unwrap());
    let (ours, _) = listener.accept().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    (ours, theirs)
}

fn lives((ours, theirs): &(TcpStream, TcpStream)) {
    (&mut &*theirs).write_all(b"still").unwrap();
    let mut got = [0; 5];
    (&mut &*ours).read_exact(&mut got).expect("the kernel's connection lives");
    assert_eq!(&got, b"still");
}

/// A program that listens at the port.
struct Server {
    client: Client,
    claim: Claim,
    lane: LaneOf,
    stack: Stack<'static>,
    listener: ListenerId,
    _socket: TcpListener,
}

impl Server {
    fn new(world: &World) -> Self {
        Self::of(world, world.program())
    }

    /// A program that has this lane already.
    fn of(world: &World, mut program: (Client, LaneOf, Stack<'static>)) -> Self {
        program.2.path_set(program.0.path(PEER), now());
        Self::unacquainted(world, program)
    }

    /// One that has not resolved the paths to its peers.
    fn unacquainted(world: &World, (mut client, lane, mut stack): (Client, LaneOf, Stack<'static>)) -> Self {
        let listener = stack.tcp_listen(&stack.tcp_defaults(), world.a(PORT).into(), 64).unwrap();
        let socket = listening(world);
        let claim = client.claim_bound(&socket).unwrap();
        Self { client, claim, lane, stack, listener, _socket: socket }
    }

    /// Its listener closes, while it has connections to these.
    fn closes(&mut self, remotes: &[SocketAddr]) {
        assert_eq!(self.client.convert(self.claim, remotes, false), None);
        self.stack.tcp_close_listener(self.listener, now()).unwrap();
    }

    /// Accepts a connection from a port of host `b`.
    fn accept_from(&mut self, world: &World, port: u16) -> (TcpStream, TcpId) {
        let peer = connecting(world, port, PORT);
        (peer, self.lane.accept(&mut self.stack, self.listener))
    }

    /// What the peer sends reaches it by a connection that it has accepted.
    fn is_reached_by(&mut self, peer: &mut TcpStream, accepted: TcpId) {
        peer.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        self.lane.turn_until(&mut self.stack, "its data comes where it belongs", |stack| {
            let mut room = &mut got[..];
            stack.tcp_recv(accepted, now(), Default::default(), &mut room).is_ok_and(|n| n == 4)
        });
    }
}

/// A program that listens at the port, too, and reports connections that it does not have.
struct Liar {
    client: Client,
    lane: LaneOf,
    claim: Claim,
    _socket: TcpListener,
}

impl Liar {
    fn new(world: &World) -> Self {
        Self::at(world, listening(world))
    }

    /// With this socket.
    fn at(world: &World, socket: TcpListener) -> Self {
        let (mut client, lane) = world.laned();
        let claim = client.claim_bound(&socket).unwrap();
        Self { client, lane, claim, _socket: socket }
    }

    /// Reports that its listener closed while it had connections to these; with `more`, that
    /// further ones follow.
    fn closes(&mut self, remotes: &[SocketAddr], more: bool) -> Option<Reason> {
        self.client.convert(self.claim, remotes, more)
    }

    /// Enters connections to these into its table.
    fn invents(&self, world: &World, remotes: impl Iterator<Item = u16>) {
        // SAFETY: this test alone uses the region, and the lane outlives `memory`.
        let memory: Memory<'_> = unsafe { self.lane.region.memory() };
        for (row, port) in memory.rows.iter().zip(remotes) {
            row.kind.set(kind::TCP);
            row.state.set(1);
            row.local.set(world.a(PORT).into());
            row.remote.set(world.b(port).into());
        }
    }

    /// How many packets its lane has received.
    fn heard(&mut self) -> u64 {
        self.client.counters(CountersOf::Lane, self.lane.lane)[0]
    }
}

#[test]
fn what_is_the_kernels_is_not_released_by_a_program() {
    let Some(world) = world() else { return };
    let (listener, connection) = kernels(&world);
    let mut liar = Liar::at(&world, listener);
    let remote = connection.1.local_addr().unwrap();
    let release = Request::Release { parts: Parts::new(&[ClaimPart { claim: liar.claim, remote: remote.into() }]) };
    liar.client.request(&release, &[]);
    lives(&connection);
    liar.closes(&[remote], false);
    liar.client.request(&release, &[]);
    lives(&connection);
    assert_eq!(liar.heard(), 0);
}

#[test]
fn what_is_the_kernels_stays_so_for_as_long_as_any_lane_holds_the_port() {
    let Some(world) = world() else { return };
    let (listener, connection) = kernels(&world);
    let mut first = Liar::at(&world, listener);
    let second = Server::new(&world);
    assert!(matches!(first.client.request(&release(&[first.claim]), &[]).0, Reply::Done));
    lives(&connection);
    drop(second);
}

#[test]
fn what_was_the_kernels_is_forgotten_when_it_is_over() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nflows_per_user = 3\n");
    let (listener, first) = kernels(&world);
    let second = kernel_connection(&world, &listener, world.a(PORT));
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    client.claim_bound(&listener).unwrap();
    let other = within(&world.pair.a, || std::net::UdpSocket::bind(world.a(PORT)).unwrap());
    assert_eq!(client.claim_bound(&other), Err(Reason::UserFlowLimit));
    drop(first);
    until("its place is free", || client.claim_bound(&other).is_ok());
    assert_eq!(client.claim_bound(&other), Err(Reason::UserFlowLimit), "that of the other is not");
    lives(&second);
}

#[test]
fn connections_inside_of_the_host_are_no_exceptions_to_book() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nflows_per_user = 3\n");
    let listener = within(&world.pair.a, || TcpListener::bind(("0.0.0.0", PORT)).unwrap());
    let inside: Vec<TcpStream> = within(&world.pair.a, || {
        let connect = |n| TcpStream::connect(if n % 2 == 0 { world.a(PORT) } else { ([127, 0, 0, 1], PORT).into() });
        (0..8).map(|n| connect(n).unwrap()).collect()
    });
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    client.claim_bound(&listener).expect("they never come by the wire");
    drop(inside);
}

#[test]
fn connections_of_an_address_that_comes_later_stay_with_the_kernel() {
    let Some(world) = world() else { return };
    let run = |host: &tickwire_lab::LabHost, command: &str| {
        host.run(&command.split(' ').collect::<Vec<_>>()).unwrap();
    };
    run(&world.pair.a, "ip address add 10.77.9.1/32 dev lo");
    run(&world.pair.b, "ip route add 10.77.9.1/32 via 10.77.0.1");
    let listener = within(&world.pair.a, || TcpListener::bind(("0.0.0.0", PORT)).unwrap());
    let connection = kernel_connection(&world, &listener, ([10, 77, 9, 1], PORT).into());
    let (mut client, lane, mut stack) = world.program();
    stack.path_set(client.path(PEER), now());
    client.claim_bound(&listener).unwrap();
    let id = stack.tcp_listen(&stack.tcp_defaults(), Endpoint::new(Address::ANY_V4, PORT), 16).unwrap();
    lives(&connection);
    run(&world.pair.a, "ip address add 10.77.9.1/32 dev eth0");
    let mut late = Vec::new();
    lane.turn_until(&mut stack, "the address is served", |stack| {
        late.push(within(&world.pair.b, || {
            use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
            let _ = connect(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::from(([10, 77, 9, 1], PORT))));
            socket
        }));
        std::thread::sleep(Duration::from_millis(1));
        stack.tcp_accept(id).is_ok()
    });
    lives(&connection);
}

#[test]
fn a_connection_that_another_lane_has_accepted_cannot_be_claimed() {
    let Some(world) = world() else { return };
    let thief = bound(&world);
    let mut server = Server::new(&world);
    let (mut peer, accepted) = server.accept_from(&world, 9999);
    let (mut client, lane, _stack) = world.program();
    let claimed = client.claim(ClaimKind::Flow, world.b(9999).into(), thief.as_fd());
    assert_eq!(claimed, Err(Reason::PortTaken));
    client.claim(ClaimKind::Flow, world.b(9998).into(), thief.as_fd()).expect("that one is free");
    server.is_reached_by(&mut peer, accepted);
    assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], 0);
}

/// Claims a flow before there is a connection; with `heard`, a packet of it has arrived already.
fn claim_in_advance(world: &World, client: &mut Client, lane: &LaneOf, stack: &mut Stack<'_>, heard: bool) -> OwnedFd {
    let thief = bound(world);
    client.claim(ClaimKind::Flow, world.b(9999).into(), thief.as_fd()).unwrap();
    if heard {
        stack.path_set(client.path(PEER), now());
        let options = stack.tcp_defaults();
        stack.tcp_connect(&options, world.a(PORT).into(), world.b(9999).into(), now()).unwrap();
        lane.turn_until(stack, "it is refused", |_| client.counters(CountersOf::Lane, lane.lane)[0] > 0);
    }
    thief
}

#[test]
fn a_claim_in_advance_takes_no_connection_from_a_listener_in_the_kernel() {
    if skipped() {
        return;
    }
    for (attach, heard) in [(Attach::Tc, false), (Attach::Tc, true), (Attach::Native, true)] {
        let world = World::new(attach);
        let (mut client, lane, mut stack) = world.program();
        let _thief = claim_in_advance(&world, &mut client, &lane, &mut stack, heard);
        let before = client.counters(CountersOf::Lane, lane.lane)[0];
        lives(&accepted(&world, &listening(&world), 9999));
        assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], before, "{attach:?}, {heard}");
        // And what the lane might have sent into it.
        client.loses_a_claim();
    }
}

/// A connection of the kernel's comes between the ends of a flow of this program's, which is given
/// away with that, and is over.
fn given_away(world: &World, program: &mut (Client, LaneOf, Stack<'static>)) {
    use nix::sys::socket::{setsockopt, sockopt};
    let (client, lane, stack) = program;
    let _thief = claim_in_advance(world, client, lane, stack, false);
    let (mut ours, theirs) = accepted(world, &listening(world), 9999);
    setsockopt(&theirs, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    drop(theirs);
    assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_flow_that_has_been_given_away_can_be_claimed_anew_at_once() {
    for by_another in [false, true] {
        let Some(world) = world() else { return };
        let mut first = world.program();
        given_away(&world, &mut first);
        let mut other = by_another.then(|| world.program());
        let (client, lane, stack) = other.as_mut().unwrap_or(&mut first);
        // The lane that has it receives it.
        let _socket = claim_in_advance(&world, client, lane, stack, true);
        first.0.loses_a_claim();
    }
}

#[test]
fn a_listener_that_closes_keeps_a_connection_whose_flow_had_been_given_away_before() {
    let Some(world) = world() else { return };
    let mut program = world.program();
    given_away(&world, &mut program);
    let mut server = Server::of(&world, program);
    let (mut peer, accepted) = server.accept_from(&world, 9999);
    server.closes(&[world.b(9999)]);
    server.is_reached_by(&mut peer, accepted);
}

#[test]
fn a_claim_in_advance_takes_no_connection_from_another_lane() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let (mut client, lane, mut stack) = world.program();
        let _thief = claim_in_advance(&world, &mut client, &lane, &mut stack, true);
        let mut server = Server::new(&world);
        let before = client.counters(CountersOf::Lane, lane.lane)[0];
        let (mut peer, accepted) = server.accept_from(&world, 9999);
        server.is_reached_by(&mut peer, accepted);
        assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], before, "{attach:?}");
    }
}

#[test]
fn a_stranger_on_the_link_does_not_see_what_can_end_a_flow() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let (mut client, lane, mut stack) = world.program();
        let _socket = claim_in_advance(&world, &mut client, &lane, &mut stack, true);
        let mut server = Server::unacquainted(&world, world.program());
        let wire = Wire::new(&world);
        // The source's Ethernet address belongs to no host here: an answer to that is lost.
        wire.send(world.b(9999), world.a(PORT), tcp_flag::SYN, 1);
        let Server { lane: serving, stack, client: served, .. } = &mut server;
        until("the peer, which has not asked, resets it", || {
            serving.turn(stack);
            served.counters(CountersOf::Lane, serving.lane)[0] == 2
        });
    }
}

#[test]
fn a_claim_takes_no_handshake_that_is_under_way_to_another_lane() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let mut server = Server::new(&world);
        let (mut client, lane) = world.laned();
        let mut peer = connecting(&world, 9999, PORT);
        let Server { lane: serving, stack, listener, client: served, .. } = &mut server;
        until("it comes", || served.counters(CountersOf::Lane, serving.lane)[0] > 0);
        // The server has not looked at it yet.
        let thief = bound(&world);
        client.claim(ClaimKind::Flow, world.b(9999).into(), thief.as_fd()).expect("no lane has it");
        let accepted = serving.accept(stack, *listener);
        server.is_reached_by(&mut peer, accepted);
        assert_eq!(client.counters(CountersOf::Lane, lane.lane)[0], 0, "{attach:?}");
        client.loses_a_claim();
    }
}

#[test]
fn connections_that_a_closed_listener_never_had_are_those_of_the_next_lane() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let mut liar = Liar::new(&world);
        assert_eq!(liar.closes(&[world.b(9999)], false), None);
        let mut server = Server::new(&world);
        let (mut peer, accepted) = server.accept_from(&world, 9999);
        server.is_reached_by(&mut peer, accepted);
        assert_eq!(liar.heard(), 0, "{attach:?}");
        // When it closes in its turn, the connection is one that it has, whatever was said before.
        server.closes(&[world.b(9999)]);
        server.is_reached_by(&mut peer, accepted);
    }
}

#[test]
fn a_segment_that_opens_a_connection_does_not_end_the_claim_where_no_socket_listens() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let (mut client, lane, mut stack) = world.program();
        let _socket = claim_in_advance(&world, &mut client, &lane, &mut stack, false);
        let peer = connecting(&world, 9999, PORT);
        until("it comes", || client.counters(CountersOf::Lane, lane.lane)[0] == 1);
        drop(peer);
        // As it would have to, for a simultaneous open (RFC 9293 section 3.5), or to be challenged
        // (RFC 5961 section 4).
        drop(connecting(&world, 9999, PORT));
        until("and again", || client.counters(CountersOf::Lane, lane.lane)[0] >= 2);
    }
}

#[test]
fn connections_that_a_lane_invents_are_not_kept_from_others_that_share_its_port() {
    let Some(world) = world() else { return };
    let mut liar = Liar::new(&world);
    liar.invents(&world, 9000..9064);
    let mut server = Server::new(&world);
    let lanes = [liar.lane.lane, server.lane.lane];
    let theirs = (9000..9064).filter(|&port| bpf::chosen(&lanes, world.b(port).into()) == Some(lanes[1]));
    for port in theirs.take(4) {
        let (peer, _) = server.accept_from(&world, port);
        peer.set_nonblocking(false).unwrap();
    }
    assert_eq!(liar.heard(), 0, "what it invented came to nothing");
}

#[test]
fn a_listener_that_closes_takes_no_connection_that_another_lane_has_accepted() {
    let Some(world) = world() else { return };
    let mut liar = Liar::new(&world);
    let mut server = Server::new(&world);
    let lanes = [liar.lane.lane, server.lane.lane];
    let theirs = (9000..9064).find(|&port| bpf::chosen(&lanes, world.b(port).into()) == Some(lanes[1])).unwrap();
    // Said in time, to be believed later.
    assert_eq!(liar.closes(&[world.b(theirs)], true), None);
    let (mut peer, accepted) = server.accept_from(&world, theirs);
    assert_eq!(liar.closes(&[world.b(theirs)], false), None);
    server.is_reached_by(&mut peer, accepted);
    assert_eq!(liar.heard(), 0);
}

#[test]
fn a_listener_closes_once() {
    let Some(world) = world() else { return };
    let mut liar = Liar::new(&world);
    assert_eq!(liar.closes(&[], false), None);
    let mut server = Server::new(&world);
    let (mut peer, accepted) = server.accept_from(&world, 9999);
    let remotes = [world.b(9999)];
    assert_eq!(liar.closes(&remotes, false), Some(Reason::BadRequest), "it is closed");
    let client = &mut liar.client;
    let idle = bound(&world);
    let flow = client.claim(ClaimKind::Flow, world.b(9998).into(), idle.as_fd()).unwrap();
    assert_eq!(client.convert(flow, &remotes, false), Some(Reason::BadRequest), "it is no listener's");
    let datagrams = within(&world.pair.a, || std::net::UdpSocket::bind(world.a(PORT)).unwrap());
    let datagrams = client.claim_bound(&datagrams).unwrap();
    assert_eq!(client.convert(datagrams, &remotes, false), Some(Reason::BadRequest), "there are no connections");
    server.is_reached_by(&mut peer, accepted);
    assert_eq!(liar.heard(), 0);
}

#[test]
fn a_lane_that_lies_about_anothers_connection_does_not_get_it_when_a_third_joins() {
    let Some(world) = world() else { return };
    let mut liar = Liar::new(&world);
    let (mut third, third_lane) = world.laned();
    let mut server = Server::new(&world);
    let two = [liar.lane.lane, server.lane.lane];
    let three = [two[0], two[1], third_lane.lane];
    let chosen = |lanes: &[u32], port| bpf::chosen(lanes, world.b(port).into());
    let moves = |&port: &u16| chosen(&two, port) == Some(two[1]) && chosen(&three, port) == Some(three[2]);
    let port = (9000..9064).find(moves).unwrap();
    let (mut peer, accepted) = server.accept_from(&world, port);
    liar.invents(&world, port..port + 1);
    let joining = listening(&world);
    third.claim_bound(&joining).unwrap();
    server.is_reached_by(&mut peer, accepted);
    assert_eq!(liar.heard(), 0);
}
