//! Floods of forged packets from the peer's host: connections on Tickwire continue, and the lane
//! uses no more memory. `cargo xtask bench flood` measures the cost in time.

mod common;

use common::{Both, TIMEOUT, start};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tickwire_lab::{LabHost, tools};

const PORT: u16 = 5300;
const CLIENT_PORT: u16 = 40_000;
/// Forged packets per second of each kind.
const RATE: u32 = 20_000;
const LASTS: Duration = Duration::from_millis(400);

/// Requests and responses on a connection whose other end echoes.
fn echoed(stream: &mut TcpStream, count: u32) {
    for n in 0..count {
        let question = [n as u8; 64];
        stream.write_all(&question).unwrap();
        let mut answer = [0; 64];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, question);
    }
}

/// A kernel connection of host a, from a port that the flood knows.
fn connect(host: &LabHost, address: &str) -> TcpStream {
    host.sysctl("net.ipv4.ip_local_port_range", &format!("'{CLIENT_PORT} {CLIENT_PORT}'")).unwrap();
    let stream = host.within(|| TcpStream::connect(address).unwrap()).unwrap();
    host.sysctl("net.ipv4.ip_local_port_range", "'41000 60999'").unwrap();
    assert_eq!(stream.local_addr().unwrap().port(), CLIENT_PORT);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Anonymous memory of a process (heap and stacks), in KiB.
fn anonymous_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_connection_goes_on_through_floods_and_the_lane_takes_no_more_memory() {
    let both = Both::new();
    both.b().run(&["ip", "route", "add", "198.18.0.0/15", "via", &both.pair.a_v4()]).unwrap();
    let address = format!("{}:{PORT}", both.pair.b_v4());
    let pingpong = tools::built("pingpong").unwrap();
    let mut server = start(both.b(), true, &[pingpong.to_str().unwrap(), "server", "tcp", &address]);
    tickwire_lab::wait_until_listening(both.b(), "tcp", PORT, &mut server).unwrap();
    let mut stream = connect(both.a(), &address);
    echoed(&mut stream, 100);
    let number = |what: &str| both.b_service.stat().unwrap().number(&format!("/lanes/0/{what}"));
    let anonymous = anonymous_kib(server.id());

    let mac = both.b().run(&["cat", "/sys/class/net/eth0/address"]).unwrap();
    let flood = tools::built("flood").unwrap();
    let (flood, rate) = (flood.to_str().unwrap(), RATE.to_string());
    let peer = format!("{}:{CLIENT_PORT}", both.pair.a_v4());
    for (kind, counter) in [
        ("syn", "TcpExtSyncookiesSent"),
        ("rst", "TcpInSegs"),
        ("ack", "TcpExtTCPOutOfWindow"),
        ("fragment", "IpReasmReqds"),
        ("overlap", "IpReasmOverlaps"),
        ("land", "IpInAddrErrors"),
    ] {
        let before = number(&format!("counters/{counter}"));
        let mut flooding = start(both.a(), false, &[flood, kind, "eth0", mac.trim(), &address, &peer, "--rate", &rate]);
        flooding.wait_for("flooding", TIMEOUT).unwrap();
        let begin = std::time::Instant::now();
        let mut trips = 0_u64;
        while begin.elapsed() < LASTS {
            echoed(&mut stream, 10);
            trips += 10;
        }
        let ended = flooding.stop(TIMEOUT).unwrap();
        let said: serde_json::Value = serde_json::from_str(ended.stdout.trim()).expect(&ended.stderr);
        let sent = said["sent"].as_u64().unwrap();
        echoed(&mut stream, 10);
        let seen = number(&format!("counters/{counter}")) - before;
        println!("{kind}: {sent} forged, {counter} {seen}, {trips} round trips");
        // SYNs that fit the queue get no cookie; a few guesses are within the window.
        let own = if counter == "TcpInSegs" { trips + 10 } else { 0 };
        assert!(seen > own + sent / 4, "of {sent} the stack has seen {seen}, and {own} of the connection's own");
    }
    // The region has its initial size, its frames were never exhausted, and no other memory grew.
    assert_eq!(number("counters/FramesExhausted"), 0);
    let grown = anonymous_kib(server.id()).saturating_sub(anonymous);
    assert!(grown < 256, "{grown} KiB");
    assert_eq!(number("counters/TcpEstabResets"), 0);
}

/// RFC 4987 §3.6: a listener whose SYN queue is full encodes further half-open connections in
/// cookies. Those of a kernel client are among them.
#[test]
fn a_kernel_connects_by_cookie_during_a_flood_of_syns() {
    let both = Both::new();
    both.b().run(&["ip", "route", "add", "198.18.0.0/15", "via", &both.pair.a_v4()]).unwrap();
    let _server = common::server(&both);
    let (address, rate) = (format!("{}:9000", both.pair.b_v4()), RATE.to_string());
    let number = |counter: &str| both.b_service.stat().unwrap().number(&format!("/lanes/0/counters/{counter}"));
    let mac = both.b().run(&["cat", "/sys/class/net/eth0/address"]).unwrap();
    let flood = tools::built("flood").unwrap();
    let peer = format!("{}:{CLIENT_PORT}", both.pair.a_v4());
    let flood = [flood.to_str().unwrap(), "syn", "eth0", mac.trim(), &address, &peer, "--rate", &rate];
    let flooding = start(both.a(), false, &flood);
    tools::until("the listener sends cookies", TIMEOUT, || number("TcpExtSyncookiesSent") > 1000).unwrap();
    for _ in 0..10 {
        let mut stream = both.a().within(|| TcpStream::connect(&address).unwrap()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        echoed(&mut stream, 20);
    }
    drop(flooding);
    let (cookies, failed) = (number("TcpExtSyncookiesRecv"), number("TcpExtSyncookiesFailed"));
    println!("{cookies} connections by cookie");
    // A few may get a queue entry that has just become free.
    assert!((5..=10).contains(&cookies) && failed == 0, "{cookies} connections by cookie, {failed} that were none");
}

/// Opens many connections to an echo server, sends requests on each while the buffers take them,
/// reads none of the answers, and stays.
const READS_NOTHING: &str = r#"
import socket, sys, time
def connection():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    s.settimeout(20)
    s.connect((sys.argv[1], 9000))
    s.setblocking(False)
    return s
connections = [connection() for _ in range(int(sys.argv[2]))]
def some(s):
    try:
        return s.send(bytes(16384))
    except (BlockingIOError, ConnectionError):
        return 0
taken = time.monotonic()
while time.monotonic() < taken + 0.3:
    if sum(some(s) for s in connections):
        taken = time.monotonic()
    time.sleep(0.01)
print('shut', flush=True)
time.sleep(60)
"#;

/// RFC 9293 §3.8.6.1, RFC 6429: answers wait for windows that stay closed, which are probed
/// repeatedly. A connection that is read still receives its data, and new connections are accepted.
#[test]
fn a_connection_goes_on_beside_many_that_keep_their_windows_shut() {
    const MANY: u64 = 200;
    let both = Both::new();
    let _server = common::server(&both);
    let address = format!("{}:9000", both.pair.b_v4());
    let connect = || {
        let stream = both.a().within(|| TcpStream::connect(&address).unwrap()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    };
    let mut stream = connect();
    echoed(&mut stream, 20);
    let probes = || both.b_service.stat().unwrap().number("/lanes/0/counters/TcpExtTCPWinProbe");
    let many = MANY.to_string();
    let mut shut = start(both.a(), false, &[common::python(), "-c", READS_NOTHING, &both.pair.b_v4(), &many]);
    shut.wait_for("shut", TIMEOUT).unwrap();
    tools::until("shut windows are probed", TIMEOUT, || probes() > 2 * MANY).unwrap();
    echoed(&mut stream, 200);
    echoed(&mut connect(), 200);
    println!("{} probes", probes());
    assert!(shut.is_running().unwrap(), "{}", shut.stderr());
}
