//! One program with thousands of sockets.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, built, crossing, python, start, wait_until_listening};
use std::time::Duration;
use tickwire_lab::{CableOptions, Process, ServiceOptions, tools};

const SERVER: &str = r#"
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
async def serve(reader, writer):
    while data := await reader.read(100):
        writer.write(data)
async def main():
    server = await asyncio.start_server(serve, sys.argv[1], 9000, backlog=4096)
    await server.serve_forever()
asyncio.run(main())
"#;

/// First connections, then datagram sockets; all of them are used.
const CLIENT: &str = r#"
import os, resource, select, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
connections = [socket.create_connection((sys.argv[1], 9000), timeout=20) for _ in range(3000)]
datagrams = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(5000)]
epoll = select.epoll()
for c in connections:
    epoll.register(c.fileno(), select.EPOLLIN)
for s in datagrams:
    s.bind(('', 0))
    epoll.register(s.fileno(), select.EPOLLIN)
for c in connections:
    c.sendall(b'hello')
answered = set()
while len(answered) < 3000:
    events = epoll.poll(20)
    assert events, len(answered)
    for fd, _ in events:
        answered.add(fd)
        os.read(fd, 100)
for s in datagrams:
    s.sendto(b'x', (sys.argv[1], 9))
print('open', flush=True)
time.sleep(60)
"#;

#[test]
fn thousands_of_sockets_are_accelerated_up_to_the_lanes_limits_and_then_say_why_not() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let client = crossing(&both.a_service, 9000, || {
        let mut client = start(both.a(), true, &[python(), "-c", CLIENT, &address]);
        let opened = client.wait_for("open", TIMEOUT + Duration::from_secs(60));
        assert!(opened.is_ok(), "{}{}", client.stdout(), client.stderr());
        client
    });
    let stat = both.a_service.stat().unwrap();
    let lanes = stat.lanes_of(client.id());
    let sockets = lanes[0]["sockets"].as_array().unwrap();
    let with = |text: &str| sockets.iter().filter(|s| s.to_string().contains(text)).count();
    assert_eq!(with("\"ESTAB\""), 3000);
    let full = with("the lane has no room");
    // The default limit of a lane: 4096 datagram sockets.
    assert_eq!(full, 5000 - 4096, "{}", sockets.len());
    assert_eq!(sockets.len(), 8000);
}

/// The server is accelerated; its client is on the kernel, and opens connections much faster than a
/// service claims them.
#[test]
fn ten_thousand_idle_connections_and_a_thousand_active_ones_live_in_one_lane() {
    let options = ServiceOptions { config: "[lane]\ntcp = 12288\n".into(), ..ServiceOptions::default() };
    let both = Both::with(&CableOptions::default(), &options);
    let address = format!("{}:9000", both.pair.b_v4());
    let mut server = start(both.b(), true, &[&built("connections"), "serve", &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let client = [&built("connections"), "hold", &address, "--connections", "11000", "--active", "1000"];
    let messages = ["--count", "10000", "--parallel", "100", "--everybody", "--stay"];
    let mut client = both.a().spawn(&[&client[..], &messages].concat()).unwrap();
    // Each connection's handshake and a message on it, then the measured messages. Segments that
    // arrive together are acknowledged together.
    crossing(&both.b_service, 11_000 * 3 + 10_000, || {
        let answered = client.wait_for("per_second", TIMEOUT);
        assert!(answered.is_ok(), "{answered:?}; server: {}", server.stderr());
    });
    let stat = both.b_service.stat().unwrap();
    let lanes = stat.lanes_of(server.id());
    assert_eq!(lanes.len(), 1);
    let sockets = lanes[0]["sockets"].as_array().unwrap();
    let alive = |s: &&serde_json::Value| s["state"] == "ESTAB" && s["accelerated"] == true;
    assert_eq!(sockets.iter().filter(alive).count(), 11_000, "of {} sockets", sockets.len());
}

/// A waiting thread needs a descriptor of its own. A program at its limit must not get an error for
/// that from a call that needs none on Linux.
#[test]
fn a_program_without_a_descriptor_to_spare_waits_all_the_same() {
    const ECHO: &str = r"
import socket, time
c = socket.create_server(('', 9000)).accept()[0]
while d := c.recv(1):
    time.sleep(0.3)
    c.sendall(d)
";
    const FULL: &str = r"
import ctypes, errno, os, resource, select, socket, sys, threading, time
class PollFd(ctypes.Structure):
    _fields_ = [('fd', ctypes.c_int), ('events', ctypes.c_short), ('revents', ctypes.c_short)]
libc = ctypes.CDLL(None)
silent = os.pipe()[0]
s = socket.create_connection((sys.argv[1], 9000))
epoll = select.epoll()
epoll.register(s, select.EPOLLIN)
poll = select.poll()
poll.register(s, select.POLLIN)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
try:
    while True: os.dup(0)
except OSError as full:
    assert full.errno == errno.EMFILE
went = []
def one(wait):
    s.sendall(b'x')
    wait()
    went.append(s.recv(1))
for wait in lambda: None, poll.poll, epoll.poll, lambda: select.select([s], [], []):
    thread = threading.Thread(target=one, args=(wait,))
    thread.start()
    thread.join()
assert went == [b'x'] * 4, went
# As many entries as descriptors are allowed; the lane has its own in addition.
places = (PollFd * 40)(*[PollFd(silent, select.POLLIN, 0)] * 39, PollFd(s.fileno(), select.POLLIN, 0))
s.sendall(b'x')
before = time.process_time()
assert libc.poll(places, 40, 5000) == 1 and places[39].revents == select.POLLIN
took = time.process_time() - before
assert took < 0.1, took
";
    let both = Both::new();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    crossing(&both.a_service, 10, || {
        start(both.a(), true, &[python(), "-c", FULL, &both.pair.b_v4()]).success(TIMEOUT).unwrap();
    });
}

/// Its connections use the kernel, and the reported reason is the true one, however many
/// descriptors are left.
#[test]
fn a_program_without_descriptors_for_a_lane_is_told_so() {
    const SHORT: &str = r"
import errno, os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True: held.append(os.dup(0))
except OSError as full:
    assert full.errno == errno.EMFILE
for _ in range(int(sys.argv[2])): os.close(held.pop())
s = socket.create_connection((sys.argv[1], 9000))
s.sendall(b'x')
assert s.recv(1) == b'x'
";
    const REASON: &str = "the program has as many descriptors as it may";
    let both = Both::new();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO_SERVER, &both.pair.b_v4()]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let short = |left: &str| {
        let tickwire = tools::tickwire().unwrap();
        let mut command = both.a().command(tickwire.to_str().unwrap());
        command.args(["run", "--", python(), "-c", SHORT, &both.pair.b_v4(), left]).env("TICKWIRE_LOG", "1");
        Process::spawn(command).unwrap()
    };
    for left in ["1", "2", "3", "5"] {
        let mut program = short(left);
        program.success(TIMEOUT).unwrap();
        assert!(program.stderr().contains(REASON), "{left} left: {}", program.stderr());
    }
    let mut program = short("20");
    crossing(&both.a_service, 2, || program.success(TIMEOUT).unwrap());
    assert!(!program.stderr().contains(REASON), "{}", program.stderr());
}

/// Sends hello and closes at once, so that TIME-WAIT is on the server's side.
const GREETER: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000), backlog=128)
while True:
    connection, _ = listener.accept()
    connection.sendall(b'hello')
    connection.close()
"#;

/// Opens one connection after the other; prints their ports.
const GUEST: &str = r#"
import socket, sys
ports = []
for _ in range(4000):
    connection = socket.create_connection((sys.argv[1], 9000), timeout=5)
    ports.append(connection.getsockname()[1])
    assert b''.join(iter(lambda: connection.recv(16), b'')) == b'hello'
    connection.close()
print(*ports)
"#;

/// A peer with another stack may refuse a port used a moment ago, and a lane must not bind an
/// unlimited number of ports.
#[test]
fn many_connections_one_after_the_other_go_round_among_a_thousand_ports() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", GREETER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let printed = crossing(&both.a_service, 9000, || {
        start(both.a(), true, &[python(), "-c", GUEST, &address]).success(TIMEOUT).unwrap()
    });
    let ports: Vec<u16> = printed.split_whitespace().map(|port| port.parse().unwrap()).collect();
    let mut last = std::collections::HashMap::new();
    let again = ports.iter().enumerate().filter_map(|(n, port)| last.insert(port, n).map(|before| n - before));
    let soonest = again.min();
    println!("{} ports, one again after {soonest:?} connections", last.len());
    assert_eq!(ports.len(), 4000);
    assert!(soonest.is_some_and(|connections| connections >= 1000), "{soonest:?} connections later");
    // Ports of ended connections that were not collected yet come on top.
    assert!((1024..3000).contains(&last.len()), "{} ports", last.len());
}
