//! A host with two accelerated interfaces, whose routes depend on the source address or on the type
//! of service: packets that do not follow the host's rules do not arrive.

mod common;

use common::{TIMEOUT, crossing, python, start};
use tickwire_lab::{CableOptions, Lab, LabHost, Process, Service, ServiceOptions};

/// Sends from each of these addresses to a server, over TCP, UDP and a connected UDP socket, and
/// over UDP from an unbound socket that gives the address in `IP_PKTINFO`. Prints how often the
/// answer arrived.
const CLIENT: &str = r#"
import socket, struct, sys
server, *own = sys.argv[1:]
family = socket.AF_INET6 if ':' in server else socket.AF_INET
def name(address):
    if family == socket.AF_INET: return [(socket.IPPROTO_IP, 8, struct.pack('=i', 0) + socket.inet_aton(address) + bytes(4))]
    return [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, socket.inet_pton(family, address) + struct.pack('=I', 0))]
def open_from(kind, address):
    s = socket.socket(family, kind)
    s.settimeout(10)
    if address: s.bind((address, 0))
    return s
for turn in range(2):
    for address in [None, *own]:
        s = open_from(socket.SOCK_STREAM, address)
        s.connect((server, 7300)); s.sendall(b'stream'); assert s.recv(100) == b'stream'
        print('TCP from', s.getsockname()[0], flush=True)
        s = open_from(socket.SOCK_DGRAM, address)
        s.sendto(b'datagram', (server, 7300)); assert s.recv(100) == b'datagram'
        s = open_from(socket.SOCK_DGRAM, address)
        s.connect((server, 7300)); s.send(b'connected'); assert s.recv(100) == b'connected'
        print('UDP from', s.getsockname()[0], flush=True)
    for address in own:
        s = open_from(socket.SOCK_DGRAM, None)
        s.sendmsg([b'named'], name(address), 0, (server, 7300)); assert s.recv(100) == b'named'
        print('named', address, flush=True)
print('all', flush=True)
sys.stdin.read()
"#;

/// Answers requests to any of the host's addresses, from the destination address of the request.
const SERVER: &str = r#"
import socket, struct, sys, threading
family = socket.AF_INET6 if sys.argv[1] == 'v6' else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('', 7300)); listener.listen()
udp = socket.socket(family, socket.SOCK_DGRAM)
level, option = (socket.IPPROTO_IP, 8) if family == socket.AF_INET else (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO)
udp.setsockopt(level, option, 1)
udp.bind(('', 7300))
def datagrams():
    while True:
        data, beside, _, peer = udp.recvmsg(100, 100)
        _, kind, info = beside[0]
        if family == socket.AF_INET: info = struct.pack('=i', 0) + info[4:8] + bytes(4)
        else: info = info[:16] + struct.pack('=I', 0)
        udp.sendmsg([data], [(level, kind, info)], 0, peer)
threading.Thread(target=datagrams, daemon=True).start()
print('ready', flush=True)
def serve(connection):
    while data := connection.recv(100): connection.sendall(data)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// The prefix of an interface's network, to which host numbers are appended.
fn network(v6: bool, interface: usize) -> String {
    if v6 { format!("fd7{}::", 7 + interface) } else { format!("10.{}.0.", 77 + interface) }
}

/// The other host's address that both interfaces reach.
fn far(v6: bool) -> &'static str {
    if v6 { "fd99::9" } else { "10.99.0.9" }
}

/// The host with two interfaces, the host at their other ends, and the service of the first.
struct Forked {
    host: LabHost,
    other: LabHost,
    service: Service,
}

/// The default route uses the first interface, and packets from the second one's address use the
/// second. The other host drops packets from the second one's address on the first.
fn forked() -> Forked {
    let lab = Lab::new().unwrap();
    let (host, other) = (lab.host("a").unwrap(), lab.host("b").unwrap());
    for (number, interface) in ["eth0", "eth1"].into_iter().enumerate() {
        lab.cable(&host, &other, interface, &CableOptions::default()).unwrap();
        for v6 in [false, true] {
            let (net, length) = (network(v6, number), if v6 { 64 } else { 24 });
            host.address(interface, &format!("{net}1/{length}")).unwrap();
            other.address(interface, &format!("{net}2/{length}")).unwrap();
        }
    }
    for v6 in [false, true] {
        let family = if v6 { "-6" } else { "-4" };
        let [first, second] = [0, 1].map(|number| network(v6, number));
        let (length, to) = (if v6 { 128 } else { 32 }, far(v6));
        let run = |host: &LabHost, command: &str| host.run(&command.split(' ').collect::<Vec<_>>()).unwrap();
        run(&other, &format!("ip addr add {to}/{length} dev lo{}", if v6 { " nodad" } else { "" }));
        run(&host, &format!("ip {family} route add default via {first}2"));
        run(&host, &format!("ip {family} route add default via {second}2 table 100"));
        run(&host, &format!("ip {family} rule add from {second}1 table 100"));
        run(&other, &format!("ip {family} rule add pref 1 iif eth0 from {second}1 blackhole"));
    }
    let options = ServiceOptions { arguments: vec!["--interface".into(), "eth1".into()], ..ServiceOptions::default() };
    let service = Service::start_with(&host, &options).unwrap();
    Forked { host, other, service }
}

/// Runs the client until its work is done; it stays alive.
fn ask(host: &LabHost, accelerated: bool, server: &str, own: &[&str]) -> Process {
    let mut client = start(host, accelerated, &[&[python(), "-c", CLIENT, server][..], own].concat());
    client.wait_for("all", TIMEOUT).unwrap();
    client
}

#[test]
fn what_a_client_sends_from_an_address_goes_that_addresses_way() {
    let net = forked();
    for v6 in [false, true] {
        let mut server = start(&net.other, false, &[python(), "-c", SERVER, if v6 { "v6" } else { "v4" }]);
        server.wait_for("ready", TIMEOUT).unwrap();
        let own = [0, 1].map(|number| format!("{}1", network(v6, number)));
        let own = own.each_ref().map(String::as_str);
        // At least three packets per connection, and each answer to a datagram.
        let client = crossing(&net.service, 34, || ask(&net.host, true, far(v6), &own));
        let said = client.stdout();
        assert_eq!(said.matches(own[1]).count(), 6, "{said}");
    }
}

#[test]
fn what_a_server_answers_from_an_address_goes_that_addresses_way() {
    let net = forked();
    for v6 in [false, true] {
        let mut server = start(&net.host, true, &[python(), "-c", SERVER, if v6 { "v6" } else { "v4" }]);
        server.wait_for("ready", TIMEOUT).unwrap();
        crossing(&net.service, 66, || {
            for number in [1, 0, 1] {
                ask(&net.other, false, &format!("{}1", network(v6, number)), &[far(v6)]);
            }
        });
    }
}

/// Accepts one connection, and prints how it ended.
const ENDING: &str = r#"
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('', 7310)); listener.listen()
print('ready', flush=True)
c = listener.accept()[0]
c.recv(100)
print('connected', flush=True)
try:
    print('end' if c.recv(1) == b'' else 'data', flush=True)
except ConnectionResetError:
    print('reset', flush=True)
"#;

/// Connects from an address, and stays.
const STAYING: &str = r#"
import socket, sys, time
s = socket.socket()
s.bind((sys.argv[2], 0))
s.connect((sys.argv[1], 7310)); s.sendall(b'x')
time.sleep(60)
"#;

#[test]
fn what_ends_a_dead_programs_connection_goes_the_way_of_the_connection() {
    let net = forked();
    // An address of the second interface; no rule directs its packets there.
    net.host.address("eth1", "10.78.0.3/24").unwrap();
    let mut server = start(&net.other, false, &[python(), "-c", ENDING]);
    server.wait_for("ready", TIMEOUT).unwrap();
    crossing(&net.service, 2, || {
        let mut client = start(&net.host, true, &[python(), "-c", STAYING, far(false), "10.78.0.3"]);
        server.wait_for("connected", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", client.stderr()));
        client.kill();
        server.wait_for("reset", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", net.service.log()));
    });
}

/// Sends with several types of service, set before connecting, meanwhile, or for one datagram.
/// Prints the source address and the answer of each.
const SERVICES: &str = r#"
import socket, struct, sys
server = sys.argv[1]
v6 = ':' in server
family = socket.AF_INET6 if v6 else socket.AF_INET
level, option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if v6 else (socket.IPPROTO_IP, socket.IP_TOS)
def made(kind, tos):
    s = socket.socket(family, kind)
    s.settimeout(10)
    s.setsockopt(level, option, tos)
    return s
def echoed(s, tos):
    s.sendall(b'%d' % tos)
    return s.recv(100).decode(), s.getsockname()[0]
for tos in 0, 0x10, 0xb8, 0x12, 0:
    s = made(socket.SOCK_STREAM, tos); s.connect((server, 7300)); print('TCP', tos, echoed(s, tos), flush=True)
    s = made(socket.SOCK_DGRAM, tos); s.connect((server, 7300)); print('UDP connected', tos, echoed(s, tos), flush=True)
    s = made(socket.SOCK_DGRAM, tos); s.sendto(b'to', (server, 7300)); print('UDP', tos, s.recv(100), flush=True)
    s = made(socket.SOCK_DGRAM, 0); s.sendmsg([b'one'], [(level, option, struct.pack('=i', tos))], 0, (server, 7300))
    print('one', tos, s.recv(100), flush=True)
s = made(socket.SOCK_STREAM, 0)
s.connect((server, 7300))
for tos in 0, 0x10, 0xb8, 0x10:
    s.setsockopt(level, option, tos)
    print('set', tos, echoed(s, tos), s.getsockopt(level, option), flush=True)
s = made(socket.SOCK_STREAM, 0x10); s.bind(('', 0)); s.connect((server, 7300)); print('bound', echoed(s, 1), flush=True)
s = made(socket.SOCK_STREAM, 0x10); s.connect((server, 7300)); print('before', echoed(s, 2), flush=True)
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b'x'], [s.fileno()])
s = socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0])
s.settimeout(10)
print('passed', echoed(s, 3), s.getsockopt(level, option), flush=True)
"#;

/// Echoes received data, and prints its source.
const SAYS_FROM_WHERE: &str = r#"
import socket, sys, threading
family = socket.AF_INET6 if sys.argv[1] == 'v6' else socket.AF_INET
listener = socket.create_server(('', 7300), family=family)
udp = socket.socket(family, socket.SOCK_DGRAM)
udp.bind((sys.argv[2], 7300))
def datagrams():
    while True:
        data, peer = udp.recvfrom(100)
        udp.sendto(data + b' ' + peer[0].encode(), peer)
threading.Thread(target=datagrams, daemon=True).start()
print('ready', flush=True)
def serve(c, peer):
    while data := c.recv(100): c.sendall(data + b' ' + peer[0].encode())
while True:
    threading.Thread(target=serve, args=listener.accept(), daemon=True).start()
"#;

#[test]
fn what_is_sent_goes_the_way_of_its_type_of_service_as_beside_the_kernel() {
    let net = forked();
    for v6 in [false, true] {
        let family = if v6 { "-6" } else { "-4" };
        net.host.run(&["ip", family, "rule", "add", "tos", "0x10", "table", "100"]).unwrap();
        let mut server =
            start(&net.other, false, &[python(), "-c", SAYS_FROM_WHERE, if v6 { "v6" } else { "v4" }, far(v6)]);
        server.wait_for("ready", TIMEOUT).unwrap();
        let run = |accelerated| {
            let mut client = start(&net.host, accelerated, &[python(), "-c", SERVICES, far(v6)]);
            client.success(TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}{}", client.stdout(), client.stderr()))
        };
        let kernels = run(false);
        assert!(kernels.contains(&format!("{}1", network(v6, 1))), "{kernels}");
        let ours = crossing(&net.service, 40, || run(true));
        assert_eq!(ours, kernels);
    }
}
