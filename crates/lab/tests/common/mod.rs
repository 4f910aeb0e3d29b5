//! Shared by the tests of accelerated programs: two hosts with a service each, and the check that
//! traffic crossed the stack.
#![allow(dead_code, reason = "each test file uses a part")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::Write;
use std::time::Duration;
use tickwire_lab::{CableOptions, LabHost, LabPair, Process, Service, ServiceOptions, tools};

/// Long enough for a busy machine; no test should come near it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Two hosts on a cable with a service each.
pub(crate) struct Both {
    pub(crate) a_service: Service,
    pub(crate) b_service: Service,
    pub(crate) pair: LabPair,
}

impl Both {
    pub(crate) fn new() -> Self {
        Self::with(&CableOptions::default(), &ServiceOptions::default())
    }

    pub(crate) fn with(cable: &CableOptions, options: &ServiceOptions) -> Self {
        let pair = LabPair::with(cable).unwrap();
        // Concurrently, because the kernel takes a while to verify BPF programs.
        let (a_service, b_service) = std::thread::scope(|scope| {
            let a = scope.spawn(|| Service::start_with(&pair.a, options).unwrap());
            let b = Service::start_with(&pair.b, options).unwrap();
            (a.join().unwrap(), b)
        });
        Self { a_service, b_service, pair }
    }

    pub(crate) fn a(&self) -> &LabHost {
        &self.pair.a
    }

    pub(crate) fn b(&self) -> &LabHost {
        &self.pair.b
    }
}

/// Runs `work` and checks that at least `packets` packets were diverted to lanes of the service
/// meanwhile. `work` must start the client that causes them: on a busy machine one started earlier
/// might finish before the first count.
pub(crate) fn crossing<T>(service: &Service, packets: u64, work: impl FnOnce() -> T) -> T {
    let before = service.stat().unwrap().diverted();
    let result = work();
    let crossed = service.stat().unwrap().diverted() - before;
    println!("{crossed} packets crossed the stack, of at least {packets}");
    assert!(crossed >= packets, "only {crossed} packets crossed the stack\nlog: {}", service.log());
    result
}

/// A program, accelerated or not.
pub(crate) fn start(host: &LabHost, accelerated: bool, command: &[&str]) -> Process {
    let (program, arguments) = command.split_first().unwrap();
    let mut prepared = if accelerated { host.accelerated(program).unwrap() } else { host.command(program) };
    prepared.args(arguments);
    Process::spawn(prepared).unwrap()
}

/// A program under `tickwire run` without `--require`.
pub(crate) fn willing(host: &LabHost, command: &[&str]) -> Process {
    let tickwire = tools::tickwire().unwrap();
    start(host, false, &[&[tickwire.to_str().unwrap(), "run"], command].concat())
}

/// Like [`crossing`], at each accelerated end: the count of one end's lane says nothing about the
/// other's.
pub(crate) fn crossing_ends<T>(both: &Both, server: bool, client: bool, packets: u64, work: impl FnOnce() -> T) -> T {
    match (server, client) {
        (true, true) => crossing(&both.a_service, packets, || crossing(&both.b_service, packets, work)),
        (true, false) => crossing(&both.b_service, packets, work),
        (false, true) => crossing(&both.a_service, packets, work),
        (false, false) => work(),
    }
}

/// Runs a server on host b and its client on host a, with one or both of them accelerated, each
/// time at another port. `talk` gets the flags for the server and the client, and the port. At
/// least `packets` packets must be diverted meanwhile at each accelerated end.
pub(crate) fn either_side(both: &Both, packets: u64, talk: impl Fn(bool, bool, u16)) {
    for (port, server, client) in [(7000, true, false), (7010, false, true), (7020, true, true)] {
        println!("server accelerated: {server}, client accelerated: {client}");
        crossing_ends(both, server, client, packets, || talk(server, client, port));
    }
}

/// Waits until a server's port is bound (`tcp` or `udp`), and diverted if it is accelerated.
pub(crate) fn wait_until_listening(host: &LabHost, process: &mut Process, protocol: &str, port: u16) {
    tickwire_lab::wait_until_listening(host, protocol, port, process).unwrap();
}

/// The system's Python, not a version manager's wrapper.
pub(crate) fn python() -> &'static str {
    if std::path::Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// Bytes without a repetition near a segment's size, so that any loss, duplication or swap shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()
    };
    (0..length.div_ceil(4)).flat_map(|_| next()).take(length).collect()
}

/// Writes a certificate of host b for its IPv4 address (`certificate.pem`, `key.pem` in its
/// directory). Returns the file on host a that contains the issuing authority, which issued no
/// other certificate.
pub(crate) fn vouched(pair: &LabPair) -> String {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL takes a certificate for self-issued if subject and issuer have the same name.
    authority.distinguished_name.push(DnType::CommonName, "authority of host b");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([pair.b_v4()]).unwrap().signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| std::fs::write(pair.b.directory().join(name), text).unwrap();
    write("key.pem", key.serialize_pem());
    write("certificate.pem", certificate.pem());
    let trusted = pair.a.directory().join("ca.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();
    trusted.to_str().unwrap().to_owned()
}

/// A program of the workspace.
pub(crate) fn built(name: &str) -> String {
    tools::built(name).unwrap().to_str().unwrap().to_owned()
}

/// A small C program, compiled for this test.
pub(crate) fn compiled(host: &LabHost, source: &str) -> String {
    let program = host.directory().join("program").to_str().unwrap().to_owned();
    built_from(source, &["-o", &program]);
    program
}

/// Compiles C, with these arguments after the source.
pub(crate) fn built_from(source: &str, arguments: &[&str]) {
    let mut compiler = std::process::Command::new("cc");
    compiler
        .args(["-O2", "-Wall", "-D_GNU_SOURCE", "-D_FORTIFY_SOURCE=2", "-x", "c", "-", "-x", "none"])
        .args(arguments);
    compiler.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut compiler = compiler.spawn().expect("cc is needed (cargo xtask deps)");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let made = compiler.wait_with_output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Several connections at once; on each, data is echoed, and the end of the stream arrives.
pub(crate) const ECHO_CLIENT: &str = r#"
import hashlib, os, socket, sys, threading
def talk(number, results):
    with socket.create_connection((sys.argv[1], 9000), timeout=20) as s:
        sent = os.urandom(200_000)
        def send():
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        back = b''
        while data := s.recv(65536):
            back += data
        sender.join()
        results[number] = hashlib.sha256(sent).digest() == hashlib.sha256(back).digest() and len(back) == len(sent)
for _ in range(2):
    results = {}
    threads = [threading.Thread(target=talk, args=(n, results)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(results) == 4 and all(results.values()), results
print('all came back')
"#;

/// Starts an echo server on host b, and runs clients of both kinds against its port 9000, one after
/// the other.
pub(crate) fn echoes(both: &Both, server: &[&str]) -> Process {
    let address = both.pair.b_v4();
    let mut serving = start(both.b(), true, server);
    wait_until_listening(both.b(), &mut serving, "tcp", 9000);
    for accelerated in [true, false] {
        let client = [python(), "-c", ECHO_CLIENT, &address];
        let ask = || start(both.a(), accelerated, &client).success(TIMEOUT);
        let printed = crossing_ends(both, true, accelerated, 100, ask);
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}", serving.stderr()));
        assert_eq!(printed, "all came back\n");
    }
    assert!(serving.is_running().unwrap(), "{}", serving.stderr());
    serving
}

/// Echoes received data, on each connection and as datagrams.
pub(crate) const ECHO_SERVER: &str = r#"
import socket, sys, threading
def serve(c):
    try:
        while d := c.recv(65536): c.sendall(d)
    except ConnectionResetError:
        pass
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], 9000))
    while True:
        data, peer = s.recvfrom(100)
        s.sendto(data, peer)
threading.Thread(target=datagrams, daemon=True).start()
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

/// The echo server on host b.
pub(crate) fn server(both: &Both) -> Process {
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_SERVER, &both.pair.b_v4()]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    server
}

/// Connects, reports that, waits for the end of the connection, and prints how it ended.
pub(crate) const WAITING_CLIENT: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], 9000), timeout=25)
s.sendall(b'hello')
assert s.recv(5) == b'hello'
print('connected', flush=True)
try:
    print('end' if s.recv(1) == b'' else 'data', flush=True)
except ConnectionResetError:
    print('reset', flush=True)
"#;

/// The group of [`HEAR`] and [`TELL`], unless a test names another.
pub(crate) const GROUP: &str = "239.1.2.3";

/// Joins a group and prints received datagrams; optionally from one source only.
pub(crate) const HEAR: &str = r#"
import socket, struct, sys
group, own, source = sys.argv[1], sys.argv[2], sys.argv[3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((group, 7100))
if source == 'any':
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
else:
    IP_ADD_SOURCE_MEMBERSHIP = 39
    s.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own) + socket.inet_aton(source))
print('joined', flush=True)
while True:
    print(s.recv(100).decode(), flush=True)
"#;

/// Sends five datagrams with a name to a group.
pub(crate) const TELL: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], 0))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[2]))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(sys.argv[4]))
for n in range(5):
    s.sendto(f'{sys.argv[3]} {n};'.encode(), (sys.argv[1], 7100))
    time.sleep(0.05)
"#;
