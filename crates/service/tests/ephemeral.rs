//! Ephemeral ports that the service binds for a lane.

mod common;

use common::{Client, PEER, World, now, release, skipped, until, within};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;
use tickwire_lane::control::{Claim, ClaimKind, EphemeralPort, Push, Reason, Reply, Request};
use tickwire_service::Attach;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::TcpState;

fn ports_of(client: &mut Client, source: Address, count: u32) -> Result<Vec<EphemeralPort>, Reason> {
    match client.request(&Request::Ports { source, count }, &[]).0 {
        Reply::Ports { source: bound, ports, .. } => {
            assert_eq!(bound, source);
            Ok(ports.as_slice().to_vec())
        }
        Reply::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

/// Whether the kernel lets another program of host `a` have an address and port, which it would
/// share.
fn is_free(world: &World, name: SocketAddr) -> bool {
    within(&world.pair.a, || {
        let other = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&other, sockopt::ReuseAddr, &true).unwrap();
        setsockopt(&other, sockopt::ReusePort, &true).unwrap();
        bind(other.as_raw_fd(), &SockaddrStorage::from(name)).is_ok()
    })
}

#[test]
fn a_port_is_the_lanes_alone_until_it_is_given_back() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane, mut stack) = world.program();
    stack.path_set(client.path(PEER), now());
    let ours = Address::from(world.a(0).ip());
    let ports = ports_of(&mut client, ours, 8).unwrap();
    let numbers: BTreeSet<u16> = ports.iter().map(|port| port.port).collect();
    assert_eq!((ports.len(), numbers.len()), (8, 8));
    for port in &ports {
        assert!(!is_free(&world, world.a(port.port)) && !is_free(&world, SocketAddr::from(([0; 4], port.port))));
    }
    // A connection from there, of which the service knows nothing.
    let listener = within(&world.pair.b, || TcpListener::bind(world.b(9000)).unwrap());
    let local = Endpoint::from(world.a(ports[0].port));
    let id = stack.tcp_connect(&stack.tcp_defaults(), local, Endpoint::from(world.b(9000)), now()).unwrap();
    lane.turn_until(&mut stack, "connected", |stack| stack.tcp_state(id) == Ok(TcpState::Established));
    let (mut accepted, from) = listener.accept().unwrap();
    assert_eq!(Endpoint::from(from), local);
    stack.tcp_abort(id, now()).unwrap();
    lane.turn(&mut stack);
    accepted.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert!(accepted.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    // Once released, any program may have it, and the lane sends nothing more from there.
    let claims: Vec<Claim> = ports.iter().map(|port| port.claim).collect();
    assert!(matches!(client.request(&release(&claims), &[]).0, Reply::Done));
    until("the ports are free", || ports.iter().all(|port| is_free(&world, world.a(port.port))));
    stack.tcp_connect(&stack.tcp_defaults(), local, Endpoint::from(world.b(9000)), now()).unwrap();
    lane.turn(&mut stack);
    listener.set_nonblocking(true).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(listener.accept().is_err());
}

#[test]
fn only_addresses_of_the_host_have_ports_and_no_user_exceeds_the_limits() {
    if skipped() {
        return;
    }
    let world = World::with(Attach::Tc, "[limits]\nflows_per_user = 40\n");
    let (mut client, _lane) = world.laned();
    for address in [[127, 0, 0, 1], [0, 0, 0, 0], [192, 0, 2, 1]].map(Address::v4).into_iter().chain([Address::ANY]) {
        assert_eq!(ports_of(&mut client, address, 1), Err(Reason::Address), "{address}");
    }
    let ours = Address::from(world.a(0).ip());
    assert_eq!(ports_of(&mut client, ours, 0).unwrap().len(), 1);
    assert_eq!(ports_of(&mut client, ours, u32::MAX).unwrap().len(), 16);
    assert_eq!(ports_of(&mut client, ours, 16).unwrap().len(), 16);
    assert_eq!(ports_of(&mut client, ours, 16).unwrap().len(), 7, "as many as the user may have");
    assert_eq!(ports_of(&mut client, ours, 1), Err(Reason::UserFlowLimit));
    // Neither is one to be had with a socket, nor without a lane.
    let listener = within(&world.pair.a, || TcpListener::bind(world.a(9000)).unwrap());
    let claimed = client.claim(ClaimKind::Ephemeral, Endpoint::default(), std::os::fd::AsFd::as_fd(&listener));
    assert_eq!(claimed, Err(Reason::BadRequest));
    assert_eq!(ports_of(&mut world.client(), ours, 1), Err(Reason::BadRequest));
}

#[test]
fn ports_of_an_address_that_leaves_the_host_are_lost_and_those_of_a_lane_go_with_it() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane) = world.laned();
    let change = |verb| world.pair.a.run(&["ip", "address", verb, "10.99.0.1/32", "dev", "eth0"]).unwrap();
    change("add");
    let (ours, other) = (Address::from(world.a(0).ip()), Address::v4([10, 99, 0, 1]));
    let kept = ports_of(&mut client, ours, 2).unwrap();
    let mut lost: BTreeSet<Claim> = BTreeSet::new();
    until("the service knows the address", || {
        let ports = ports_of(&mut client, other, 2).unwrap_or_default();
        lost.extend(ports.iter().map(|port| port.claim));
        !lost.is_empty()
    });
    change("del");
    while !lost.is_empty() {
        if let Push::ClaimLost { claim, reason } = client.push() {
            assert!(lost.remove(&claim) && reason == Reason::Address);
        }
    }
    assert!(kept.iter().all(|port| !is_free(&world, world.a(port.port))));
    drop((client, lane));
    until("the lane's ports are free", || kept.iter().all(|port| is_free(&world, world.a(port.port))));
}
