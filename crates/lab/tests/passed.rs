//! Live connections that a program passes to another process over a Unix socket: the kernel takes
//! them over, and no byte is lost or duplicated.

mod common;

use common::{Both, crossing, python, start, wait_until_listening};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tickwire_lab::{LabPair, Service, ServiceOptions, tools};

/// Long enough for streams with a pause in their middle.
const LONG: Duration = Duration::from_secs(60);

/// Sends and receives a stream each way. Checks the received data, and prints its length.
const PEER: &str = r#"
import hashlib, socket, sys, threading
host, port, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def stream(n, salt):
    return b''.join(hashlib.sha256(b'%d %d' % (salt, i)).digest() for i in range(n // 32))
s = socket.create_connection((host, port), timeout=50)
t = threading.Thread(target=lambda: (s.sendall(stream(total, 1)), s.shutdown(socket.SHUT_WR)))
t.start()
got = b''
while d := s.recv(65536): got += d
t.join()
assert got == stream(total, 2), ('wrong bytes', len(got))
print('peer has', len(got), flush=True)
"#;

/// Accepts a connection, and sends and receives a third of the streams. With both in flight it
/// passes the connection to a child, another program, which does the rest.
const PARENT: &str = r#"
import hashlib, os, select, socket, subprocess, sys
host, port, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CHILD = r'''
import hashlib, socket, sys, threading
total, done, sent = (int(a) for a in sys.argv[1:])
def stream(n, salt):
    return b''.join(hashlib.sha256(b'%d %d' % (salt, i)).digest() for i in range(n // 32))
unix = socket.socket(fileno=0)
_, fds, _, _ = socket.recv_fds(unix, 1, 1)
c = socket.socket(fileno=fds[0])
c.setblocking(True)
t = threading.Thread(target=lambda: (c.sendall(stream(total, 2)[sent:]), c.shutdown(socket.SHUT_WR)))
t.start()
got = b''
while d := c.recv(65536): got += d
t.join()
assert got == stream(total, 1)[done:], ('wrong bytes', len(got), done)
print('child has', len(got), flush=True)
'''
def stream(n, salt):
    return b''.join(hashlib.sha256(b'%d %d' % (salt, i)).digest() for i in range(n // 32))
family = socket.AF_INET6 if ':' in host else socket.AF_INET
listener = socket.create_server((host, port), family=family, backlog=8)
c, _ = listener.accept()
c.setblocking(False)
got, sent, mine = b'', 0, stream(total, 2)
while len(got) < total // 3 or sent < total // 3:
    readable, writable, _ = select.select([c], [c], [], 20)
    if readable and len(got) < total // 3: got += c.recv(4096)
    if writable and sent < total // 3 + 100000: sent += c.send(mine[sent:sent + 100000])
assert got == stream(total, 1)[:len(got)], 'wrong bytes before'
ours, theirs = socket.socketpair()
child = subprocess.Popen([sys.executable, '-c', CHILD, str(total), str(len(got)), str(sent)], stdin=theirs)
socket.send_fds(ours, [b'x'], [c.fileno()])
c.close()
assert child.wait() == 0
print('parent had', len(got), 'sent', sent, flush=True)
"#;

fn passed(v6: bool, peer_accelerated: bool, total: &str) {
    passed_on(&Both::new(), v6, peer_accelerated, total, 9000);
}

fn passed_on(both: &Both, v6: bool, peer_accelerated: bool, total: &str, port: u16) {
    let address = if v6 { both.pair.b_v6() } else { both.pair.b_v4() };
    let number = port.to_string();
    let mut parent = start(both.b(), true, &[python(), "-c", PARENT, &address, &number, total]);
    wait_until_listening(both.b(), &mut parent, "tcp", port);
    let log = crossing(&both.b_service, 20, || {
        let mut peer = start(both.a(), peer_accelerated, &[python(), "-c", PEER, &address, &number, total]);
        let told = peer.success(LONG);
        format!("{told:?}\n{}", parent.success(LONG).unwrap())
    });
    println!("{log}");
    assert!(
        log.contains(&format!("peer has {total}")) && log.contains("child has") && log.contains("parent had"),
        "{log}"
    );
    assert!(!parent.stderr().contains("could not be passed"), "{}", parent.stderr());
}

#[test]
fn a_connection_under_load_goes_on_in_another_process() {
    passed(false, false, "614400");
}

#[test]
fn a_connection_of_ipv6_under_load_goes_on_in_another_process() {
    passed(true, false, "614400");
}

#[test]
fn a_connection_goes_on_whose_peer_is_on_a_lane() {
    passed(false, true, "614400");
    passed(true, true, "614400");
}

/// The capabilities of the packaged unit, in the format of `setpriv`.
fn rights_of_the_unit() -> String {
    let unit = include_str!("../../../packaging/tickwire.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let rights = line.split(' ').map(|right| format!(",+{}", right.trim_start_matches("CAP_").to_lowercase()));
    format!("-all{}", rights.collect::<String>())
}

#[test]
fn the_rights_of_the_packaged_unit_suffice_also_for_a_low_port() {
    let pair = LabPair::new().unwrap();
    let (wrapper, tickwire) = (pair.b.directory().join("service"), tools::tickwire().unwrap());
    let rights = rights_of_the_unit();
    let script = format!(
        "#!/bin/sh\nexec setpriv --no-new-privs --inh-caps=-all --bounding-set={rights} {} \"$@\"\n",
        tickwire.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let a_service = Service::start(&pair.a).unwrap();
    let options = ServiceOptions { program: Some(wrapper), ..ServiceOptions::default() };
    let mut b_service = Service::start_with(&pair.b, &options).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", b_service.process().id())).unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let effective = u64::from_str_radix(effective, 16).unwrap();
    assert_eq!(effective.count_ones().min(8), 8, "some rights are left: {status}");
    assert_eq!(effective & 1 << 1, 0, "but not that to overlook files' modes: {status}");
    passed_on(&Both { a_service, b_service, pair }, false, false, "614400", 80);
}

/// Handles each connection as its first line says.
const ATTENDANT: &str = r#"
import socket, sys, threading
host = sys.argv[1]
def serve(c):
    f = c.makefile('rb')
    how = f.readline().decode().split()
    if how[0] == 'say':
        c.sendall(bytes(i % 251 for i in range(int(how[1]))))
    if how[0] == 'end':
        c.sendall(b'last words')
        c.shutdown(socket.SHUT_WR)
        print('after the end:', f.read().decode(), flush=True)
    elif how[0] == 'call':
        other = socket.create_connection((host_b, int(how[1])), timeout=20)
        other.sendall(b'called\n')
        serve(other)
    elif how[0] == 'sum':
        data = f.read()
        c.sendall(b'%d bytes, %d' % (len(data), sum(data)))
        c.close()
    else:
        while line := f.readline(): c.sendall(line.upper())
        c.close()
host_b = sys.argv[2]
family = socket.AF_INET6 if ':' in host else socket.AF_INET
listener = socket.create_server((host, 9000), family=family, backlog=64)
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// Brings connections into all kinds of states, passes each to a child, and prints what the child
/// and the parent find.
const STATES: &str = r#"
import array, errno, os, select, signal, socket, struct, sys, threading, time
host, own, free = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ':' in host else socket.AF_INET
to_child, to_parent = socket.socketpair()
def line(c):
    got = b''
    while not got.endswith(b'\n'):
        d = c.recv(1)
        if not d: return got + b'<end>'
        got += d
    return got
def exactly(c, n):
    got = b''
    while len(got) < n: got += c.recv(n - len(got))
    return got
def rest(c):
    got = b''
    while d := c.recv(65536): got += d
    return got
def peer(c):
    # A connection closed by both sides eventually has no peer any more.
    try: return 'its' if c.getpeername()[1] == 9000 else 'another'
    except OSError as error: return 'its' if error.errno == errno.ENOTCONN else error
TCP_NOTSENT_LOWAT = 25
def options(c):
    return [c.getsockopt(*o) for o in ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT), (socket.SOL_SOCKET, socket.SO_REUSEADDR),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), (socket.SOL_SOCKET, socket.SO_ERROR), (socket.SOL_SOCKET, socket.SO_OOBINLINE),
        (socket.IPPROTO_TCP, socket.TCP_LINGER2), (socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT), (socket.SOL_SOCKET, socket.SO_LINGER, 8))] + [os.get_blocking(c.fileno()), os.get_inheritable(c.fileno())]
if os.fork() == 0:
    to_child.close()
    signal.alarm(60)
    while True:
        what, fds, _, _ = socket.recv_fds(to_parent, 100, 1)
        if not what: os._exit(0)
        what = what.decode().split()
        c = socket.socket(fileno=fds[0])
        found = [options(c)]
        c.setblocking(True)
        try:
            for do in what:
                if do == 'echo': c.sendall(b'from the child\n'); found.append(line(c))
                if do == 'rest': found.append(rest(c))
                if do == 'send': c.sendall(b'from the child')
                if do == 'shut': c.shutdown(socket.SHUT_WR)
                if do.isdigit(): d = exactly(c, int(do)); found.append((len(d), sum(d), d[:3]))
            found.append(peer(c))
        except OSError as error:
            found.append(error)
        c.close()
        to_parent.sendall(repr(found).encode())
to_parent.close()
signal.alarm(60)
def connection(how, port=0, before=lambda s: None):
    s = socket.socket(family)
    before(s)
    if port: s.bind((own, port))
    s.settimeout(20)
    s.connect((host, 9000))
    s.settimeout(None)
    s.sendall(how.encode() + b'\n')
    return s
def passed(name, s, what):
    socket.send_fds(to_child, [what.encode()], [s.fileno()])
    print(name + ':', to_child.recv(10000).decode(), flush=True)
def until(s, events):
    p = select.poll()
    p.register(s, events)
    p.poll(20000)
# Not yet used: only its first line was sent.
s = connection('echo'); passed('fresh', s, 'echo')
s.sendall(b'and the parent\n'); print(line(s)); s.close()
s = connection('say 5000'); s.recv(5000, socket.MSG_PEEK | socket.MSG_WAITALL); passed('unread', s, '5000 echo echo'); s.close()
s = connection('say 5000'); s.recv(5000, socket.MSG_PEEK | socket.MSG_WAITALL); exactly(s, 1777); passed('partly read', s, '3223 echo'); s.close()
s = connection('say 2000000'); passed('under way', s, '2000000 echo'); s.close()
s = connection('sum'); s.sendall(b'x' * 3000); s.shutdown(socket.SHUT_WR); time.sleep(.2); passed('shut for writing', s, 'rest'); s.close()
s = connection('sum'); s.sendall(b'x' * 300000); s.shutdown(socket.SHUT_WR); passed('shut a moment ago', s, 'rest'); s.close()
s = connection('sum'); s.sendall(b'x' * 300000); passed('full of what is to be sent', s, 'send shut rest'); s.close()
s = connection('end'); until(s, select.POLLRDHUP); time.sleep(.1); passed('ended by the peer', s, 'rest send shut'); s.close()
s = connection('end'); until(s, select.POLLRDHUP); time.sleep(.1); exactly(s, 10); passed('ended, and read', s, 'rest send shut'); s.close()
s = connection('echo', free); passed('of a port in advance', s, 'echo'); print(s.getsockname()[:2] == (own, free)); s.close()
def wants(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
s = connection('echo', before=wants)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 5); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12345)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 9); s.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, 50000)
s.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 7))
s.setblocking(False); os.set_inheritable(s.fileno(), True)
passed('with options', s, 'echo'); print(options(s)); s.close()
# Descriptors in epoll instances, one level-triggered and one edge-triggered.
s = connection('echo'); other = s.dup(); e = select.epoll(); e.register(other, select.EPOLLIN); e.register(s, select.EPOLLIN | select.EPOLLET)
print(e.poll(0)); passed('watched', s, 'echo'); s.sendall(b'more\n'); time.sleep(.2); got = []
while len(got) < 2: got += e.poll(20)
print(sorted(got) == sorted([(s.fileno(), select.EPOLLIN), (other.fileno(), select.EPOLLIN)]), line(other))
e.modify(other, select.EPOLLOUT); print(e.poll(20) == [(other.fileno(), select.EPOLLOUT)]); e.unregister(s); s.close(); other.close(); e.close()
# A thread that waits in a call, one that waits in an epoll instance, and one that waits in poll.
s, t, u = connection('echo'), connection('echo'), connection('echo'); e = select.epoll(); e.register(t, select.EPOLLIN); found = {}
def waits(name, wait): found[name] = wait()
threads = [threading.Thread(target=waits, args=a) for a in (('call', lambda: line(s)), ('instance', lambda: len(e.poll(20))), ('poll', lambda: until(u, select.POLLIN) or line(u)))]
for thread in threads: thread.start()
time.sleep(.3)
for c in s, t, u: passed('with a thread that waits', c, 'send'); c.sendall(b'!\n')
for thread in threads: thread.join()
print(sorted(found.items())); s.close()
# Accepted ones; the listener continues, and closes before its connections.
listener = socket.create_server((own, 7000), family=family)
calls = [connection('call 7000') for _ in range(3)]
accepted = [listener.accept()[0] for _ in range(3)]
for c in accepted: print(line(c))
accepted[0].sendall(b'echo\n'); passed('accepted', accepted[0], 'echo')
calls.append(connection('call 7000')); accepted.append(listener.accept()[0]); print(line(accepted[3]))
accepted[1].sendall(b'echo\n'); listener.close(); passed('accepted by a listener that has closed', accepted[1], 'echo')
again = socket.create_server((own, 7000), family=family)
accepted[2].sendall(b'echo\n'); passed('accepted before another listened', accepted[2], 'echo')
accepted[0].sendall(b'x\n'); print(line(accepted[0]))
accepted[3].sendall(b'echo\ny\n'); print(line(accepted[3]))
calls.append(connection('call 7000')); c, _ = again.accept(); print(line(c)); c.sendall(b'echo\n'); passed('accepted anew', c, 'echo')
# Two at a time, and one twice.
s, t = connection('echo'), connection('echo')
socket.send_fds(to_child, [b'echo'], [s.fileno(), t.fileno()]); print(to_child.recv(10000).decode())
passed('again', s, 'echo'); t.sendall(b'the other\n'); print(line(t))
print('done', flush=True)
"#;

#[test]
fn a_connection_can_be_passed_in_every_state_as_beside_the_kernel() {
    let both = Both::new();
    for (own, peer, port) in [(both.pair.b_v4(), both.pair.a_v4(), 9000), (both.pair.b_v6(), both.pair.a_v6(), 9000)] {
        let mut attendant = start(both.a(), false, &[python(), "-c", ATTENDANT, &peer, &own]);
        wait_until_listening(both.a(), &mut attendant, "tcp", port);
        let run = |accelerated, free: &str| {
            let mut program = start(both.b(), accelerated, &[python(), "-c", STATES, &peer, &own, free]);
            let told = program.success(LONG);
            told.unwrap_or_else(|error| panic!("{error}\nso far:\n{}\n{}", program.stdout(), program.stderr()))
        };
        let kernels = run(false, "6001");
        let ours = crossing(&both.b_service, 60, || run(true, "6002"));
        for (ours, kernels) in ours.lines().zip(kernels.lines()) {
            assert_eq!(ours, kernels);
        }
        assert!(ours.ends_with("done\n"), "{ours}");
        let ends = attendant.stdout().matches("after the end: from the child").count();
        assert_eq!(ends, 4, "{}", attendant.stdout());
        attendant.kill();
    }
}

/// Asks a server the given number of times, with connections that it keeps and others that it
/// closes. Prints how many processes answered.
const ASKS: &str = r#"
import socket, sys
def line(c):
    got = b''
    while not got.endswith(b'\n'):
        d = c.recv(100)
        assert d, ('ended', got)
        got += d
    return got.decode().strip()
who, kept = set(), []
for n in range(int(sys.argv[3])):
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
    for again in range(3):
        c.sendall(b'%d.%d\n' % (n, again))
        process, said = line(c).split(':')
        assert said == '%d.%d' % (n, again), said
        who.add(process)
    if n % 2: kept.append(c)
    else: c.close()
for c in kept:
    c.sendall(b'still\n')
    assert line(c).endswith(':still')
print('answered by', len(who), flush=True)
"#;

/// The parent accepts, and passes each connection to one of its workers.
const NODE: &str = r#"
const cluster = require('cluster'), net = require('net');
cluster.schedulingPolicy = cluster.SCHED_RR;
if (cluster.isPrimary) {
  for (let i = 0; i < 3; i++) cluster.fork();
} else {
  net.createServer(s => {
    s.setNoDelay(true);
    s.on('data', d => s.write(process.pid + ':' + d));
    s.on('error', e => console.log('error', e.code));
  }).listen(7100, "0.0.0.0");
}
"#;

#[test]
fn nodes_cluster_gives_its_connections_to_its_workers() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let file = both.b().directory().join("cluster.js");
    std::fs::write(&file, NODE).unwrap();
    let mut server = start(both.b(), true, &["node", file.to_str().unwrap()]);
    wait_until_listening(both.b(), &mut server, "tcp", 7100);
    let told = crossing(&both.b_service, 60, || {
        start(both.a(), false, &[python(), "-c", ASKS, &address, "7100", "30"]).success(LONG).unwrap()
    });
    assert_eq!(told, "answered by 3\n", "{}{}", server.stdout(), server.stderr());
}

/// The parent accepts, and sends each connection to a worker over a pipe, for which
/// `multiprocessing` duplicates it. The workers are forked earlier, or start as programs of their
/// own.
const MULTIPROCESSING: &str = r#"
import multiprocessing, os, socket, sys, threading
def serve(c):
    with c:
        while d := c.recv(1000): c.sendall(b'%d:' % os.getpid() + d)
def work(pipe):
    while c := pipe.recv(): threading.Thread(target=serve, args=(c,), daemon=True).start()
if __name__ == '__main__':
    context = multiprocessing.get_context(sys.argv[1])
    pipes = []
    for _ in range(3):
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(theirs,), daemon=True).start()
        pipes.append(ours)
    listener = socket.create_server(('0.0.0.0', int(sys.argv[2])))
    for n in range(1000):
        c, _ = listener.accept()
        pipes[n % 3].send(c)
        c.close()
"#;

#[test]
fn pythons_multiprocessing_gives_connections_to_its_workers() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let file = both.b().directory().join("server.py");
    std::fs::write(&file, MULTIPROCESSING).unwrap();
    for (method, port) in [("fork", "7101"), ("spawn", "7102"), ("forkserver", "7103")] {
        let mut server = start(both.b(), true, &[python(), file.to_str().unwrap(), method, port]);
        wait_until_listening(both.b(), &mut server, "tcp", port.parse().unwrap());
        let told = crossing(&both.b_service, 60, || {
            start(both.a(), false, &[python(), "-c", ASKS, &address, port, "30"]).success(LONG)
        });
        let told = told.unwrap_or_else(|error| panic!("{error}\n{method}\n{}{}", server.stdout(), server.stderr()));
        assert_eq!(told, "answered by 3\n", "{method}\n{}{}", server.stdout(), server.stderr());
        server.kill();
    }
}

/// Confines itself while it has a connection (to what it may do already), and continues with it.
const CONFINES: &str = r#"
import ctypes, socket, struct, sys
def line(c):
    got = b''
    while not got.endswith(b'\n'): got += c.recv(100)
    return got
s = socket.create_connection((sys.argv[1], 9000), timeout=20)
s.sendall(b'echo\nbefore\n')
print(line(s))
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000))
program = struct.pack('HxxxxxxP', 1, ctypes.addressof(allow))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
s.sendall(b'after\n')
print(line(s))
"#;

#[test]
fn a_program_that_confines_itself_keeps_its_connections() {
    let both = Both::new();
    let (own, peer) = (both.pair.b_v4(), both.pair.a_v4());
    let mut attendant = start(both.a(), false, &[python(), "-c", ATTENDANT, &peer, &own]);
    wait_until_listening(both.a(), &mut attendant, "tcp", 9000);
    let told = crossing(&both.b_service, 2, || start(both.b(), true, &[python(), "-c", CONFINES, &peer]).success(LONG));
    assert_eq!(told.unwrap(), "b'BEFORE\\n'\nb'AFTER\\n'\n");
}
