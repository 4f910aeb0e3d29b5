//! A host with two links, on each of which a peer has the same link-local address, like devices of
//! one make. The scope selects the link, on the lane as on the kernel.

mod common;

use common::{TIMEOUT, crossing, python, start};
use tickwire_lab::{CableOptions, Lab, LabHost, Process, Service, ServiceOptions};

/// Asks the server at `fe80::1` of each link by TCP, UDP and a connected UDP socket. Prints its
/// name, and the scopes of the addresses.
const CLIENT: &str = r#"
import socket, sys
shared = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
shared.settimeout(10)
for turn in range(2):
    for link in sys.argv[2:]:
        index = socket.if_nametoindex(link)
        to = (sys.argv[1], 7400, 0, index)
        s = socket.socket(socket.AF_INET6)
        s.settimeout(10)
        s.connect(to); s.sendall(b'?')
        named = s.getpeername()[3] == index and s.getsockname()[3] == index
        print('TCP', link, s.recv(100).decode(), named, flush=True)
        shared.sendto(b'?', to)
        data, peer = shared.recvfrom(100)
        print('UDP', link, data.decode(), peer[3] == index, flush=True)
        u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        u.settimeout(10)
        u.connect(to); u.send(b'?')
        print('connected', link, u.recv(100).decode(), True, flush=True)
print('all', flush=True)
sys.stdin.read()
"#;

/// Answers with its name, and prints the link of each peer.
const SERVER: &str = r#"
import socket, sys, threading
name = sys.argv[1].encode()
listener = socket.socket(socket.AF_INET6)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('::', 7400)); listener.listen()
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
udp.bind(('::', 7400))
def datagrams():
    while True:
        _, beside, _, peer = udp.recvmsg(100, 100)
        told = int.from_bytes(beside[0][2][16:20], sys.byteorder)
        print('datagram by', socket.if_indextoname(peer[3]), told == peer[3], flush=True)
        udp.sendto(name, peer)
threading.Thread(target=datagrams, daemon=True).start()
print('ready', flush=True)
while True:
    s, peer = listener.accept()
    same = s.getpeername()[3] == s.getsockname()[3] == peer[3]
    print('connection by', socket.if_indextoname(peer[3]), same, flush=True)
    s.recv(100); s.sendall(name)
"#;

const LINKS: [&str; 2] = ["eth0", "eth1"];

/// The host with two links, and a host on each of them.
struct Links {
    host: LabHost,
    peers: [LabHost; 2],
    service: Service,
}

fn links() -> Links {
    let lab = Lab::new().unwrap();
    let host = lab.host("a").unwrap();
    let peers = ["b", "c"].map(|name| lab.host(name).unwrap());
    for (number, (peer, link)) in peers.iter().zip(LINKS).enumerate() {
        lab.cable(&host, peer, link, &CableOptions::default()).unwrap();
        host.address(link, &format!("fe80::a{number}/64")).unwrap();
        peer.address(link, "fe80::1/64").unwrap();
    }
    let arguments = vec!["--interface".into(), LINKS[1].into()];
    let service = Service::start_with(&host, &ServiceOptions { arguments, ..ServiceOptions::default() }).unwrap();
    Links { host, peers, service }
}

fn server(host: &LabHost, accelerated: bool, name: &str) -> Process {
    let mut server = start(host, accelerated, &[python(), "-c", SERVER, name]);
    server.wait_for("ready", TIMEOUT).unwrap();
    server
}

#[test]
fn a_client_reaches_the_link_that_it_names() {
    let net = links();
    let _servers: Vec<_> = net.peers.iter().zip(LINKS).map(|(peer, link)| server(peer, false, link)).collect();
    // At least three packets per connection, and the answers to datagrams. A connected UDP socket
    // is bound to the link, as on Linux, and stays on the kernel.
    let said = crossing(&net.service, 16, || {
        let mut client = start(&net.host, true, &[python(), "-c", CLIENT, "fe80::1", LINKS[0], LINKS[1]]);
        client.wait_for("all", TIMEOUT).unwrap();
        client.stdout()
    });
    for how in ["TCP", "UDP", "connected"] {
        for link in LINKS {
            let line = format!("{how} {link} {link} True");
            assert_eq!(said.matches(&line).count(), 2, "{line}: {said}");
        }
    }
}

#[test]
fn a_server_sees_by_which_link_a_peer_came_and_answers_there() {
    let net = links();
    let mut server = server(&net.host, true, "server");
    for (number, (peer, link)) in net.peers.iter().zip(LINKS).enumerate() {
        let own = format!("fe80::a{number}");
        crossing(&net.service, 10, || {
            let mut client = start(peer, false, &[python(), "-c", CLIENT, &own, link]);
            client.wait_for("all", TIMEOUT).unwrap();
        });
        for what in ["connection", "datagram"] {
            server.wait_for(&format!("{what} by {link} True"), TIMEOUT).unwrap();
        }
    }
    let said = server.stdout();
    assert!(!said.contains("False"), "{said}");
}
