//! A small program against plain sockets, accelerated at either end or both, over both protocols
//! and families.

mod common;

use common::{Both, TIMEOUT, built, crossing, python, start, wait_until_listening};
use tickwire_lab::tools;

const PORT: u16 = 7000;
const COUNT: u64 = 500;

#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Server,
    Client,
    Both,
}

fn ping_pong(transport: &str, v6: bool, ends: Ends) {
    let both = Both::new();
    let address = if v6 { format!("[{}]:{PORT}", both.pair.b_v6()) } else { format!("{}:{PORT}", both.pair.b_v4()) };
    let pingpong = built("pingpong");
    let mut server = start(both.b(), ends != Ends::Client, &[&pingpong, "server", transport, &address]);
    wait_until_listening(both.b(), &mut server, transport, PORT);
    let measure = || {
        let count = COUNT.to_string();
        let client = [&pingpong, "client", transport, &address, "--count", &count, "--warmup", "10"];
        start(both.a(), ends != Ends::Server, &client).success(TIMEOUT).unwrap()
    };
    let printed = match ends {
        Ends::Server => crossing(&both.b_service, COUNT, measure),
        Ends::Client => crossing(&both.a_service, COUNT, measure),
        Ends::Both => crossing(&both.a_service, COUNT, || crossing(&both.b_service, COUNT, measure)),
    };
    let figures: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((figures["count"].as_u64(), figures["lost"].as_u64()), (Some(COUNT), Some(0)), "{printed}");
    assert!(server.is_running().unwrap(), "{}", server.stderr());
}

#[test]
fn udp_over_ipv4_with_an_accelerated_server_and_a_kernel_client() {
    ping_pong("udp", false, Ends::Server);
}

#[test]
fn udp_over_ipv4_with_a_kernel_server_and_an_accelerated_client() {
    ping_pong("udp", false, Ends::Client);
}

#[test]
fn udp_over_ipv4_with_both_ends_accelerated() {
    ping_pong("udp", false, Ends::Both);
}

#[test]
fn udp_over_ipv6_with_an_accelerated_server_and_a_kernel_client() {
    ping_pong("udp", true, Ends::Server);
}

#[test]
fn udp_over_ipv6_with_a_kernel_server_and_an_accelerated_client() {
    ping_pong("udp", true, Ends::Client);
}

#[test]
fn udp_over_ipv6_with_both_ends_accelerated() {
    ping_pong("udp", true, Ends::Both);
}

#[test]
fn tcp_over_ipv4_with_an_accelerated_server_and_a_kernel_client() {
    ping_pong("tcp", false, Ends::Server);
}

#[test]
fn tcp_over_ipv4_with_a_kernel_server_and_an_accelerated_client() {
    ping_pong("tcp", false, Ends::Client);
}

#[test]
fn tcp_over_ipv4_with_both_ends_accelerated() {
    ping_pong("tcp", false, Ends::Both);
}

#[test]
fn tcp_over_ipv6_with_an_accelerated_server_and_a_kernel_client() {
    ping_pong("tcp", true, Ends::Server);
}

#[test]
fn tcp_over_ipv6_with_a_kernel_server_and_an_accelerated_client() {
    ping_pong("tcp", true, Ends::Client);
}

#[test]
fn tcp_over_ipv6_with_both_ends_accelerated() {
    ping_pong("tcp", true, Ends::Both);
}

/// Prints its connection's retransmission timeout, in microseconds (`tcpi_rto`).
const TIMES_OUT: &str = r"
import socket, struct, sys
s = socket.create_connection((sys.argv[1], 9000))
for n in range(20):
    s.sendall(b'ping')
    assert s.recv(4) == b'ping'
print(struct.unpack_from('I', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)[0])
";

#[test]
fn the_smallest_retransmission_timeout_is_what_the_program_was_started_with() {
    const ECHO: &str = r"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    while d := c.recv(100): c.sendall(d)
    c.close()";
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let tickwire = tools::tickwire().unwrap();
    let timeout = |options: &[&str]| -> u64 {
        let command =
            [&[tickwire.to_str().unwrap(), "run", "--require"], options, &[python(), "-c", TIMES_OUT, &address]];
        let ended = both.a().spawn(&command.concat()).unwrap().wait(TIMEOUT).unwrap();
        ended.stdout.trim().parse().unwrap_or_else(|_| panic!("{ended:?}"))
    };
    // The kernel's is a little over 200 ms.
    assert!(timeout(&[]) < 150_000);
    assert!((400_000..1_000_000).contains(&timeout(&["--min-rto", "400"])));
}

/// A program that must connect from a certain port binds it, at the wildcard address or at one.
#[test]
fn a_connection_from_a_port_of_any_address_goes_by_the_lane_and_stays_there() {
    const ECHO: &str = r"
import socket, threading
def serve(c):
    while d := c.recv(100): c.sendall(d)
listener = socket.create_server(('::', 9000), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()";
    const CLIENT: &str = r"
import socket, sys, time
a4, a6, b4, b6 = sys.argv[1:]
ends = []
for port, family, local, remote, name in [
    (5001, socket.AF_INET, '0.0.0.0', b4, a4), (5002, socket.AF_INET6, '::', b6, a6),
    (5003, socket.AF_INET6, '::', '::ffff:' + b4, '::ffff:' + a4), (5004, socket.AF_INET, a4, b4, a4)]:
    s = socket.socket(family)
    s.bind((local, port))
    s.connect((remote, 9000))
    assert s.getsockname()[:2] == (name, port), s.getsockname()
    ends.append(s)
# The service looks every second whether sockets still give the right to what was claimed.
for n in range(100):
    for s in ends:
        s.sendall(b'ping')
        assert s.recv(4) == b'ping'
    time.sleep(0.03)
";
    let both = Both::new();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let addresses = [both.pair.a_v4(), both.pair.a_v6(), both.pair.b_v4(), both.pair.b_v6()];
    crossing(&both.a_service, 400, || {
        let client = [&[python(), "-c", CLIENT], &addresses.each_ref().map(String::as_str)[..]].concat();
        start(both.a(), true, &client).success(TIMEOUT).unwrap();
    });
    assert!(server.is_running().unwrap(), "{}", server.stderr());
}
