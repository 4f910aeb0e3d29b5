//! Accelerated programs beside ordinary ones: a port is bound only once, and unclaimed traffic is
//! not affected.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};
use tickwire_lab::{LabHost, Service, tools};

const LISTEN: &str = r#"
import socket, sys, time
s = socket.socket()
s.bind((sys.argv[1], 9000))
s.listen()
print('listening', flush=True)
time.sleep(60)
"#;

#[test]
fn a_kernel_program_and_an_accelerated_one_cannot_both_take_a_port() {
    let both = Both::new();
    let address = both.pair.b_v4();
    for first_accelerated in [true, false] {
        let mut first = start(both.b(), first_accelerated, &[python(), "-c", LISTEN, &address]);
        first.wait_for("listening", TIMEOUT).unwrap();
        for second_accelerated in [true, false] {
            let mut second = start(both.b(), second_accelerated, &[python(), "-c", LISTEN, &address]);
            let ended = second.wait(TIMEOUT).unwrap();
            assert!(ended.stderr.contains("Address already in use"), "{ended:?}");
        }
        first.kill();
        let free = || both.b().run(&["ss", "-H", "-lnt"]).unwrap().is_empty();
        tools::until("the port is free", TIMEOUT, free).unwrap();
    }
}

/// Like a login session: small messages back and forth on one long connection, each answered in
/// time and correctly.
const SESSION: &str = r#"
import socket, sys, time
s = socket.create_connection((sys.argv[1], 2222), timeout=10)
slowest = 0
for n in range(int(sys.argv[2])):
    begin = time.monotonic()
    line = b'line %d\n' % n
    s.sendall(line)
    back = b''
    while len(back) < len(line): back += s.recv(100)
    assert back == line
    slowest = max(slowest, time.monotonic() - begin)
    time.sleep(0.01)
print('slowest', slowest)
"#;

const SESSION_SERVER: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 2222))
while True:
    c, _ = listener.accept()
    while d := c.recv(100): c.sendall(d)
    c.close()
"#;

#[test]
fn an_ordinary_session_goes_on_while_lanes_come_and_go_under_load() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", SESSION_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 2222);
    let mut session = start(both.a(), false, &[python(), "-c", SESSION, &address, "500"]);
    let mut rounds = 0;
    while session.is_running().unwrap() {
        let mut echo =
            start(both.b(), true, &[&common::built("pingpong"), "server", "udp", &format!("{address}:7000")]);
        wait_until_listening(both.b(), &mut echo, "udp", 7000);
        let client = [&common::built("pingpong"), "client", "udp", &format!("{address}:7000"), "--count", "2000"];
        crossing(&both.b_service, 2000, || start(both.a(), true, &client).success(TIMEOUT).unwrap());
        echo.kill();
        rounds += 1;
        let free = || both.b().run(&["ss", "-H", "-lnu"]).unwrap().is_empty();
        tools::until("the port is free", TIMEOUT, free).unwrap();
    }
    let said = session.success(TIMEOUT).unwrap();
    let slowest: f64 = said.trim().strip_prefix("slowest ").unwrap().parse().unwrap();
    assert!(rounds >= 2 && slowest < 2.0, "{rounds} rounds, slowest answer {slowest} s");
    // A diverted session would show as a socket of a lane.
    assert!(both.b_service.stat().unwrap().json["lanes"].as_array().unwrap().is_empty());
}

/// Connects and closes this many times.
const CONNECT: &str = r#"
import socket, sys
for n in range(int(sys.argv[2])):
    with socket.create_connection((sys.argv[1], 9000), timeout=10) as s:
        s.sendall(b'x')
        assert s.recv(1) == b'x'
print('done')
"#;

const ACCEPT: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000), backlog=64)
while True:
    c, _ = listener.accept()
    with c:
        while d := c.recv(10): c.sendall(d)
"#;

#[test]
fn many_connections_one_after_the_other_leave_no_claim_behind() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ACCEPT, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let client = [python(), "-c", CONNECT, &address, "200"];
    crossing(&both.b_service, 800, || start(both.a(), true, &client).success(TIMEOUT).unwrap());
    let claims = || {
        let stat = both.b_service.stat().unwrap();
        stat.lanes_of(server.id())[0]["claims"].as_array().map_or(0, Vec::len)
    };
    tools::until("only the listener's claim is left", TIMEOUT, || claims() == 1).unwrap();
}

#[test]
fn peers_on_the_same_host_talk_through_the_kernel_and_the_reason_is_said() {
    let both = Both::new();
    for address in ["127.0.0.1".to_owned(), both.pair.b_v4()] {
        let script = ACCEPT.replace("sys.argv[1]", "''");
        let mut server = start(both.b(), true, &[python(), "-c", &script]);
        wait_until_listening(both.b(), &mut server, "tcp", 9000);
        let client = CONNECT.replace("print('done')", "import time; print('done', flush=True); time.sleep(30)");
        let keep = client
            .replace("with socket.create_connection", "if True:\n        s = socket.create_connection")
            .replace(" as s:", "");
        let mut client = start(both.b(), true, &[python(), "-c", &keep, &address, "1"]);
        client.wait_for("done", TIMEOUT).unwrap();
        let sockets = sockets_of(&both.b_service, client.id());
        let kernel: Vec<_> = sockets.iter().filter(|s| s["accelerated"] == false).collect();
        assert_eq!(kernel.len(), 1, "{sockets:?}");
        assert!(kernel[0]["reason"].as_str().unwrap().contains("this host itself"), "{sockets:?}");
        server.kill();
        client.kill();
        tools::until("the port is free", TIMEOUT, || both.b().run(&["ss", "-H", "-lnt"]).unwrap().is_empty()).unwrap();
    }
}

/// Reads everything and stays, so that its lane can be inspected.
const TAKE: &str = r"
import socket, sys, time
connection, _ = socket.create_server((sys.argv[1], 9000)).accept()
total = 0
while data := connection.recv(1 << 20):
    total += len(data)
print(total, flush=True)
time.sleep(60)";

/// Waits for a frame longer than any on the cable: GRO precedes packet sockets, and these precede
/// tc.
const MERGED: &str = r"
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('eth0', 0))
print('watching', flush=True)
while len(s.recv(1 << 17)) <= 1514: pass
print('merged', flush=True)";

/// If divert is a tc program, it gets a stream's segments merged, and splits them for the lane.
#[test]
fn packets_that_the_kernel_has_merged_are_counted_as_those_that_they_were() {
    /// Ethernet, IPv4, TCP with timestamps.
    const HEADERS: u64 = 14 + 20 + 32;
    let both = Both::new();
    let mut server = start(both.b(), true, &[python(), "-c", TAKE, &both.pair.b_v4()]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let mut watcher = start(both.b(), false, &[python(), "-c", MERGED]);
    watcher.wait_for("watching", TIMEOUT).unwrap();
    let send =
        "import socket, sys; s = socket.create_connection((sys.argv[1], 9000)); s.sendall(bytes(1 << 24)); s.close()";
    start(both.a(), false, &[python(), "-c", send, &both.pair.b_v4()]).success(TIMEOUT).unwrap();
    server.wait_for("16777216", TIMEOUT).unwrap();
    let stat = both.b_service.stat().unwrap();
    let [lane] = stat.lanes_of(server.id())[..] else { panic!("{}", stat.json) };
    let of = |pointer: &str| lane.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap();
    let came = of("/guard/in_packets");
    assert!(came > (1 << 24) / 1500, "{came} packets are too few for the stream");
    assert_eq!(stat.diverted(), came);
    assert!(of("/guard/in_bytes") >= (1 << 24) + came * HEADERS, "each packet's headers: {lane}");
    // The stack receives them as they were merged.
    let taken = of("/counters/IpInReceives");
    assert!(taken < came / 2, "{taken} of {came}: {lane}");
    watcher.wait_for("merged", TIMEOUT).unwrap();
}

#[test]
fn a_socket_that_stays_on_the_kernel_is_named_with_its_reason_on_standard_error_if_that_is_wanted() {
    const SCRIPT: &str = r#"
import socket, sys
listener = socket.create_server(('127.0.0.1', 9000))
client = socket.create_connection(('127.0.0.1', 9000))
accepted, _ = listener.accept()
own = socket.create_connection(('127.0.0.1', 9000), source_address=('127.0.0.1', 9001))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('127.0.0.1', 9002))
print(listener.fileno(), client.fileno(), accepted.fileno(), client.getsockname()[1], own.fileno(), datagrams.fileno())
"#;
    let both = Both::new();
    let tickwire = tools::tickwire().unwrap();
    let program = [tickwire.to_str().unwrap(), "run", "--require", python(), "-c", SCRIPT];
    let ended = both.a().spawn(&[&["env", "TICKWIRE_LOG=1"][..], &program].concat()).unwrap().wait(TIMEOUT).unwrap();
    let numbers: Vec<&str> = ended.stdout.split_whitespace().collect();
    let [listener, client, accepted, port, own, datagrams] = numbers[..] else { panic!("{ended:?}") };
    let expected = [
        format!(
            "TCP socket {listener} (127.0.0.1:9000) stays on the kernel: the socket is bound to a loopback address"
        ),
        format!("TCP socket {client} (to 127.0.0.1:9000) stays on the kernel: the peer is this host"),
        format!("TCP socket {accepted} (127.0.0.1:9000 to 127.0.0.1:{port}) stays on the kernel: "),
        format!("TCP socket {own} (127.0.0.1:9001 to 127.0.0.1:9000) stays on the kernel: the peer is this host"),
        format!("UDP socket {datagrams} (127.0.0.1:9002) stays on the kernel: the socket is bound to a loopback"),
    ];
    assert_eq!(ended.stderr.lines().count(), expected.len(), "{}", ended.stderr);
    for (line, expected) in ended.stderr.lines().zip(expected) {
        assert!(line.starts_with(&format!("tickwire: {expected}")), "{line}\nand not\n{expected}");
    }
}

fn sockets_of(service: &Service, process: u32) -> Vec<serde_json::Value> {
    let stat = service.stat().unwrap();
    let lanes = stat.lanes_of(process);
    lanes.iter().flat_map(|lane| lane["sockets"].as_array().cloned().unwrap_or_default()).collect()
}

#[test]
fn a_user_without_the_right_to_the_socket_runs_on_the_kernel_and_an_entitled_one_is_accelerated() {
    let mut both = Both::new();
    let address = both.pair.a_v4();
    let as_user = |host: &LabHost, arguments: &[&str]| {
        let tickwire = tools::tickwire().unwrap();
        let user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"];
        let command = [&user[..], &[tickwire.to_str().unwrap()], arguments].concat();
        host.spawn(&command).unwrap().wait(TIMEOUT).unwrap()
    };
    let run = |host: &LabHost, more: &[&str]| {
        let script = format!(
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('{address}', 9000)); print('bound')"
        );
        as_user(host, &[&["run"], more, &["--", python(), "-c", &script]].concat())
    };
    let ended = run(both.a(), &["--require"]);
    assert_eq!(ended.status.code(), Some(69), "{ended:?}");
    let ended = run(both.a(), &[]);
    assert!(ended.stdout == "bound\n" && ended.stderr.contains("may not use the service"), "{ended:?}");

    both.a_service.stop().unwrap();
    let options = tickwire_lab::ServiceOptions { config: "[socket]\nmode = 0o666\n".into(), ..Default::default() };
    both.a_service = Service::start_with(&both.pair.a, &options).unwrap();
    let ended = run(both.a(), &["--require"]);
    assert!(ended.status.success() && ended.stdout == "bound\n", "{ended:?}");

    // That user is shown nothing of root's programs.
    let mut roots = start(both.a(), true, &[python(), "-c", LISTEN, &address]);
    roots.wait_for("listening", TIMEOUT).unwrap();
    assert_eq!(both.a_service.stat().unwrap().lanes_of(roots.id()).len(), 1);
    let ended = as_user(both.a(), &["stat"]);
    assert!(ended.status.success() && ended.stdout.contains("no program of this user"), "{ended:?}");
}
