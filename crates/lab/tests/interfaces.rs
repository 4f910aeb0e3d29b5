//! A host with two interfaces: an interface that a socket names is used, whatever the route says.

mod common;

use common::{TIMEOUT, crossing, python, start};
use tickwire_lab::{CableOptions, LabPair, Process, Service, ServiceOptions, tools};

/// Hosts a and b with a second cable, and a service for both interfaces on a.
fn two_cables() -> (LabPair, Service) {
    let pair = LabPair::new().unwrap();
    pair.lab.cable(&pair.a, &pair.b, "eth1", &CableOptions::default()).unwrap();
    pair.a.address("eth1", "10.78.0.1/24").unwrap();
    pair.b.address("eth1", "10.78.0.2/24").unwrap();
    let options = ServiceOptions { arguments: vec!["--interface".into(), "eth1".into()], ..ServiceOptions::default() };
    let service = Service::start_with(&pair.a, &options).unwrap();
    (pair, service)
}

/// Prints each datagram with its sender.
const HEAR: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7200))
for own in sys.argv[1:]:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + socket.inet_aton(own))
print('ready', flush=True)
while True:
    data, who = s.recvfrom(100)
    print(data.decode(), 'from', who[0], flush=True)
"#;

/// Sends one datagram from a socket that names the second interface, and stays.
const NAME: &str = r#"
import socket, struct, sys, time
how, to = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
index = socket.if_nametoindex('eth1')
if how == 'late': s.bind(('', 0))
if how in ('device', 'late'): s.setsockopt(socket.SOL_SOCKET, 25, b'eth1')
if how == 'unicast': s.setsockopt(socket.IPPROTO_IP, 50, struct.pack('!I', index))
if how == 'group': s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack('=4s4si', b'', b'', index))
if how == 'address': s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.78.0.1'))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
s.sendto(how.encode(), (to, 7200))
print('sent', flush=True)
time.sleep(60)
"#;

fn hear(pair: &LabPair) -> Process {
    let mut hearer = start(&pair.b, false, &[python(), "-c", HEAR, "10.77.0.2", "10.78.0.2"]);
    hearer.wait_for("ready", TIMEOUT).unwrap();
    hearer
}

/// Sends from a socket that names eth1, checks the source address, and returns what `tickwire stat`
/// shows about the socket.
fn named(pair: &LabPair, service: &Service, hearer: &mut Process, how: &str, to: &str) -> String {
    let mut sender = start(&pair.a, true, &[python(), "-c", NAME, how, to]);
    sender.wait_for("sent", TIMEOUT).unwrap();
    let heard = hearer.wait_for(&format!("{how} from 10.78.0.1"), TIMEOUT);
    assert!(heard.is_ok(), "{how}: heard {}", hearer.stdout());
    let lanes = service.stat().unwrap();
    let shown = format!("{:?}", lanes.lanes_of(sender.id()));
    sender.kill();
    shown
}

#[test]
fn a_socket_that_names_another_interface_than_the_route_leaves_by_it() {
    let (pair, service) = two_cables();
    let mut hearer = hear(&pair);
    // The routes to this address and to all groups use eth0.
    pair.a.run(&["ip", "route", "add", "224.0.0.0/4", "dev", "eth0"]).unwrap();
    for (how, to, shows) in [
        ("device", "10.77.0.2", "one of several accelerated interfaces"),
        ("late", "10.77.0.2", "one of several accelerated interfaces"),
        ("unicast", "10.77.0.2", r#""out_packets": Number(1)"#),
        ("group", "239.1.2.3", r#""out_packets": Number(1)"#),
        ("address", "239.1.2.3", r#""out_packets": Number(1)"#),
    ] {
        let shown = named(&pair, &service, &mut hearer, how, to);
        assert!(shown.contains(shows), "{how}: {shown}");
    }
}

#[test]
fn a_socket_that_names_an_interface_without_lanes_is_the_kernels_and_says_so() {
    let (pair, _) = two_cables();
    // A service for eth0 alone.
    let service = Service::start(&pair.a).unwrap();
    let mut hearer = hear(&pair);
    for (how, to) in [("unicast", "10.77.0.2"), ("group", "239.1.2.3"), ("address", "239.1.2.3")] {
        let shown = named(&pair, &service, &mut hearer, how, to);
        assert!(shown.contains("another interface than that of the route"), "{how}: {shown}");
    }
}

#[test]
fn a_group_without_a_route_is_sent_to_by_the_lane_and_the_interface_that_was_named() {
    let (pair, service) = two_cables();
    let mut hearer = hear(&pair);
    for how in ["group", "address"] {
        let shown = named(&pair, &service, &mut hearer, how, "239.1.2.3");
        assert!(shown.contains(r#""out_packets": Number(1)"#), "{how}: {shown}");
    }
    let heard = hearer.stdout();
    assert_eq!(heard.matches("from").count(), 2, "each once: {heard}");
    tools::until("the lanes are gone", TIMEOUT, || service.stat().unwrap().json["lanes"] == serde_json::json!([]))
        .unwrap();
}

/// Receives on a port of one interface.
const BOUND: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 25, b'eth0')
s.bind(('', 7200))
print('ready', flush=True)
while True: print(s.recv(100).decode(), flush=True)
"#;

/// Sends one datagram.
const TELL_ONE: &str = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(sys.argv[2].encode(), (sys.argv[1], 7200))";

#[test]
fn a_socket_that_is_bound_to_an_interface_goes_on_when_the_service_takes_up_another() {
    let (pair, service) = two_cables();
    pair.a.run(&["ip", "link", "del", "eth1"]).unwrap();
    let one = || service.stat().unwrap().json["host"]["interfaces"].as_array().unwrap().len() == 1;
    tools::until("one interface is left", TIMEOUT, one).unwrap();
    let mut hearer = start(&pair.a, true, &[python(), "-c", BOUND]);
    hearer.wait_for("ready", TIMEOUT).unwrap();
    let tell = |text| start(&pair.b, false, &[python(), "-c", TELL_ONE, &pair.a_v4(), text]).success(TIMEOUT).unwrap();
    crossing(&service, 1, || {
        tell("by the lane");
        hearer.wait_for("by the lane", TIMEOUT).unwrap();
    });
    pair.lab.cable(&pair.a, &pair.b, "eth1", &CableOptions::default()).unwrap();
    let shown = || format!("{:?}", service.stat().unwrap().lanes_of(hearer.id()));
    let several = || shown().contains("one of several accelerated interfaces");
    tools::until("it is the kernel's", TIMEOUT, several)
        .unwrap_or_else(|e| panic!("{e:#}\n{}\n{}", shown(), service.log()));
    tell("by the kernel");
    hearer.wait_for("by the kernel", TIMEOUT).unwrap();
}

/// Binds UDP sockets to an interface in either order, and a listener; stays.
const DEVICES: &str = r#"
import socket, time
kept = []
for number, kind in enumerate((socket.SOCK_DGRAM, socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_STREAM)):
    s = socket.socket(socket.AF_INET, kind)
    if number % 2: s.setsockopt(socket.SOL_SOCKET, 25, b'eth0')
    s.bind(('', 7210 + number))
    if kind == socket.SOCK_STREAM: s.listen()
    if number % 2 == 0: s.setsockopt(socket.SOL_SOCKET, 25, b'eth0')
    kept.append(s)
print('ready', flush=True)
time.sleep(60)
"#;

#[test]
fn a_socket_that_is_bound_to_the_only_accelerated_interface_is_accelerated() {
    let (pair, both) = two_cables();
    let mut both = Some(both);
    for several in [true, false] {
        let service = both.take().filter(|_| several).unwrap_or_else(|| Service::start(&pair.a).unwrap());
        let mut program = start(&pair.a, true, &[python(), "-c", DEVICES]);
        program.wait_for("ready", TIMEOUT).unwrap();
        let lanes = service.stat().unwrap();
        let sockets: Vec<_> = lanes.lanes_of(program.id())[0]["sockets"].as_array().unwrap().clone();
        assert_eq!(sockets.len(), 4, "{sockets:?}");
        for socket in &sockets {
            assert_eq!(socket["accelerated"], !several, "{socket}");
            let reason = socket["reason"].as_str().unwrap_or_default();
            assert_eq!(reason.contains("one of several accelerated interfaces"), several, "{socket}");
        }
        program.kill();
    }
}

/// Connects a socket to hosts in turn, sends to each, and prints the source address.
const ANEW: &str = r#"
import ctypes, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 0))
for number, to in enumerate(sys.argv[1:]):
    if to == 'nowhere':
        nowhere = (ctypes.c_char * 16)()
        assert ctypes.CDLL(None).connect(s.fileno(), nowhere, 16) == 0
        continue
    s.connect((to, 7200))
    s.send(b'%d' % number)
    print(number, 'from', s.getsockname()[0], flush=True)
print('all', flush=True)
time.sleep(60)
"#;

#[test]
fn a_socket_that_is_connected_anew_sends_as_the_kernel_does() {
    let (pair, service) = two_cables();
    let mut hearer = hear(&pair);
    let (first, second) = ("10.77.0.2", "10.78.0.2");
    let mut said = Vec::new();
    for accelerated in [false, true] {
        let steps = [first, second, "nowhere", second, first, "nowhere", first];
        let mut sender = start(&pair.a, accelerated, &[&[python(), "-c", ANEW][..], &steps].concat());
        sender.wait_for("all", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", sender.stderr()));
        for line in sender.stdout().lines().filter(|line| *line != "all") {
            hearer.wait_for(line, TIMEOUT).unwrap();
        }
        let shown = format!("{:?}", service.stat().unwrap().lanes_of(sender.id()));
        assert!(!accelerated || shown.contains(r#""out_packets": Number(5)"#), "{shown}");
        said.push(sender.stdout());
    }
    assert_eq!(said[0], said[1]);
    let heard = hearer.stdout();
    for line in said[0].lines().filter(|line| *line != "all") {
        assert_eq!(heard.matches(line).count(), 2, "{line}: {heard}");
    }
}
