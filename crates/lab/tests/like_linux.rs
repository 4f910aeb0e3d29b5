//! Results of many calls in rare states: the same script runs on the kernel and on a lane, and must
//! print the same.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};

/// The peer of the scripts: it accepts connections, does what the first line on each says, and
/// answers datagrams.
const PEER: &str = r#"
import socket, struct, sys, threading, time
own, other = sys.argv[1:]
def told(c):
    return c.makefile('rb', buffering=0).readline()
def serve(c):
    how = told(c).strip()
    if how == b'data': c.sendall(b'hello there')
    if how == b'urgent':
        c.sendall(b'abc'); c.send(b'd', socket.MSG_OOB); c.send(b'ef')
    if how == b'urgent alone': c.send(b'u', socket.MSG_OOB)
    # The type of service of the packet that ended the handshake, as a control message.
    # (Behind the first 20 bytes is padding, which the kernel does not write.)
    if how == b'service': c.sendall(c.getsockopt(socket.IPPROTO_IP, 9, 64)[:20])
    if how == b'more':
        # Once the other end has shut down both directions: a moment after its FIN.
        c.recv(1)
        time.sleep(0.5)
        try:
            c.send(b'x'); time.sleep(0.2); c.send(b'y'); how = b'went'
        except OSError as error:
            how = error.strerror.encode()
        with socket.create_connection((other, 7999)) as back: back.sendall(how)
    if how.startswith(b'connect '):
        with socket.create_connection((other, int(how.split()[1]))): c.recv(1)
    if how.startswith(b'come by IPv6 '):
        with socket.create_connection(('fd77::2', int(how.split()[3]))): c.recv(1)
    try:
        while c.recv(65536): pass
    except OSError:
        pass
    c.close()
def datagrams(family, address):
    u = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    else: u.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    u.bind((address, 9000))
    while True:
        d, control, _, a = u.recvmsg(100, 100)
        if d == b'service': d = control[0][2]
        for _ in range(8 if d == b'eight' else 1): u.sendto(d, a)
        if d == b'anew':
            for _ in range(8):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as v: v.sendto(b'x', a)
for where in ((socket.AF_INET, own), (socket.AF_INET6, 'fd77::1')):
    threading.Thread(target=datagrams, args=where, daemon=True).start()
listener = socket.create_server((own, 9000), backlog=64)
listener.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// The beginning of all scripts.
const HEAD: &str = r#"
import ctypes, errno, fcntl, os, select, signal, socket, struct, sys, threading, time
own, other = sys.argv[1:]
signal.alarm(25)
libc = ctypes.CDLL(None, use_errno=True)
def say(*what):
    print(*what, flush=True)
def e(call, *arguments):
    try: return call(*arguments)
    except OSError as error: return errno.errorcode.get(error.errno, 'timeout')
def connection(how):
    c = socket.create_connection((other, 9000), timeout=10)
    c.sendall(how + b'\n')
    return c
def datagrams():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.connect((other, 9000))
    u.settimeout(5)
    return u
def events(s, mask):
    p = select.poll()
    p.register(s, mask)
    return [hex(event) for _, event in p.poll(0)]
def unread(s):
    return struct.unpack('i', fcntl.ioctl(s, 0x541b, b'\0' * 4))[0]
def until(there):
    end = time.monotonic() + 8
    while not there() and time.monotonic() < end: time.sleep(0.01)
"#;

/// Runs a script on host b, on the kernel and on a lane, with a peer on the kernel of host a.
fn same(script: &str, packets: u64) {
    let both = Both::new();
    let (own, other) = (both.pair.b_v4(), both.pair.a_v4());
    let mut peer = start(both.a(), false, &[python(), "-c", PEER, &other, &own]);
    wait_until_listening(both.a(), &mut peer, "tcp", 9000);
    let script = format!("{HEAD}{script}");
    let run = |accelerated| {
        let mut program = start(both.b(), accelerated, &[python(), "-c", &script, &own, &other]);
        let told = program.success(TIMEOUT);
        told.unwrap_or_else(|error| panic!("{error}\n{}{}{}", program.stdout(), program.stderr(), peer.stderr()))
    };
    let kernel = run(false);
    assert!(!kernel.is_empty());
    println!("{kernel}");
    let lane = crossing(&both.b_service, packets, || run(true));
    assert_eq!(lane, kernel);
}

#[test]
fn a_listener_that_is_shut_wakes_waiters_and_keeps_accepted_connections() {
    same(
        r#"
def listener(port):
    l = socket.create_server((own, port))
    helper = connection(b'connect %d' % port)
    return l, l.accept()[0], helper
for port, how in enumerate((0, select.EPOLLET, 'waits', 'polls'), 7000):
    l, c, helper = listener(port)
    l.setblocking(False)
    ep, got = select.epoll(), []
    ep.register(l, select.EPOLLIN | (how if isinstance(how, int) else 0))
    waits = {'waits': lambda: got.append(ep.poll(3)[0][1]), 'polls': lambda: got.append(events_after(l))}
    def events_after(l):
        p = select.poll()
        p.register(l, select.POLLIN)
        return p.poll(3000)[0][1]
    t = threading.Thread(target=waits.get(how, lambda: None))
    t.start()
    time.sleep(0.2)
    say(how, e(l.shutdown, socket.SHUT_RD if port % 2 else socket.SHUT_RDWR))
    t.join()
    say(got, [event for _, event in ep.poll(0.5)], events(l, 5), e(l.accept))
    # An accepted connection continues, and the socket may listen again.
    say(c.send(b'x'), e(l.listen, 5), events(l, 5))
"#,
        20,
    );
}

#[test]
fn data_after_both_sides_were_shut_resets_a_connection_and_datagrams_after_that_arrive() {
    same(
        r#"
for ways in ((socket.SHUT_RDWR,), (socket.SHUT_RD, socket.SHUT_WR), (socket.SHUT_WR, socket.SHUT_RD)):
    back = socket.create_server((own, 7999))
    c = connection(b'more')
    for way in ways: c.shutdown(way)
    say(ways, back.accept()[0].recv(100))
    say(c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), e(c.recv, 10), events(c, 0x2007))
    back.close()
for mode in ('nonblock', 'dontwait', 'timeout', 'blocking'):
    u = datagrams()
    u.settimeout(None)
    u.send(b'a')
    say(u.recv(1))
    u.shutdown(socket.SHUT_RD)
    flags = socket.MSG_DONTWAIT if mode == 'dontwait' else 0
    if mode == 'nonblock': u.setblocking(False)
    if mode == 'timeout': u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 100000))
    say(mode, e(u.recv, 1, flags), e(u.recvmsg, 1, 0, flags)[:3], events(u, 0x2001))
    u.send(b'b')
    until(lambda: unread(u))
    say(e(u.recv, 1, flags), e(u.recv, 1, flags))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
say(e(u.shutdown, 3), e(u.shutdown, 0))
"#,
        12,
    );
}

#[test]
fn files_are_sent_from_where_the_kernel_sends_them() {
    same(
        r#"
c = connection(b'data')
pipe, pipe_end = os.pipe()
os.write(pipe_end, b'pipe!')
ours, theirs = socket.socketpair()
theirs.send(b'unix')
udp = datagrams()
name = '/tmp/twlab-sent-%d' % os.getpid()
with open(name, 'wb') as f: f.write(b'0123456789')
def send(path, offset, count=4):
    fd = os.open(path, os.O_RDONLY)
    told = e(os.sendfile, c.fileno(), fd, offset, count)
    where = e(os.lseek, fd, 0, os.SEEK_CUR)
    os.close(fd)
    return told, where
for path in (name, '/', '/proc/self/comm', '/dev/zero'): say(path != name and path, send(path, None), send(path, 3))
for fd in (pipe, ours.fileno(), udp.fileno(), -1): say(e(os.sendfile, c.fileno(), fd, None, 4))
say(ours.recv(9), os.read(pipe, 9))
fd = os.open(name, os.O_RDONLY)
say(libc.sendfile(c.fileno(), fd, ctypes.byref(ctypes.c_long(-1)), 4), ctypes.get_errno())
say(libc.sendfile(c.fileno(), fd, None, ctypes.c_size_t(-1)), ctypes.get_errno())
say(e(os.sendfile, c.fileno(), os.open(name, os.O_WRONLY), None, 4))
until(lambda: unread(c) == 11)
say(e(os.sendfile, pipe_end, c.fileno(), None, 5), os.read(pipe, 5), e(os.sendfile, ours.fileno(), c.fileno(), None, 5))
say(c.recv(100))
os.unlink(name)
"#,
        5,
    );
}

#[test]
fn what_is_before_and_behind_an_urgent_byte_is_seen_and_counted_alike() {
    same(
        r#"
for inline in (False, True):
    c = connection(b'urgent')
    if inline: c.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    time.sleep(0.8)
    c.setblocking(False)
    say('before', unread(c), c.recv(10, socket.MSG_PEEK), c.recv(10))
    say('at it', unread(c), c.recv(10, socket.MSG_PEEK), c.recv(1, socket.MSG_PEEK), c.recv(10), unread(c))
c = connection(b'urgent alone')
time.sleep(0.8)
c.setblocking(False)
say(unread(c), events(c, 3), e(c.recv, 10, socket.MSG_PEEK), e(c.recv, 10), unread(c), e(c.recv, 1, socket.MSG_OOB))
"#,
        6,
    );
}

#[test]
fn of_datagram_sockets_that_reuse_an_address_the_last_hears_and_those_of_a_port_share() {
    same(
        r#"
def bind(port, option):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind((own, port))
    s.setblocking(False)
    return s
def heard(s):
    count = 0
    while not isinstance(e(s.recv, 10), str): count += 1
    return count
def heard_of(all, wanted):
    counts = [0] * len(all)
    def there():
        for at, s in enumerate(all): counts[at] += heard(s)
        return sum(counts) >= wanted
    until(there)
    return counts
for port, option in ((7100, socket.SO_REUSEADDR), (7101, socket.SO_REUSEPORT)):
    all = [bind(port, option) for _ in range(3)]
    for _ in range(4): all[0].sendto(b'anew', (other, 9000))
    counts = heard_of(all, 36)
    say(counts if option == socket.SO_REUSEADDR else sum(counts) == 36 and sorted(counts)[1] > 0)
    all.pop().close()
    all[0].sendto(b'anew', (other, 9000))
    counts = heard_of(all, 9)
    say(counts if option == socket.SO_REUSEADDR else sum(counts))
"#,
        60,
    );
}

#[test]
fn control_messages_and_names_are_looked_at_as_the_kernel_does() {
    same(
        r#"
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
class Message(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('vectors', ctypes.c_void_p), ('count', ctypes.c_size_t),
        ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int)]
c, u = connection(b'nothing'), datagrams()
data = ctypes.create_string_buffer(b'abc')
vector = Vector(ctypes.addressof(data), 3)
def head(len, level, kind, rest=b''):
    return struct.pack('Nii', len, level, kind) + rest
def send(control, len):
    message = Message(vectors=ctypes.addressof(vector), count=1, control=control, controllen=len)
    def told(s):
        n = libc.sendmsg(s.fileno(), ctypes.byref(message), 0)
        return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
    return [told(s) for s in (c, u)]
ttl = struct.pack('i', 5)
for raw in (head(0, 0, 2), head(8, 0, 2), head(15, 0, 2), head(16, 0, 2), head(100, 0, 2, ttl), head((1 << 64) - 1, 0, 2, ttl),
        head(20, 0, 2, ttl + ttl) + head(5, 0, 2), head(20, 0, 2, ttl + ttl) + b'abc', head(3, 99, 2), head(16, 99, 2),
        head(20, 1, 77, ttl), head(20, 0, 2, ttl), head(24, 0, 2, ttl + ttl), head(18, 0, 1, b'\1\2'), head(17, 0, 1, b'\4'),
        head(24, 0, 8, ttl + ttl), head(32, 0, 8, bytes(16)), head(20, 41, 52, ttl)):
    control = ctypes.create_string_buffer(raw, len(raw))
    say(raw[:8].hex(), len(raw), send(ctypes.addressof(control), len(raw)))
say(send(None, 16), send(ctypes.addressof(data), 1 << 40))
name = ctypes.create_string_buffer(struct.pack('>BBH', 2, 0, 9000) + socket.inet_aton(other) + bytes(200))
def named(s, len):
    n = libc.sendto(s.fileno(), data, 3, 0, name, len)
    return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
say([named(s, len) for s in (c, u) for len in (128, 129, -1)])
# Of the received control messages, one that does not fit is truncated, and none follows it.
for option in (8, 12, 13): u.setsockopt(socket.IPPROTO_IP, option, 1)
u.settimeout(0.2)
while e(u.recv, 10) != 'timeout': pass
u.settimeout(5)
for room in (0, 15, 16, 24, 28, 32, 40, 52, 64, 80):
    u.send(b'x')
    d, all, flags, _ = u.recvmsg(10, room, 0)
    say(room, [(level, kind, len(data)) for level, kind, data in all], flags)
u.send(b'x')
say(u.recvmsg(10, 100, socket.MSG_CMSG_CLOEXEC)[2])
"#,
        12,
    );
}

#[test]
fn names_of_other_families_and_lengths_are_refused_as_the_kernel_does() {
    same(
        r#"
v4 = struct.pack('=HH4s', 2, socket.htons(9000), socket.inet_aton(other)) + bytes(8)
def v6(address): return struct.pack('=HHI16sI', 10, socket.htons(9000), 0, socket.inet_pton(socket.AF_INET6, address), 0)
mapped, far = v6('::ffff:' + other), v6('fd77::1')
names = [v4, mapped, far, bytes(16), struct.pack('H', 1) + bytes(26), struct.pack('H', 99) + bytes(26)]
names += [v4[:n] for n in (0, 1, 2, 8, 15)] + [far[:n] for n in (2, 16, 23, 24)] + [bytes(2), v4 + bytes(12)]
def outcome(n):
    return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
def made(family, kind, only):
    s = socket.socket(family, kind)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    return s
def connect(s, name): return outcome(libc.connect(s.fileno(), name, len(name)))
def send(s, name): return outcome(libc.sendto(s.fileno(), b'abc', 3, 0, name, len(name)))
for family, only in ((socket.AF_INET, 0), (socket.AF_INET6, 0), (socket.AF_INET6, 1)):
    for name in names:
        with made(family, socket.SOCK_STREAM, only) as t, made(family, socket.SOCK_DGRAM, only) as u, made(family, socket.SOCK_DGRAM, only) as w:
            # Twice: a connected socket looks at less of the name.
            say(family, only, name.hex(), connect(t, name), connect(t, name), connect(u, name), send(u, name), send(w, name))
with socket.create_server((own, 7998)) as listener:
    say([connect(listener, name) for name in names if name[:2] != bytes(2)])
# An accepted connection is of IPv6 only, as its listener is, also once it is dissolved.
with socket.create_server(('::', 7997), family=socket.AF_INET6) as listener:
    c = connection(b'come by IPv6 7997')
    with listener.accept()[0] as t:
        say(t.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY), connect(t, bytes(2)), connect(t, mapped), connect(t, v4))
    c.close()
"#,
        25,
    );
}

#[test]
fn sizes_of_buffers_and_segments_are_told_as_the_kernel_grants_them() {
    same(
        r#"
for before in (True, False):
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        for size in (0, 1, 1000, 20000, 1 << 30, -1):
            c = socket.socket() if before else connection(b'nothing')
            c.setsockopt(socket.SOL_SOCKET, option, size)
            if before:
                c.connect((other, 9000))
                c.sendall(b'nothing\n')
            say(before, option, size, c.getsockopt(socket.SOL_SOCKET, option))
            c.close()
c = connection(b'nothing')
for size in (100, 536, 1400):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, size)
    say(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
say(c.getsockopt(socket.SOL_SOCKET, 28, 16)[4:8] == socket.inet_aton(other))
u = datagrams()
for mode in (0, 2, 3, 4):
    u.setsockopt(socket.IPPROTO_IP, 10, mode)
    say(mode, e(u.send, bytes(1400)), e(u.send, bytes(3000)), u.getsockopt(socket.IPPROTO_IP, 10))
u.settimeout(0.2)
while e(u.recv, 10000) != 'timeout': pass
say(e(u.send, b'probe', 0x10), e(u.recv, 10))
"#,
        20,
    );
}

#[test]
fn a_list_that_is_longer_than_the_descriptor_limit_is_refused() {
    same(
        r#"
import resource
c = connection(b'data')
while len(c.recv(100, socket.MSG_PEEK)) < 11: pass
p = select.poll()
p.register(c, select.POLLIN)
for fd in range(1000, 1100): p.register(fd, select.POLLIN)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for soft in (101, 100):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    told = e(p.poll, 0)
    say(soft, told if isinstance(told, str) else len(told))
"#,
        3,
    );
}

#[test]
fn bytes_that_are_not_sent_or_not_acknowledged_are_counted_alike() {
    same(
        r#"
SIOCOUTQ, SIOCOUTQNSD = 0x5411, 0x894b
def counts(s):
    return [e(lambda: struct.unpack('i', fcntl.ioctl(s, request, b'\0' * 4))[0]) for request in (SIOCOUTQ, SIOCOUTQNSD)]
c = connection(b'nothing')
until(lambda: counts(c) == [0, 0])
say(counts(c))
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
c.sendall(bytes(100))
say(counts(c))
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
until(lambda: counts(c) == [0, 0])
say(counts(c))
new = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
say(counts(new))
new.listen()
say(counts(new))
say(counts(datagrams()))
"#,
        3,
    );
}

#[test]
fn exactly_the_events_that_were_asked_for_are_reported() {
    same(
        r#"
ALL = (1, 2, 4, 0x40, 0x80, 0x100, 0x200, 0x400, 0x2000)
def paused(s, mask):
    entry = (ctypes.c_char * 8).from_buffer_copy(struct.pack('ihh', s.fileno(), mask, 0))
    count = libc.ppoll(entry, ctypes.c_ulong(1), bytes(16), None)
    return count and hex(struct.unpack('ihh', entry.raw)[2])
def waited(s, mask):
    with select.epoll() as ep:
        ep.register(s, mask)
        return [hex(event) for _, event in ep.poll(0)]
def all_of(what, s):
    say(what, events(s, 0x27c7), waited(s, 0x27c7), [len(part) for part in select.select([s], [s], [s], 0)])
    for mask in ALL:
        for way in (events, paused, waited): say(hex(mask), way.__name__, way(s, mask))
        say('edge', waited(s, mask | select.EPOLLET))
def there(s, mask):
    until(lambda: events(s, mask))
u = datagrams()
all_of('datagrams', u)
u.send(b'x')
there(u, 1)
all_of('a datagram', u)
u.shutdown(socket.SHUT_RD)
all_of('shut', u)
for exceptional in (0, 1):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.setsockopt(socket.SOL_SOCKET, 45, exceptional)
    u.connect((other, 9))
    u.send(b'x')
    there(u, 0)
    all_of('refused %d' % exceptional, u)
all_of('new', socket.socket())
c = connection(b'nothing')
all_of('connection', c)
c.shutdown(socket.SHUT_WR)
there(c, 0x2000)
all_of('ended', c)
c = connection(b'data')
there(c, 1)
all_of('data', c)
c = connection(b'urgent')
there(c, 2)
until(lambda: unread(c) >= 3)
all_of('urgent', c)
l = socket.create_server((own, 7200))
all_of('listener', l)
c = connection(b'connect 7200')
there(l, 1)
all_of('pending', l)
ep = select.epoll()
ep.register(l, 0x40)
all_of('instance', ep)
# What comes while the call waits.
u = datagrams()
for mask in ALL:
    for mode in (0, select.EPOLLET, select.EPOLLONESHOT):
        # Linux reports room anew with each datagram that has left, though there was room before.
        if mode == select.EPOLLET and mask & 0x304: continue
        ep = select.epoll()
        ep.register(u, mask | mode)
        before = ep.poll(0)
        u.send(b'x')
        say(hex(mask), mode, [event for _, event in before], [event for _, event in ep.poll(0.1)], u.recv(9))
"#,
        40,
    );
}

#[test]
fn a_type_of_service_is_its_lowest_byte_and_minus_one_the_default_class() {
    same(
        r#"
def told(s, level, option, value):
    return e(s.setsockopt, level, option, value), s.getsockopt(level, option)
u = datagrams()
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
v6.connect(('fd77::1', 9000))
v6.settimeout(5)
for value in (0x10, -1, 0, 300, -200, 3, 0x2e << 2, b'\xff', b'\x10\0\0', -1):
    say(value)
    for s, level, option in ((u, socket.IPPROTO_IP, socket.IP_TOS), (v6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS)):
        say(told(s, level, option, value), s.send(b'service'), s.recv(100))
    c = socket.socket()
    say(told(c, socket.IPPROTO_IP, socket.IP_TOS, value))
    c.connect((other, 9000))
    c.sendall(b'service\n')
    say(c.recv(100), c.getsockopt(socket.IPPROTO_IP, socket.IP_TOS))
    for later in (-1, 1, 0x20): say(told(c, socket.IPPROTO_IP, socket.IP_TOS, later))
"#,
        40,
    );
}
