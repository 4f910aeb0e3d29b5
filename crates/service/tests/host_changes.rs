//! Interfaces, addresses and neighbours that change while lanes live, and services that come and
//! go.

mod common;

use common::{Client, PEER, World, now, skipped, until, within};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::LabPair;
use tickwire_lane::control::{Accelerated, AttachMode, CountersOf, Push, Reason, Reply, Request};
use tickwire_lane_linux::control::Channel;
use tickwire_service::{Attach, RunOptions};
use tickwire_stack::addr::Mac;
use tickwire_stack::path::{PathState, Query};

fn interfaces(client: &mut Client) -> Vec<Accelerated> {
    let mut all = Vec::new();
    let mut after = 0;
    while let Reply::Interface { info } = client.request(&Request::ListInterfaces { after }, &[]).0 {
        after = info.interface;
        all.push(*info);
    }
    all
}

/// The next change of a path.
fn path_push(client: &mut Client) -> tickwire_stack::path::PathInfo {
    loop {
        if let Push::PathChanged { path, .. } = client.push() {
            return path;
        }
    }
}

#[test]
fn the_port_of_a_bridge_is_not_accelerated_until_it_is_none() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Auto);
    let mut client = world.client();
    let ip =
        |arguments: &str| world.pair.a.run(&[&["ip"][..], &arguments.split(' ').collect::<Vec<_>>()].concat()).unwrap();
    let says = |client: &mut Client, mode, reason| {
        until("the service says so", || {
            let all = interfaces(client);
            all.len() == 1 && (all[0].mode, all[0].reason) == (mode, reason)
        });
    };
    says(&mut client, AttachMode::Tc, Reason::None);
    ip("link add br0 type bridge");
    ip("link set eth0 master br0");
    says(&mut client, AttachMode::None, Reason::Port);
    assert_eq!(world.client().hello().err(), Some(Reason::Port), "a program is told the same");
    ip("link set eth0 nomaster");
    says(&mut client, AttachMode::Tc, Reason::None);
}

#[test]
fn a_new_mtu_and_a_new_neighbour_are_told_to_the_lane() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    assert_eq!(client.path(PEER).mtu, 1500);
    client.pushes.clear();
    for host in [&world.pair.b, &world.pair.a] {
        host.mtu("eth0", 9000).unwrap();
    }
    // What to assume of peers that connect before the host has spoken of them.
    while !matches!(client.push(), Push::Mtu { mtu: 9000 }) {}
    until("the MTU is told", || path_push(&mut client).mtu == 9000);

    world.pair.b.run(&["ip", "link", "set", "eth0", "address", "02:77:77:77:77:77"]).unwrap();
    // It fails, and succeeds when repeated, if an entry changes under its hands.
    until("the neighbours are flushed", || world.pair.a.run(&["ip", "neigh", "flush", "all"]).is_ok());
    until("the new neighbour is told", || {
        let path = path_push(&mut client);
        path.state == PathState::Ready && path.next_hop_mac == Mac([2, 0x77, 0x77, 0x77, 0x77, 0x77])
    });
}

#[test]
fn an_address_that_leaves_takes_its_claims_along() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    let specific = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    let any = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:7001").unwrap());
    let lost = client.claim_bound(&specific).unwrap();
    client.claim_bound(&any).unwrap();
    world.pair.a.run(&["ip", "address", "del", "10.77.0.1/24", "dev", "eth0"]).unwrap();
    loop {
        match client.push() {
            Push::ClaimLost { claim, reason } => {
                assert_eq!((claim, reason), (lost, Reason::Address));
                break;
            }
            Push::PathChanged { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.claim_bound(&specific).err(), Some(Reason::Address));
    world.pair.a.address("eth0", "10.77.0.1/24").unwrap();
    until("the address is back", || client.claim_bound(&specific).is_ok());
    assert!(client.pushes.iter().all(|p| !matches!(p, Push::ClaimLost { .. })), "the other claim stays");
}

#[test]
fn an_interface_that_is_made_anew_is_accelerated_again() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    let before = interfaces(&mut client);
    assert_eq!((before.len(), before[0].mode, before[0].name.as_str()), (1, AttachMode::Tc, "eth0"));
    world.pair.a.run(&["ip", "link", "del", "eth0"]).unwrap();
    until("it is gone", || interfaces(&mut client).is_empty());
    assert_eq!(world.client().hello().err(), Some(Reason::NoInterface));
    let (a, b) = (&world.pair.a, &world.pair.b);
    a.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b.namespace()]).unwrap();
    for (host, address) in [(a, "10.77.0.1/24"), (b, "10.77.0.2/24")] {
        host.run(&["ip", "link", "set", "eth0", "up"]).unwrap();
        host.address("eth0", address).unwrap();
    }
    until("it is back", || interfaces(&mut client).first().is_some_and(|i| i.mode == AttachMode::Tc));
    let socket = within(a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    until("claims work again", || client.claim_bound(&socket).is_ok());
    assert_eq!(client.path(PEER).state, PathState::Ready);
}

#[test]
fn a_service_that_ends_tells_all_programs_and_leaves_nothing() {
    if skipped() {
        return;
    }
    let mut world = World::new(Attach::Native);
    let listener = within(&world.pair.b, || TcpListener::bind(world.b(80)).unwrap());
    let (mut client, lane, mut stack) = world.program();
    let socket = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    client.claim_bound(&socket).unwrap();
    stack.path_set(client.path(PEER), now());
    let proof = common::tcp_socket(&world.pair.a, world.a(40000));
    let remote = world.b(80).into();
    client.claim(tickwire_lane::control::ClaimKind::Flow, remote, proof.as_fd()).unwrap();
    let id = stack.tcp_connect(&stack.tcp_defaults(), world.a(40000).into(), remote, now()).unwrap();
    lane.turn_until(&mut stack, "connected", |stack| common::is_connected(stack, id));
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    world.stop();
    loop {
        match client.push() {
            Push::Closing { reason } => break assert_eq!(reason, Reason::Stopping),
            Push::PathChanged { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(accepted.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(world.lane_devices().is_empty() && !world.socket.exists());
    let details = world.pair.a.run(&["ip", "-details", "link", "show", "eth0"]).unwrap();
    assert!(!details.contains("xdp"), "{details}");
    let filters = world.pair.a.run(&["tc", "filter", "show", "dev", "eth0", "ingress"]).unwrap();
    assert_eq!(filters.trim(), "");
    // The program continues with the kernel.
    let peer = within(&world.pair.b, || UdpSocket::bind(world.b(0)).unwrap());
    peer.send_to(b"kernel", world.a(7000)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 6);
    // A new service takes its place, and a new lane works.
    world.start(Attach::Native, "");
    let mut again = world.client();
    let _lane = again.hello().unwrap();
    again.claim_bound(&socket).unwrap();
}

#[test]
fn one_service_in_a_namespace_and_one_at_a_socket() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let other_socket = world.pair.a.directory().join("other.sock");
    let in_same_namespace = within(&world.pair.a, || {
        tickwire_service::run(RunOptions { socket: Some(other_socket), ..RunOptions::default() })
    });
    let error = in_same_namespace.unwrap_err().to_string();
    assert!(error.contains("another Tickwire service already runs in this network namespace"), "{error}");
    let at_same_socket = within(&world.pair.b, || {
        tickwire_service::run(RunOptions { socket: Some(world.socket.clone()), ..RunOptions::default() })
    });
    let error = at_same_socket.unwrap_err().to_string();
    assert!(error.contains("another Tickwire service already listens on"), "{error}");
    let unknown = World::try_interface(&world, "eth9").unwrap_err().to_string();
    assert!(unknown.contains("\"eth9\""), "{unknown}");
    assert!(Channel::connect(&world.socket).is_ok(), "the first goes on");
}

#[test]
fn an_interface_that_goes_down_and_up_keeps_its_claims() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let mut client = world.client();
    let lane = client.hello().unwrap();
    let socket = within(&world.pair.a, || UdpSocket::bind(world.a(7000)).unwrap());
    client.claim_bound(&socket).unwrap();
    client.path(PEER);
    client.pushes.clear();
    world.pair.a.run(&["ip", "link", "set", "eth0", "down"]).unwrap();
    until("the path is lost", || path_push(&mut client).state == PathState::Unreachable);
    world.pair.a.run(&["ip", "link", "set", "eth0", "up"]).unwrap();
    until("and found again", || client.path(PEER).state == PathState::Ready);
    assert!(client.pushes.iter().all(|p| !matches!(p, Push::ClaimLost { .. })));
    let peer = within(&world.pair.b, || UdpSocket::bind(world.b(0)).unwrap());
    let mut came = || client.counters(CountersOf::Lane, lane.lane)[0];
    until("packets come", || {
        peer.send_to(b"x", world.a(7000)).unwrap();
        came() > 0
    });
}

/// The service as a program of its own, to be killed.
fn killable(pair: &LabPair) -> std::process::Child {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/service");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", pair.a.namespace()]).arg(program).arg(pair.a.socket()).arg("eth0");
    let child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the service answers", || Channel::connect(&pair.a.socket()).is_ok());
    child
}

#[test]
fn after_a_killed_service_nothing_leaks_and_the_next_cleans_up() {
    if skipped() {
        return;
    }
    let pair = LabPair::new().unwrap();
    let mut first = killable(&pair);
    let mut orphan = Client::at(&pair.a.socket());
    let lane = orphan.hello().unwrap();
    let mut stack = lane.stack();
    let socket = within(&pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    orphan.claim_bound(&socket).unwrap();
    let path = orphan.path_for(Query::to(PEER));
    stack.path_set(path, now());
    let peer = within(&pair.b, || UdpSocket::bind("10.77.0.2:9000").unwrap());
    peer.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let id = stack.udp_open(tickwire_stack::udp::UdpOptions::default()).unwrap();
    stack.udp_bind(id, socket.local_addr().unwrap().into()).unwrap();
    let to = tickwire_stack::udp::SendTo {
        destination: Some(tickwire_stack::addr::Endpoint::new(PEER, 9000)),
        ..Default::default()
    };
    stack.udp_send(id, now(), &to, &mut &b"before"[..]).unwrap();
    lane.turn(&mut stack);
    assert_eq!(peer.recv(&mut [0; 16]).unwrap(), 6);

    first.kill().unwrap();
    first.wait().unwrap();
    // The lane's device is still there, held by the program's rings, and lets nothing out. (Before
    // Linux 6.6 a work queue of the kernel's sees to that.)
    until("there is no guard, and no way out", || {
        stack.udp_send(id, now(), &to, &mut &b"after"[..]).unwrap();
        lane.turn(&mut stack);
        peer.recv(&mut [0; 16]).is_err()
    });
    // The host's traffic flows by the kernel as before.
    peer.send_to(b"kernel", "10.77.0.1:7000").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 6);

    let world = World::on(pair, Attach::Tc, "");
    assert!(world.lane_devices().is_empty(), "{:?}", world.lane_devices());
    let mut client = world.client();
    let _lane = client.hello().unwrap();
    client.claim_bound(&socket).unwrap();
}
