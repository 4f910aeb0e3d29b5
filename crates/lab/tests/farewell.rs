//! An orderly stop of the service: programs hand their connections over to the kernel before their
//! lanes end.

mod common;

use common::{Both, TIMEOUT, WAITING_CLIENT, python, server, start, wait_until_listening, willing};
use nix::sys::signal::Signal;
use std::time::Duration;
use tickwire_lab::{Service, tools};

/// Has streams echoed over connections that it opened and accepted, while its service is stopped.
/// One is closed with data in flight. Another thread waits in a call. Then it opens new
/// connections.
const STREAMING: &str = r#"
import hashlib, os, socket, sys, threading, time
own, peer, back = sys.argv[1:]
family = socket.AF_INET6 if ':' in own else socket.AF_INET
def stream(salt):
    return b''.join(hashlib.sha256(b'%d %d' % (salt, i)).digest() for i in range(60000))
def echoed(s, salt):
    mine, got = stream(salt), b''
    def send():
        for at in range(0, len(mine), 16000):
            s.sendall(mine[at:at + 16000])
            time.sleep(0.005)
        s.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=send)
    t.start()
    while d := s.recv(65536): got += d
    t.join()
    assert got == mine, (salt, len(got), len(mine))
    s.close()
def line(s):
    got = b''
    while not got.endswith(b'\n'): got += s.recv(100)
    return got
def connection():
    return socket.create_connection((peer, 9000), timeout=20)
listener = socket.create_server((own, 7000), family=family)
datagrams = socket.socket(family, socket.SOCK_DGRAM)
datagrams.bind((own, 7001))
print('listening', flush=True)
accepted = listener.accept()[0]
waits = connection()
failed = []
def streams(s, salt):
    try: echoed(s, salt)
    except BaseException as error: failed.append(error)
threads = [threading.Thread(target=streams, args=(s, salt)) for salt, s in enumerate((connection(), connection(), accepted))]
waiter = threading.Thread(target=lambda: failed.append('nothing came') if line(waits) != b'late\n' else None)
for t in threads + [waiter]: t.start()
time.sleep(0.1)
print('under way', flush=True)
for t in threads: t.join()
waits.sendall(b'late\n')
waiter.join()
assert not failed, failed
# What it has goes on, as the kernel's.
c, _ = listener.accept()
c.sendall(line(c))
data, sender = datagrams.recvfrom(100)
datagrams.sendto(data, sender)
print('went on', flush=True)
while not os.path.exists(back): time.sleep(0.05)
again = connection()
again.sendall(b'again\n' * 100)
assert again.recv(600, socket.MSG_WAITALL) == b'again\n' * 100
print('done', flush=True)
"#;

/// Echoes data of connections of either family.
const ECHO: &str = r#"
import socket, sys, threading
def serve(c):
    while d := c.recv(65536): c.sendall(d)
    c.close()
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 9000), family=family)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Echoes the data of the listener of [`STREAMING`]; or, later, has that one echo a line and a
/// datagram.
const BESIDE: &str = r#"
import socket, sys
host, late = sys.argv[1], sys.argv[2] == 'late'
s = socket.create_connection((host, 7000), timeout=30)
if late:
    s.sendall(b'hello\n')
    assert s.recv(6, socket.MSG_WAITALL) == b'hello\n'
    d = socket.socket(s.family, socket.SOCK_DGRAM)
    d.settimeout(20)
    d.sendto(b'datagram', (host, 7001))
    assert d.recv(100) == b'datagram'
else:
    while d := s.recv(65536): s.sendall(d)
"#;

#[test]
fn no_byte_is_lost_when_the_service_is_stopped_and_started_again() {
    for v6 in [false, true] {
        let mut both = Both::new();
        let (own, peer) = match v6 {
            false => (both.pair.a_v4(), both.pair.b_v4()),
            true => (both.pair.a_v6(), both.pair.b_v6()),
        };
        let mut server = start(both.b(), false, &[python(), "-c", ECHO, &peer]);
        wait_until_listening(both.b(), &mut server, "tcp", 9000);
        let back = both.a().directory().join("back");
        let mut client = willing(both.a(), &[python(), "-c", STREAMING, &own, &peer, back.to_str().unwrap()]);
        client.wait_for("listening", TIMEOUT).unwrap();
        let mut echo = start(both.b(), false, &[python(), "-c", BESIDE, &own, "now"]);
        client.wait_for("under way", TIMEOUT).unwrap();
        let diverted = || both.a_service.stat().unwrap().diverted();
        tools::until("the streams cross the stack", TIMEOUT, || diverted() > 20).unwrap();
        let begin = std::time::Instant::now();
        let ended = both.a_service.stop().unwrap();
        assert!(ended.status.success());
        assert!(begin.elapsed() < Duration::from_millis(1900), "it does not wait for a program that has left");
        let late = start(both.b(), false, &[python(), "-c", BESIDE, &own, "late"]).success(Duration::from_secs(30));
        assert!(late.is_ok(), "{late:?}\n{}{}\n{}", client.stdout(), client.stderr(), ended.stderr);
        client.wait_for("went on", Duration::from_secs(30)).unwrap();
        assert!(client.stderr().contains("its sockets go on with the kernel's stack"), "{}", client.stderr());
        echo.success(TIMEOUT).unwrap();

        both.a_service = Service::start(&both.pair.a).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
        std::fs::write(&back, "").unwrap();
        client.wait_for("done", TIMEOUT).unwrap();
        assert!(both.a_service.stat().unwrap().diverted() > 1, "new sockets take the fast path");
    }
}

/// Workers accept from a shared listener with blocking calls, and echo.
const PREFORKED: &str = r#"
import os, socket, sys, threading
listener = socket.create_server((sys.argv[1], 9000), backlog=64)
def serve(c):
    with c:
        while d := c.recv(1000): c.sendall(b'%d:' % os.getpid() + d)
for n in range(3):
    if os.fork() == 0:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
print('forked', flush=True)
os.wait()
"#;

/// Keeps many connections, opens others continuously, and uses all of them again once a file
/// exists. Prints how many there were.
const MANY: &str = r#"
import os, socket, sys, time
address, back = sys.argv[1:3]
def connection():
    return socket.create_connection((address, 9000), timeout=20)
def asks(s):
    s.sendall(b'hello\n')
    got = b''
    while not got.endswith(b'\n'):
        d = s.recv(100)
        assert d, 'it has ended'
        got += d
kept = [connection() for _ in range(int(sys.argv[3]))]
for s in kept: asks(s)
print('kept', flush=True)
refused = 0
while not os.path.exists(back):
    try:
        s = connection()
        asks(s)
        kept.append(s)
    except (ConnectionRefusedError, ConnectionResetError):
        refused += 1
    if len(kept) > 700: kept.pop().close()
    time.sleep(0.002)
for s in kept: asks(s)
print('all', len(kept) > int(sys.argv[3]), 'refused', refused, flush=True)
"#;

#[test]
fn many_connections_go_on_when_the_service_is_stopped_those_that_are_made_meanwhile_too() {
    let mut both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let back = both.a().directory().join("back");
    let mut client = willing(both.a(), &[python(), "-c", MANY, &address, back.to_str().unwrap(), "300"]);
    client.wait_for("kept", TIMEOUT).unwrap();
    assert!(both.a_service.stat().unwrap().diverted() > 600, "they cross the stack");
    assert!(both.a_service.stop().unwrap().status.success());
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&back, "").unwrap();
    let told = client.success(TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}{}", client.stdout(), client.stderr()));
    assert_eq!(told, "kept\nall True refused 0\n", "{}", client.stderr());
}

#[test]
fn workers_that_share_a_listener_serve_on_when_the_service_is_stopped() {
    let mut both = Both::new();
    let address = both.pair.b_v4();
    let mut server = willing(both.b(), &[python(), "-c", PREFORKED, &address]);
    server.wait_for("forked", TIMEOUT).unwrap();
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let back = both.a().directory().join("back");
    let mut client = start(both.a(), false, &[python(), "-c", MANY, &address, back.to_str().unwrap(), "12"]);
    client.wait_for("kept", TIMEOUT).unwrap();
    assert!(both.b_service.stat().unwrap().diverted() > 24, "they cross the stack");
    let begin = std::time::Instant::now();
    assert!(both.b_service.stop().unwrap().status.success());
    assert!(begin.elapsed() < Duration::from_secs(4));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&back, "").unwrap();
    let told = client
        .success(TIMEOUT)
        .unwrap_or_else(|e| panic!("{e:#}\n{}{}\n{}", client.stdout(), client.stderr(), server.stderr()));
    // Connections that the stack's listener has accepted, and no worker yet, are lost with it.
    let refused: u32 = told.trim_start_matches("kept\nall True refused ").trim().parse().unwrap();
    assert!(refused <= 3, "{told}{}", server.stderr());
}

#[test]
fn a_service_that_is_stopped_does_not_wait_for_ever_for_a_program_that_does_not_run() {
    let mut both = Both::new();
    let _server = server(&both);
    let mut client = willing(both.a(), &[python(), "-c", WAITING_CLIENT, &both.pair.b_v4()]);
    client.wait_for("connected", TIMEOUT).unwrap();
    client.suspend().unwrap();
    let begin = std::time::Instant::now();
    assert!(both.a_service.stop().unwrap().status.success());
    assert!(begin.elapsed() < Duration::from_secs(6));
    client.signal(Signal::SIGCONT).unwrap();
    client.wait_for("reset", Duration::from_secs(5)).unwrap();
}

/// Accepts connections, shuts down its sending side at once if a line says so, and reads nothing
/// until a file exists. Then it prints how much arrived and how that ended.
const LATE_READER: &str = r#"
import os, socket, sys, threading, time
address, go = sys.argv[1:]
family = socket.AF_INET6 if ':' in address else socket.AF_INET
listener = socket.socket(family, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 30000)
listener.bind((address, 9000))
listener.listen()
# In one write, so that lines of two threads do not mix.
def tell(line):
    sys.stdout.write(line + '\n')
    sys.stdout.flush()
def serve(c):
    count, line = 0, c.recv(6)
    if line == b'shut!\n': c.shutdown(socket.SHUT_WR)
    while not os.path.exists(go): time.sleep(0.02)
    try:
        while d := c.recv(65536):
            assert d == bytes((count + i) % 251 for i in range(len(d)))
            count += len(d)
        tell(f'{count} ended')
    except OSError as error:
        tell(f'{count} {error}')
threads = []
for _ in range(2):
    threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
    threads[-1].start()
for t in threads: t.join()
"#;

/// Sends as much as the buffers take and closes, twice; then it stays alive. It confines itself
/// before, if told to.
const HASTY_WRITER: &str = r#"
import ctypes, socket, struct, sys
for line in (b'stay!\n', b'shut!\n'):
    s = socket.create_connection((sys.argv[1], 9000), timeout=10)
    s.sendall(line)
    if line == b'shut!\n': assert s.recv(1) == b''
    s.setblocking(False)
    count, data = 0, bytes(i % 251 for i in range(251 * 4000))
    try:
        while count < len(data): count += s.send(data[count:count + 40000])
    except BlockingIOError:
        pass
    s.close()
    print(count, flush=True)
if sys.argv[2] == 'confined':
    libc = ctypes.CDLL(None)
    allow = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000))
    program = struct.pack('HxxxxxxP', 1, ctypes.addressof(allow))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
print('closed', flush=True)
sys.stdin.read()
"#;

/// Data of a socket that a program has closed arrives, although its lane ends earlier.
fn arrives(v6: bool, confined: bool) {
    let mut both = Both::new();
    let peer = if v6 { both.pair.b_v6() } else { both.pair.b_v4() };
    let go = both.a().directory().join("go");
    let mut reader = start(both.b(), false, &[python(), "-c", LATE_READER, &peer, go.to_str().unwrap()]);
    wait_until_listening(both.b(), &mut reader, "tcp", 9000);
    let how = if confined { "confined" } else { "free" };
    let mut writer = willing(both.a(), &[python(), "-c", HASTY_WRITER, &peer, how]);
    writer.wait_for("closed", TIMEOUT).unwrap();
    assert!(both.a_service.stat().unwrap().diverted() > 20, "they cross the stack");
    if !confined {
        assert!(both.a_service.stop().unwrap().status.success());
    }
    std::fs::write(&go, "").unwrap();
    let mut told: Vec<_> = reader.success(TIMEOUT).unwrap().lines().map(str::to_owned).collect();
    let mut sent: Vec<_> = writer.stdout().lines().take(2).map(|count| format!("{count} ended")).collect();
    told.sort();
    sent.sort();
    assert_eq!(told, sent, "{}", writer.stderr());
    let count = |line: &String| line.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(sent.iter().map(count).all(|count| count > 100_000), "more than the peer has room for: {sent:?}");
}

#[test]
fn what_a_program_has_closed_arrives_though_the_service_is_stopped_before() {
    arrives(false, false);
    arrives(true, false);
}

#[test]
fn what_a_program_has_closed_arrives_though_it_confines_itself() {
    arrives(false, true);
}
