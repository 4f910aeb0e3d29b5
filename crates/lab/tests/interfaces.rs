//! A host with two interfaces: what a socket names is obeyed, whatever the route says.

mod common;

use common::{PATIENCE, python, start};
use tickwire_lab::{CableOptions, Pair, Process, Service, ServiceOptions, tools};

/// Hosts a and b with a second cable, a service for both interfaces on a.
fn two_cables() -> (Pair, Service) {
    let pair = Pair::new().unwrap();
    pair.lab.cable(&pair.a, &pair.b, "eth1", &CableOptions::default()).unwrap();
    pair.a.address("eth1", "10.78.0.1/24").unwrap();
    pair.b.address("eth1", "10.78.0.2/24").unwrap();
    let options = ServiceOptions { arguments: vec!["--interface".into(), "eth1".into()], ..ServiceOptions::default() };
    let service = Service::start_with(&pair.a, &options).unwrap();
    (pair, service)
}

/// Prints who sent what.
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

fn hear(pair: &Pair) -> Process {
    let mut hearer = start(&pair.b, false, &[python(), "-c", HEAR, "10.77.0.2", "10.78.0.2"]);
    hearer.wait_for("ready", PATIENCE).unwrap();
    hearer
}

/// Sends by a socket that names eth1, sees that it came from there, and says what `tickwire stat` shows of the socket.
fn named(pair: &Pair, service: &Service, hearer: &mut Process, how: &str, to: &str) -> String {
    let mut sender = start(&pair.a, true, &[python(), "-c", NAME, how, to]);
    sender.wait_for("sent", PATIENCE).unwrap();
    let heard = hearer.wait_for(&format!("{how} from 10.78.0.1"), PATIENCE);
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
    // The routes to this address and to all groups leave by eth0.
    pair.a.run(&["ip", "route", "add", "224.0.0.0/4", "dev", "eth0"]).unwrap();
    for (how, to, shows) in [
        ("device", "10.77.0.2", "bound to a device"),
        ("late", "10.77.0.2", "bound to a device"),
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
    tools::until("the lanes are gone", PATIENCE, || service.stat().unwrap().json["lanes"] == serde_json::json!([]))
        .unwrap();
}
