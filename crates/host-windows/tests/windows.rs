//! The calls of Windows, on the machine that runs the tests: Windows or Wine. What a host has is
//! not known, so these tests show what every host has, and that no call fails.
#![cfg(windows)]

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use tickwire_host_windows::{
    Changes, HostTables, PortOwner, PortProof, PortProtocol, ResolutionLimits, WindowsHost, connection_owner, is_wine,
    port_owners, prove_port, read_neighbour, read_tables,
};
use tickwire_lane::control::Reason;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathState, Query};

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().unwrap().into()
}

/// An address of the host that is not loopback, if it has one.
fn other_address(tables: &HostTables) -> Option<Address> {
    let addresses = tables.addresses().iter().map(|own| own.address);
    addresses.into_iter().find(|address| address.to_v4().is_some() && !address.is_loopback())
}

#[test]
fn the_host_has_a_loopback_interface_with_its_address() {
    let tables = read_tables().unwrap();
    let loopback = tables.interfaces().iter().find(|interface| interface.is_loopback()).unwrap();
    assert!(loopback.is_up && !loopback.alias.is_empty());
    assert_eq!(loopback.ethernet(), None);
    assert!(loopback.v4.is_some_and(|v4| v4.mtu >= 1500));
    let own = tables.addresses_of(loopback.index);
    assert!(own.iter().any(|own| own.address == address("127.0.0.1") && own.prefix_length == 8), "{own:?}");
    for own in tables.addresses() {
        assert!(tables.interface(own.interface).is_some() && own.subnet().is_some(), "{own:?}");
    }
    for route in tables.routes() {
        assert!(tables.interface(route.interface).is_some(), "{route:?}");
    }
    assert!(!tables.is_cut());
    println!("Wine: {}", is_wine());
    println!("{tables:#?}");
}

#[test]
fn an_unchanged_host_has_no_changes() {
    let mut host = WindowsHost::open(ResolutionLimits::default()).unwrap();
    assert_eq!(host.refresh().unwrap(), []);
}

#[test]
fn own_destinations_are_the_kernels() {
    let mut host = WindowsHost::open(ResolutionLimits::default()).unwrap();
    let own = other_address(host.tables()).into_iter();
    for destination in own.chain([address("127.0.0.1"), address("::1")]) {
        let answer = host.resolve(&Query::to(destination), |_, _| Ok(())).unwrap();
        assert_eq!((answer.path.state, answer.reason), (PathState::Kernel, Reason::Loopback));
    }
}

#[test]
fn a_path_to_a_neighbour_names_interface_source_and_next_hop() {
    let mut host = WindowsHost::open(ResolutionLimits::default()).unwrap();
    let tables = host.tables().clone();
    let candidates = tables.addresses().iter().filter_map(|own| Some((own, own.address.to_v4()?)));
    let on_ethernet =
        candidates.into_iter().find(|(own, _)| tables.interface(own.interface).is_some_and(|i| i.ethernet().is_some()));
    let Some((own, [a, b, c, d])) = on_ethernet.filter(|(own, _)| own.prefix_length <= 30) else {
        println!("no Ethernet interface with IPv4: nothing to show");
        return;
    };
    // Another address of the subnet that is not its broadcast address.
    let near = if d & 3 == 1 { d + 1 } else { d & !3 | 1 };
    let query = Query::to(Address::v4([a, b, c, near]));
    let mut answer = host.resolve(&query, |_, _| Ok(())).unwrap();
    println!("{answer:?}");
    assert_eq!(answer.reason, Reason::None);
    assert_eq!((answer.path.interface, answer.path.source), (own.interface, own.address));
    assert_eq!(answer.next_hop, Some(query.destination));
    assert_eq!(Some(answer.path.source_mac), tables.interface(own.interface).and_then(|i| i.mac));
    assert!(answer.path.mtu >= 576);
    host.update(&mut answer).unwrap();
    println!("{:?}", read_neighbour(own.interface, query.destination).unwrap());
}

#[test]
fn neighbours_that_do_not_exist_are_no_error() {
    assert_eq!(read_neighbour(1, address("192.0.2.77")).unwrap(), None);
    assert_eq!(read_neighbour(1, address("2001:db8::77")).unwrap(), None);
    assert_eq!(read_neighbour(4_000_000, address("192.0.2.77")).unwrap(), None);
}

#[test]
fn announcements_start_or_are_missing_and_end() {
    let changes = Changes::start();
    println!("announced: {}", changes.is_some());
    assert!(changes.is_some() || is_wine());
    if let Some(changes) = changes {
        // The host may be changing just now.
        let _ = changes.take();
    }
}

#[test]
fn a_port_is_that_of_this_process() {
    for ip in ["127.0.0.1", "0.0.0.0", "::1", "::"].map(|text| text.parse::<IpAddr>().unwrap()) {
        let (listener, socket) = match (TcpListener::bind((ip, 0)), UdpSocket::bind((ip, 0))) {
            (Ok(listener), Ok(socket)) => (listener, socket),
            _ if ip.is_ipv6() => continue,
            failed => panic!("IPv4 is always there: {failed:?}"),
        };
        // Wine 8 knows the process of sockets that were used.
        let loopback = if ip.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { IpAddr::from(Ipv4Addr::LOCALHOST) };
        let (tcp, udp) = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
        socket.send_to(&[], (loopback, udp.port())).unwrap();
        is_of_this_process(PortProtocol::Udp, udp);
        let mut stream = TcpStream::connect((loopback, tcp.port())).unwrap();
        stream.write_all(&[1]).unwrap();
        if ip.is_ipv6() && is_wine() {
            println!("Wine 8 knows no process of TCP over IPv6");
        } else {
            is_of_this_process(PortProtocol::Tcp, stream.local_addr().unwrap());
        }
        let owners = port_owners(PortProtocol::Tcp, tcp.into()).unwrap();
        assert!(owners.iter().any(|owner| owner.local == tcp.into()), "{tcp}: {owners:?}");
        assert_ne!(prove_port(PortProtocol::Tcp, tcp.into(), std::process::id()).unwrap(), PortProof::Refuted);
        drop((listener, socket, stream));
        let gone = prove_port(PortProtocol::Udp, udp.into(), std::process::id()).unwrap();
        assert_eq!(gone, PortProof::Unknown, "{udp} is closed");
    }
}

#[track_caller]
fn is_of_this_process(protocol: PortProtocol, local: SocketAddr) {
    let (own, local) = (std::process::id(), Endpoint::from(local));
    assert_eq!(prove_port(protocol, local, own).unwrap(), PortProof::Confirmed, "{local}");
    assert_eq!(prove_port(protocol, local, own + 4).unwrap(), PortProof::Refuted, "{local}");
    assert_eq!(port_owners(protocol, local).unwrap(), [PortOwner { process: Some(own), local }]);
}

#[test]
fn a_connection_is_that_of_this_process() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // Wine 8 knows the process of sockets that were used.
    stream.set_ttl(64).unwrap();
    let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    assert_eq!(connection_owner(local.into(), peer.into()).unwrap(), Some(std::process::id()));
    assert_eq!(connection_owner(local.into(), local.into()).unwrap(), None);
}
