//! A lane from its making to its end, with a hand-made client.

mod common;

use common::{Client, LaneOf, World, now, release, skipped, until, within};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Claim, ClaimKind, CountersOf, Reason, Reply};
use tickwire_lane_linux::bulk::Bulk;
use tickwire_service::Attach;
use tickwire_stack::Stack;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::ids::TcpId;
use tickwire_stack::path::Query;
use tickwire_stack::tcp::Shutdown;
use tickwire_stack::udp::{SendTo, UdpOptions};

/// A kernel socket of host `a`, bound as given.
fn bound(world: &World, address: &str) -> UdpSocket {
    within(&world.pair.a, || UdpSocket::bind(address).unwrap())
}

fn datagrams_cross(attach: Attach, v6: bool) {
    if skipped() {
        return;
    }
    let world = World::new(attach);
    let (mut client, lane, mut stack) = world.program();
    let (ours, theirs) =
        if v6 { (world.pair.a_v6(), world.pair.b_v6()) } else { (world.pair.a_v4(), world.pair.b_v4()) };
    let any = if v6 { "[::]:7000" } else { "0.0.0.0:7000" };
    let proof = bound(&world, any);
    client.claim_bound(&proof).unwrap();
    let id = stack.udp_open(UdpOptions::default()).unwrap();
    stack.udp_bind(id, proof.local_addr().unwrap().into()).unwrap();

    let peer = within(&world.pair.b, || UdpSocket::bind((theirs.parse::<std::net::IpAddr>().unwrap(), 0)).unwrap());
    peer.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let path = client.path_for(Query::to(theirs.parse::<std::net::IpAddr>().unwrap().into()));
    stack.path_set(path, now());
    for round in 0..20_u8 {
        peer.send_to(&[round; 64], (ours.parse::<std::net::IpAddr>().unwrap(), 7000)).unwrap();
        let mut got = Vec::new();
        let mut from = Endpoint::default();
        lane.turn_until(&mut stack, "the datagram comes by the lane", |stack| {
            let mut buffer = [0; 128];
            let mut room = &mut buffer[..];
            match stack.udp_recv(id, false, &mut room) {
                Ok(datagram) => {
                    from = datagram.source;
                    got = buffer[..datagram.copied].to_vec();
                    true
                }
                Err(_) => false,
            }
        });
        assert_eq!(got, [round; 64]);
        let to = SendTo { destination: Some(from), ..SendTo::default() };
        stack.udp_send(id, now(), &to, &mut &[round; 32][..]).unwrap();
        lane.turn(&mut stack);
        let mut answer = [0; 128];
        assert_eq!(peer.recv(&mut answer).unwrap(), 32);
    }
    let counters = client.counters(CountersOf::Lane, lane.lane);
    assert_eq!((counters[0], counters[2]), (20, 20), "in and out, all by the lane: {counters:?}");
    assert_eq!(counters[4..], [0; 8], "nothing refused, nothing lost");
    assert!(client.counters(CountersOf::Host, 0)[1] >= 20);
    proof.set_nonblocking(true).unwrap();
    assert_eq!(proof.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock, "the kernel saw none");
}

#[test]
fn datagrams_cross_with_tc() {
    datagrams_cross(Attach::Tc, false);
}

#[test]
fn datagrams_cross_with_generic_xdp_and_ipv6() {
    datagrams_cross(Attach::Generic, true);
}

#[test]
fn datagrams_cross_with_native_xdp() {
    datagrams_cross(Attach::Native, false);
}

/// A connection of a program's to its peer on the kernel.
struct Connection {
    listener: TcpListener,
    client: Client,
    stack: Stack<'static>,
    lane: LaneOf,
    /// Holds the port, as the library's own socket does.
    proof: OwnedFd,
    id: TcpId,
    accepted: TcpStream,
}

fn connected(world: &World) -> Connection {
    let listener = within(&world.pair.b, || TcpListener::bind(world.b(80)).unwrap());
    let (mut client, lane, mut stack) = world.program();
    let proof = common::tcp_socket(&world.pair.a, world.a(40000));
    let remote = Endpoint::from(world.b(80));
    client.claim(ClaimKind::Flow, remote, proof.as_fd()).unwrap();
    stack.path_set(client.path(remote.address), now());
    let id = stack.tcp_connect(&stack.tcp_defaults(), world.a(40000).into(), remote, now()).unwrap();
    lane.turn_until(&mut stack, "connected", |stack| common::is_connected(stack, id));
    let (accepted, _) = listener.accept().unwrap();
    Connection { listener, client, lane, stack, proof, id, accepted }
}

#[test]
fn a_dead_program_is_gone_within_a_second_and_its_peers_know() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Auto);
    let Connection { listener: _listener, client, lane, stack, proof, id: _, mut accepted } = connected(&world);
    accepted.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    assert_eq!(world.lane_devices().len(), 1);
    let death = Instant::now();
    drop((client, stack, lane));
    let error = accepted.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the lane's device goes", || world.lane_devices().is_empty());
    assert!(death.elapsed() < Duration::from_secs(1), "took {:?}", death.elapsed());
    drop(proof);
    until("the port is free again", || within(&world.pair.a, || TcpListener::bind(world.a(40000))).is_ok());
}

/// A stream leaves as a few trains, and arrives as the segments that the peer's path takes. `dies`:
/// the thread that takes the first load out dies before it is written, and another continues.
fn a_stream_goes_in_trains(attach: Attach, mut dies: bool) {
    if skipped() {
        return;
    }
    /// Bytes of more packets than the first 16 KB, which are no stream yet, and the least that go
    /// in trains.
    const LONG: usize = 60_000;
    /// Frames that are to go in trains.
    const CARRIED: usize = 100;
    let world = World::new(attach);
    let Connection { listener: _listener, mut client, lane, mut stack, proof: _proof, id, mut accepted } =
        connected(&world);
    lane.port.set_bulk(Bulk::new(client.bulk()));
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        accepted.read_to_end(&mut got).map(|_| got)
    });
    let mut sent = Vec::new();
    // As much as may be sent at once, each time when all before has been acknowledged: so the
    // content of a train does not depend on timing. However slow one side was, the windows grow
    // until they hold trains.
    while dies || lane.carried.get() < CARRIED {
        assert!(sent.len() < 20_000_000, "trains after {} bytes", sent.len());
        let info = stack.tcp_info(id, now()).unwrap();
        let room = info.cwnd.min(info.send_window) as usize;
        let part: Vec<u8> = (sent.len()..sent.len() + room).map(|at| ((at * 31) >> 3) as u8).collect();
        let taken = stack.tcp_send(id, now(), false, &mut &part[..]).unwrap();
        sent.extend_from_slice(&part[..taken]);
        if dies && taken > LONG {
            dies = false;
            lane.port.take_streams(&mut stack, &mut lane.port.batch().unwrap());
        }
        lane.turn_until(&mut stack, "all is acknowledged", |stack| {
            let info = stack.tcp_info(id, now()).unwrap();
            info.outstanding + info.unsent == 0 && info.send_window > 0
        });
    }
    stack.tcp_shutdown(id, now(), Shutdown::Write).unwrap();
    lane.turn_until(&mut stack, "all has arrived", |_| reader.is_finished());
    assert!(reader.join().unwrap().unwrap() == sent, "what was sent");
    let counters = client.counters(CountersOf::Lane, lane.lane);
    assert_eq!(counters[4..], [0; 8], "nothing refused, nothing lost");
    let segments = (sent.len() / 1448) as u64;
    assert!(counters[2] > segments && counters[3] > (segments * 66) + sent.len() as u64, "each counts: {counters:?}");
}

#[test]
fn a_stream_goes_in_trains_where_lanes_are_guarded_in_xdp() {
    a_stream_goes_in_trains(Attach::Native, false);
}

#[test]
fn a_stream_goes_in_trains_where_lanes_are_guarded_by_tc() {
    a_stream_goes_in_trains(Attach::Tc, false);
}

#[test]
fn what_a_program_has_not_written_when_it_dies_another_of_its_lane_sends() {
    a_stream_goes_in_trains(Attach::Auto, true);
}

#[test]
fn a_foreign_claim_is_refused() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut first, mut second) = (world.client().entered(), world.client());
    let socket = bound(&world, "0.0.0.0:7000");
    assert_eq!(first.claim_bound(&socket), Err(Reason::BadRequest), "no lane yet");
    let (_one, _two) = (first.hello().unwrap(), second.hello().unwrap());
    assert_eq!(second.hello().err(), Some(Reason::BadRequest), "one lane each");
    let claim = first.claim_bound(&socket).unwrap();
    assert_eq!(second.claim_bound(&socket), Err(Reason::PortTaken));
    let loopback = bound(&world, "127.0.0.1:7001");
    assert_eq!(first.claim_bound(&loopback), Err(Reason::BoundLoopback));
    let elsewhere = within(&world.pair.b, || UdpSocket::bind("0.0.0.0:7002").unwrap());
    assert_eq!(first.claim_bound(&elsewhere), Err(Reason::Namespace));
    let unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
    assert_eq!(first.claim_bound(&unix), Err(Reason::Type));
    assert!(matches!(second.request(&release(&[claim]), &[]).0, Reply::Refused { .. }), "not its claim");
    assert!(matches!(first.request(&release(&[claim]), &[]).0, Reply::Done));
    second.claim_bound(&socket).unwrap();
}

/// One message releases many claims, and their ports are free when it is answered. Claims in it
/// that do not exist, or are another lane's, spoil nothing.
#[test]
fn claims_are_given_back_together() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut one, mut other) = (world.client(), world.client());
    let _lanes = (one.hello().unwrap(), other.hello().unwrap());
    let sockets: Vec<UdpSocket> = (0..7).map(|_| bound(&world, "0.0.0.0:0")).collect();
    let ports: Vec<_> = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let mut claims: Vec<Claim> = sockets.iter().map(|socket| one.claim_bound(socket).unwrap()).collect();
    drop(sockets);
    let foreign = bound(&world, "0.0.0.0:0");
    claims.insert(4, other.claim_bound(&foreign).unwrap());
    assert!(matches!(one.request(&release(&claims), &[]).0, Reply::Refused { reason: Reason::BadRequest, .. }));
    let again: Vec<UdpSocket> = ports.iter().map(|port| bound(&world, &port.to_string())).collect();
    for socket in &again {
        other.claim_bound(socket).unwrap();
    }
    assert_eq!(one.claim_bound(&foreign), Err(Reason::PortTaken), "the other's is still the other's");
    let nobodys = release(&[claims[0], Claim(0), Claim(u64::MAX)]);
    assert!(matches!(one.request(&nobodys, &[]).0, Reply::Refused { .. }), "once");
    assert!(matches!(one.request(&release(&[]), &[]).0, Reply::Done));
}

#[test]
fn lanes_are_made_in_advance_and_go_with_the_service() {
    if skipped() {
        return;
    }
    let mut world = World::with(Attach::Tc, "[limits]\nlanes = 4\n[lane]\nready = 2\n");
    let devices = |count| until("as many lanes as are wanted", || world.lane_devices().len() == count);
    devices(2);
    let ready = world.lane_devices();
    let mut clients = [(); 4].map(|()| world.client());
    let lanes = clients.each_mut().map(|client| client.hello().unwrap().lane);
    assert!(ready.iter().all(|device| lanes.iter().any(|lane| *device == format!("tw{lane}h"))), "{ready:?} {lanes:?}");
    // Those that are kept ready belong to no program, and count for no limit.
    devices(6);
    assert!(world.client().hello().is_err(), "more than are allowed");
    drop(clients);
    devices(2);
    world.stop();
    assert_eq!(world.lane_devices(), [""; 0]);
}

#[test]
fn a_program_that_leaves_while_it_waits_for_a_lane_costs_nothing() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nlanes_per_user = 2\n[lane]\nready = 0\n");
    for _ in 0..20 {
        // Asks, and ends before the answer can come.
        let mut client = world.client();
        client.say_hello();
        drop(client);
    }
    until("its lanes are not booked any more", || world.client().hello().is_ok());
    until("no lane is left but those that are ready", || world.lane_devices().len() <= 1);
}

#[test]
fn names_and_numbers_in_use_are_passed_over() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let add = |name: &str, index: u32| {
        let index = index.to_string();
        world.pair.a.run(&["ip", "link", "add", "name", name, "index", &index, "type", "bridge"]).unwrap()
    };
    let links = within(&world.pair.a, || tickwire_host::RouteNetlink::open().unwrap().links().unwrap());
    let last = links.iter().map(|link| link.index).max().unwrap();
    add("tw0h", 1000);
    add(&format!("tw{}h", last + 1), 1001);
    add("taken0", last + 2);
    let (mut first, mut second) = (world.client(), world.client());
    let lanes = [first.hello().unwrap().lane, second.hello().unwrap().lane];
    assert_eq!(lanes, [last + 3, last + 4]);
}
