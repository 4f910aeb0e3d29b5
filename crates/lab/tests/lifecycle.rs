//! Programs and services that die, stop, come back or are not there.

mod common;

use common::{Both, ECHO_SERVER, GROUP, HEAR, PATIENCE, TELL, bound, compiled, crossing, python, start};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use tickwire_lab::{CableOptions, Pair, Process, Service, ServiceOptions, tools};

/// Connects, says so, and waits for the end of the connection; says how it came.
const WAITING_CLIENT: &str = r#"
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

fn server(both: &Both) -> Process {
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_SERVER, &both.pair.b_v4()]);
    bound(both.b(), &mut server, "tcp", 9000);
    server
}

fn client(both: &Both, accelerated: bool) -> Process {
    let mut client = start(both.a(), accelerated, &[python(), "-c", WAITING_CLIENT, &both.pair.b_v4()]);
    client.wait_for("connected", PATIENCE).unwrap();
    client
}

/// Waits until no lane is left on host b, nor the port that its program had.
fn no_lane_is_left(both: &Both, patience: Duration) {
    tools::until("nothing is left of the lane", patience, || {
        let links = both.b().run(&["ip", "-o", "link"]).unwrap();
        let listeners = both.b().run(&["ss", "-H", "-lnt"]).unwrap();
        let lanes = both.b_service.stat().unwrap().json["lanes"].as_array().map_or(0, Vec::len);
        // The loopback interface and the card.
        links.lines().count() == 2 && listeners.is_empty() && lanes == 0
    })
    .unwrap();
}

#[test]
fn the_peers_of_a_killed_program_are_told_within_a_second_and_its_lane_is_gone() {
    let both = Both::new();
    let mut server = server(&both);
    let mut clients = [client(&both, true), client(&both, false)];
    assert_eq!(both.b_service.stat().unwrap().lanes_of(server.id()).len(), 1);
    server.signal(Signal::SIGKILL).unwrap();
    let killed = Instant::now();
    for client in &mut clients {
        client.wait_for("reset", PATIENCE).unwrap();
    }
    assert!(killed.elapsed() < Duration::from_secs(1), "it took {:?}", killed.elapsed());
    server.kill();
    no_lane_is_left(&both, Duration::from_secs(1));
}

#[test]
fn a_port_is_free_again_as_soon_as_its_program_has_been_killed() {
    let both = Both::new();
    for _ in 0..2 {
        let mut server = server(&both);
        client(&both, false).kill();
        server.kill();
        no_lane_is_left(&both, PATIENCE);
    }
}

#[test]
fn without_a_service_programs_run_on_the_kernel_unless_they_require_it() {
    let pair = Pair::new().unwrap();
    let tickwire = tools::tickwire().unwrap();
    let script = format!(
        "import socket; s = socket.socket(); s.bind(('{}', 9000)); s.listen(); print('listening')",
        pair.a_v4()
    );
    let run = |more: &[&str]| {
        let command = [&[tickwire.to_str().unwrap(), "run"], more, &["--", python(), "-c", &script]].concat();
        pair.a.spawn(&command).unwrap().wait(PATIENCE).unwrap()
    };
    let ended = run(&[]);
    assert_eq!(ended.stdout, "listening\n");
    assert_eq!(ended.stderr.lines().count(), 1, "one line says why: {}", ended.stderr);
    assert!(ended.stderr.contains("no service at"), "{}", ended.stderr);
    let ended = run(&["--require"]);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(69), ""));
}

#[test]
fn a_service_that_is_stuck_is_called_so_and_a_program_goes_on_without_it() {
    const STUCK: &str = "import socket, sys, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); \
        s.bind(sys.argv[1]); s.listen(); print('listening', flush=True); time.sleep(100)";
    let pair = Pair::new().unwrap();
    let (tickwire, socket) = (tools::tickwire().unwrap(), pair.a.socket());
    let mut stuck = start(&pair.a, false, &[python(), "-c", STUCK, socket.to_str().unwrap()]);
    stuck.wait_for("listening", PATIENCE).unwrap();
    let script = "import socket; socket.socket(); socket.socket(); print('made')";
    let command = [tickwire.to_str().unwrap(), "run", "--", python(), "-c", script];
    let ended = pair.a.spawn(&command).unwrap().wait(PATIENCE).unwrap();
    assert_eq!(ended.stdout, "made\n");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("the service does not answer"), "{}", ended.stderr);
}

/// A new listening socket for each connection, each on the next port.
const NEW_SOCKETS: &str = r#"
import socket, sys
for port in range(9000, 9100):
    with socket.create_server((sys.argv[1], port)) as listener:
        c, _ = listener.accept()
        with c:
            while d := c.recv(65536): c.sendall(d)
"#;

#[test]
fn without_the_service_a_program_goes_on_and_when_it_is_back_new_sockets_take_the_fast_path_again() {
    let mut both = Both::new();
    let (client_host, address) = (both.pair.a.clone(), both.pair.b_v4());
    let script = WAITING_CLIENT.replace("print('connected', flush=True)", "s.shutdown(socket.SHUT_WR)");
    let talk = |port: u16| {
        let script = script.replace("9000", &port.to_string());
        start(&client_host, false, &[python(), "-c", &script, &address]).success(PATIENCE).unwrap()
    };
    // Not with --require, which would end the program at its first socket without a service.
    let tickwire = tools::tickwire().unwrap();
    let mut server =
        start(both.b(), false, &[tickwire.to_str().unwrap(), "run", python(), "-c", NEW_SOCKETS, &address]);
    bound(both.b(), &mut server, "tcp", 9000);
    assert_eq!(crossing(&both.b_service, 3, || talk(9000)), "end\n");

    assert!(both.b_service.stop().unwrap().status.success());
    for port in 9001..9004 {
        bound(both.b(), &mut server, "tcp", port);
        assert_eq!(talk(port), "end\n");
    }

    both.b_service = Service::start(&both.pair.b).unwrap();
    let mut port = 9004;
    tools::until("new sockets are on the fast path again", PATIENCE, || {
        bound(both.b(), &mut server, "tcp", port);
        let before = both.b_service.stat().unwrap().diverted();
        assert_eq!(talk(port), "end\n");
        port += 1;
        both.b_service.stat().unwrap().diverted() > before + 2
    })
    .unwrap();
}

#[test]
fn a_stopped_service_leaves_nothing_behind_and_a_killed_one_is_cleaned_up_after_by_the_next() {
    let mut both = Both::new();
    let mut first = server(&both);
    assert!(both.b_service.stop().unwrap().status.success());
    let devices = both.b().run(&["ip", "-o", "link"]).unwrap();
    assert_eq!(devices.lines().count(), 2, "lo and eth0 only: {devices}");
    assert!(!devices.contains("xdp"), "{devices}");
    let filters = both.b().run(&["tc", "filter", "show", "dev", "eth0", "ingress"]).unwrap();
    assert_eq!(filters, "");
    assert!(!both.b().socket().exists());
    first.kill();

    both.b_service = Service::start(&both.pair.b).unwrap();
    let mut second = server(&both);
    both.b_service.process().signal(Signal::SIGKILL).unwrap();
    let _ = both.b_service.process().wait(PATIENCE).unwrap();
    both.b_service = Service::start(&both.pair.b).unwrap();
    second.kill();
    tools::until("the leftovers are gone", PATIENCE, || {
        both.b().run(&["ip", "-o", "link"]).unwrap().lines().count() == 2
    })
    .unwrap();
}

/// A program under `tickwire run` without `--require`.
fn willing(host: &tickwire_lab::Host, command: &[&str]) -> Process {
    let tickwire = tools::tickwire().unwrap();
    start(host, false, &[&[tickwire.to_str().unwrap(), "run"], command].concat())
}

#[test]
fn a_member_of_a_group_goes_on_hearing_it_when_the_service_is_killed() {
    let mut both = Both::new();
    let (own, other) = (both.pair.a_v4(), both.pair.b_v4());
    let mut hearer = willing(both.a(), &[python(), "-c", HEAR, GROUP, &own, "any"]);
    hearer.wait_for("joined", PATIENCE).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let teller = both.pair.b.clone();
    let tell = |name: &str| {
        start(&teller, false, &[python(), "-c", TELL, GROUP, &other, name, "0"]).success(PATIENCE).unwrap()
    };
    tell("by the lane");
    hearer.wait_for("by the lane 4;", PATIENCE).unwrap();
    assert_eq!(both.a_service.stat().unwrap().number("/host/counters/group_copies"), 5);
    both.a_service.process().signal(Signal::SIGKILL).unwrap();
    let _ = both.a_service.process().wait(PATIENCE).unwrap();
    tools::until("the program has noticed", PATIENCE, || hearer.stderr().contains("the lane has ended")).unwrap();
    assert!(hearer.stderr().contains("the connection to the service was lost"), "{}", hearer.stderr());
    tell("by the kernel");
    hearer.wait_for("by the kernel 4;", PATIENCE).unwrap();
    assert_eq!(hearer.stdout().lines().count(), 11, "each once: {}", hearer.stdout());
}

/// Makes a socket now and then, and says when the outcome changes.
const TRY: &str = r#"
import errno, socket, time
before = None
while True:
    try:
        socket.socket().close()
        now = 'made'
    except OSError as error:
        now = errno.errorcode[error.errno]
    if now != before:
        print(now, flush=True)
        before = now
    time.sleep(0.05)
"#;

#[test]
fn a_program_that_requires_acceleration_gets_errors_without_the_service_and_lives_on() {
    let mut both = Both::new();
    let mut program = start(both.a(), true, &[python(), "-c", TRY]);
    program.wait_for("made", PATIENCE).unwrap();
    assert!(both.a_service.stop().unwrap().status.success());
    program.wait_for("ENETDOWN", PATIENCE).unwrap();
    assert!(program.stderr().contains("new sockets fail (--require)"), "{}", program.stderr());
    both.a_service = Service::start(&both.pair.a).unwrap();
    tools::until("sockets can be made again", PATIENCE, || program.stdout() == "made\nENETDOWN\nmade\n").unwrap();
    assert_eq!(both.a_service.stat().unwrap().lanes_of(program.id()).len(), 1);
}

#[test]
fn established_connections_end_with_an_error_when_the_service_stops_or_is_killed() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut both = Both::new();
        let mut server = server(&both);
        let mut client = willing(both.a(), &[python(), "-c", WAITING_CLIENT, &both.pair.b_v4()]);
        client.wait_for("connected", PATIENCE).unwrap();
        let stat = both.a_service.stat().unwrap();
        assert!(stat.diverted() > 1, "it crossed the stack");
        both.a_service.process().signal(signal).unwrap();
        client.wait_for("reset", Duration::from_secs(5)).unwrap();
        assert!(server.is_running().unwrap());
    }
}

/// Has a connection, a listener that blocks, one that does not, and a UDP socket; then loses its lane: children that are inside it all the time are
/// killed until one of them dies with the lock in hand.
const LOSES_ITS_LANE: &str = r#"
import fcntl, os, select, signal, socket, sys, threading
own, other = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
blocking = socket.create_server((own, 9000))
patient = socket.create_server((own, 9001))
patient.setblocking(False)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((own, 9002))
connections = [socket.create_connection((other, 9000)) for _ in range(4)]
receives, sends, asks, polls = connections
watch = select.epoll()
watch.register(polls, select.EPOLLIN)
busy = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
busy.bind((own, 0))
print('connected', flush=True)
signal.sigwait([signal.SIGUSR1])

def lost():
    try:
        receives.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError as error:
        print('receives', error.strerror, flush=True)
        return True

while not lost():
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        for i in range(1 << 30):
            if i == 1000: os.write(tell, b'.')
            try:
                busy.recv(1, socket.MSG_DONTWAIT)
            except OSError:
                pass
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)

def outcome(name, call):
    try:
        print(name, call(), flush=True)
    except OSError as error:
        print(name, error.strerror, flush=True)
outcome('receives', lambda: receives.recv(1))
outcome('sends', lambda: sends.send(b'x'))
outcome('sends', lambda: sends.send(b'x'))
outcome('sends', lambda: sends.recv(1))
outcome('asks', lambda: os.strerror(asks.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
outcome('asks', lambda: asks.recv(1))
outcome('polls', lambda: watch.poll(20)[0][1] & (select.EPOLLIN | select.EPOLLHUP) == select.EPOLLIN | select.EPOLLHUP)
for listener in blocking, patient:
    print('waits', not fcntl.fcntl(listener, fcntl.F_GETFL) & os.O_NONBLOCK, flush=True)
def serve(listener):
    listener.settimeout(None)
    while True:
        c, _ = listener.accept()
        c.sendall(c.recv(100))
        c.close()
for listener in blocking, patient:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
print('serves', flush=True)
while True:
    data, source = datagrams.recvfrom(100)
    datagrams.sendto(data, source)
"#;

/// Exchanges a word with each of the sockets of `LOSES_ITS_LANE`, as often as it takes until the host has taken them back.
const ASKS_ALL: &str = r#"
import socket, sys
def ask(kind, port):
    while True:
        with socket.socket(socket.AF_INET, kind) as s:
            s.settimeout(1)
            try:
                s.connect((sys.argv[1], port))
                s.sendall(b'word')
                return s.recv(100)
            except (TimeoutError, ConnectionError):
                pass
print(ask(socket.SOCK_STREAM, 9000), ask(socket.SOCK_STREAM, 9001), ask(socket.SOCK_DGRAM, 9002))
"#;

#[test]
fn a_program_whose_lane_is_lost_sees_resets_and_goes_on_with_the_kernel() {
    let both = Both::new();
    let _server = server(&both);
    let (own, other) = (both.pair.a_v4(), both.pair.b_v4());
    let mut loser = start(both.a(), true, &[python(), "-c", LOSES_ITS_LANE, &own, &other]);
    loser.wait_for("connected", PATIENCE).unwrap();
    assert!(both.a_service.stat().unwrap().diverted() >= 4, "its connections cross the stack");
    loser.signal(Signal::SIGUSR1).unwrap();
    loser.wait_for("serves", PATIENCE).unwrap_or_else(|e| panic!("{e:#}\n{}", loser.stderr()));
    let expected = "connected\nreceives Connection reset by peer\nreceives b''\nsends Connection reset by peer\nsends Broken pipe\nsends b''\n\
                    asks Connection reset by peer\nasks b''\npolls True\nwaits True\nwaits False\nserves\n";
    assert_eq!(loser.stdout(), expected);
    let said = start(both.b(), false, &[python(), "-c", ASKS_ALL, &own]).success(PATIENCE).unwrap();
    assert_eq!(said, "b'word' b'word' b'word'\n");
}

/// Fills the send buffer while the peer does not read, and ends.
const LEAVE: &str = r#"
import socket, sys
s = socket.create_connection((sys.argv[1], 9000), timeout=20)
s.sendall(bytes(150000))
s.sendall(b'end')
sys.exit(int(sys.argv[2]))
"#;

const READ_LATE: &str = r#"
import socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
listener.bind((sys.argv[1], 9000))
listener.listen()
for _ in range(2):
    c, _ = listener.accept()
    time.sleep(0.5)
    data = b''
    while d := c.recv(65536): data += d
    print(len(data), data[-3:], flush=True)
"#;

#[test]
fn what_a_program_has_sent_arrives_though_it_exits_at_once() {
    let both = Both::new();
    let mut reader = start(both.b(), false, &[python(), "-c", READ_LATE, &both.pair.b_v4()]);
    bound(both.b(), &mut reader, "tcp", 9000);
    crossing(&both.a_service, 10, || {
        for status in ["0", "3"] {
            let ended = start(both.a(), true, &[python(), "-c", LEAVE, &both.pair.b_v4(), status]).wait(PATIENCE);
            assert_eq!(ended.unwrap().status.code(), Some(status.parse().unwrap()));
        }
        tools::until("both have arrived", PATIENCE, || reader.stdout() == "150003 b'end'\n150003 b'end'\n").unwrap();
    });
}

/// Three processes share a listener and one connection; each says who it is.
const FAMILY: &str = r#"
import os, socket, sys
listener = socket.create_server((sys.argv[1], 9000))
def serve(name, c):
    while d := c.recv(100): c.sendall(name + b' ' + d)
first, _ = listener.accept()
for _ in range(2):
    if os.fork() == 0:
        os.write(1, b'child %d\n' % os.getpid())
        while True:
            c, _ = listener.accept()
            serve(b'child', c)
serve(b'parent', first)
"#;

const TALK: &str = r#"
import socket, sys, time
def talk(c, text):
    c.sendall(text)
    return c.recv(100).decode()
first = socket.create_connection((sys.argv[1], 9000), timeout=20)
print(talk(first, b'one'), flush=True)
while True:
    c = socket.create_connection((sys.argv[1], 9000), timeout=20)
    print(talk(c, b'two'), flush=True)
    c.close()
    print(talk(first, b'three'), flush=True)
    time.sleep(0.1)
"#;

#[test]
fn a_forked_child_that_is_killed_takes_none_of_its_siblings_sockets_along() {
    let both = Both::new();
    let mut family = start(both.b(), true, &[python(), "-c", FAMILY, &both.pair.b_v4()]);
    bound(both.b(), &mut family, "tcp", 9000);
    let mut talker = start(both.a(), false, &[python(), "-c", TALK, &both.pair.b_v4()]);
    talker.wait_for("parent three", PATIENCE).unwrap();
    let children = || -> Vec<i32> {
        let said = family.stdout();
        said.split_inclusive('\n').filter_map(|l| l.strip_prefix("child ")?.strip_suffix('\n')?.parse().ok()).collect()
    };
    tools::until("both children have said who they are", PATIENCE, || children().len() == 2).unwrap();
    let children = children();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(children[0]), Signal::SIGKILL).unwrap();
    // Longer than anything that cleans up after the dead takes.
    std::thread::sleep(Duration::from_secs(1));
    let before = talker.stdout().len();
    crossing(&both.b_service, 10, || {
        tools::until("both still answer", PATIENCE, || {
            let since = talker.stdout().split_off(before);
            since.matches("child two").count() >= 3 && since.matches("parent three").count() >= 3
        })
        .unwrap();
    });
    assert!(talker.is_running().unwrap(), "{}", talker.stderr());
}

/// Answers on one listener; makes another socket when it is told to.
const OLD_LISTENER: &str = r#"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 9000), family=family)
kept = [socket.create_server(('127.0.0.1', 0))]
while True:
    c, _ = listener.accept()
    d = c.recv(100)
    if d == b'new':
        kept.append(socket.create_server((sys.argv[1], 9001)))
    c.sendall(d)
    kept.append(c)
"#;

#[test]
fn sockets_that_are_older_than_the_service_are_listed_with_the_reason() {
    let mut both = Both::new();
    let (host, address) = (both.pair.a.clone(), both.pair.b_v4());
    let mut server = willing(both.b(), &[python(), "-c", OLD_LISTENER, &address]);
    bound(both.b(), &mut server, "tcp", 9000);
    assert!(both.b_service.stop().unwrap().status.success());
    both.b_service = Service::start(&both.pair.b).unwrap();

    let program = || both.b_service.stat().unwrap().lanes_of(server.id()).first().map(|lane| (*lane).clone());
    tools::until("the program is listed", PATIENCE, || program().is_some()).unwrap();
    let listed = program().unwrap();
    assert_eq!(listed["accelerated"], false);
    assert!(listed["reason"].as_str().unwrap().contains("older than the service"), "{listed}");

    // The same once more, by kill -9: the helper hears that the service by which the program was listed has gone.
    both.b_service.process().signal(Signal::SIGKILL).unwrap();
    let _ = both.b_service.process().wait(PATIENCE).unwrap();
    both.b_service = Service::start(&both.pair.b).unwrap();
    let program = || both.b_service.stat().unwrap().lanes_of(server.id()).first().map(|lane| (*lane).clone());
    tools::until("the program is listed again", PATIENCE, || program().is_some()).unwrap();

    let script = "import socket, sys; c = socket.create_connection((sys.argv[1], 9000)); c.sendall(b'new'); c.recv(3)";
    start(&host, false, &[python(), "-c", script, &address]).success(PATIENCE).unwrap();
    let listed = program().unwrap();
    assert_eq!(listed["accelerated"], true, "its new socket took the fast path: {listed}");
    let on = |port: u16, accelerated: bool| {
        let local = format!("{address}:{port}");
        let all = listed["sockets"].as_array().unwrap();
        all.iter().filter(|s| s["local"] == local.as_str() && s["accelerated"] == accelerated).count()
    };
    assert_eq!(on(9001, true), 1, "{listed}");
    assert!(on(9000, false) >= 2, "the old listener, and a connection that it accepted: {listed}");
    assert_eq!(on(9000, true), 0, "{listed}");
    let reason = |local: &str| {
        let all = listed["sockets"].as_array().unwrap();
        all.iter()
            .find(|s| s["local"].as_str().unwrap().starts_with(local))
            .and_then(|s| s["reason"].as_str())
            .unwrap_or_default()
    };
    assert!(reason(&format!("{address}:9000")).contains("older than the service"), "{listed}");
    let loopback = reason("127.0.0.1:");
    assert!(!loopback.is_empty() && !loopback.contains("older"), "it never was on a lane: {listed}");
}

#[test]
fn a_program_for_which_there_is_no_lane_is_listed_with_the_reason() {
    let options = ServiceOptions { config: "[limits]\nlanes = 1\n".into(), ..ServiceOptions::default() };
    let both = Both::with(&CableOptions::default(), &options);
    let listen = |address: String| {
        let mut server = willing(both.b(), &[python(), "-c", OLD_LISTENER, &address]);
        bound(both.b(), &mut server, "tcp", 9000);
        server
    };
    let first = listen(both.pair.b_v4());
    let mut second = listen(both.pair.b_v6());
    let stat = both.b_service.stat().unwrap();
    assert_eq!(stat.lanes_of(first.id())[0]["accelerated"], true);
    let listed = stat.lanes_of(second.id());
    assert_eq!(listed.len(), 1, "{}", stat.json);
    assert!(listed[0]["reason"].as_str().unwrap().starts_with("all lanes are taken"), "{}", listed[0]);
    second.kill();
    tools::until("it is gone", PATIENCE, || both.b_service.stat().unwrap().lanes_of(second.id()).is_empty()).unwrap();
}

#[test]
fn a_program_that_confines_itself_goes_on_with_the_kernel_and_is_told_why() {
    // The child is confined as OpenSSH's are: the thread that calls what it may not is killed, and it alone.
    const PROGRAM: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ONLY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ONLY(read), ONLY(write), ONLY(close), ONLY(exit_group), ONLY(futex), ONLY(rt_sigprocmask), ONLY(rt_sigreturn), ONLY(getpid),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
};

int main(int count, char **arguments) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    int connection = socket(AF_INET, SOCK_STREAM, 0), datagrams, status;
    char back[5];
    inet_pton(AF_INET, arguments[1], &name.sin_addr);
    if (connect(connection, (struct sockaddr *)&name, sizeof name))
        return 1;
    // To ask is not to confine oneself.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0) != -1 || errno != EFAULT)
        return 7;
    // Nor is to be refused it.
    if (!fork()) {
        if (setgid(65534) || setuid(65534) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != -1 || errno != EACCES ||
            prctl(PR_SET_SECCOMP, 7, &filter) != -1 || errno != EINVAL)
            _exit(8);
        _exit(write(connection, "hello", 5) != 5 || read(connection, back, 5) != 5);
    }
    if (wait(&status) < 0 || status)
        return 9;
    if (!fork()) {
        datagrams = socket(AF_INET, SOCK_DGRAM, 0);
        if (connect(datagrams, (struct sockaddr *)&name, sizeof name) || write(datagrams, "hello", 5) != 5 ||
            read(datagrams, back, 5) != 5)
            _exit(2);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            _exit(3);
        if (read(connection, back, 5) >= 0 || errno != ECONNRESET)
            _exit(4);
        if (write(datagrams, "again", 5) != 5 || read(datagrams, back, 5) != 5 || memcmp(back, "again", 5))
            _exit(5);
        _exit(0);
    }
    if (wait(&status) < 0 || status)
        return status >> 8;
    // The parent's part in the connection is as it was.
    if (write(connection, "hello", 5) != 5 || read(connection, back, 5) != 5)
        return 6;
    puts("ok");
    return 0;
}
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_SERVER, &address]);
    bound(both.b(), &mut server, "udp", 9000);
    let program = compiled(both.a(), PROGRAM);
    let ended = crossing(&both.a_service, 4, || start(both.a(), true, &[&program, &address]).wait(PATIENCE).unwrap());
    assert_eq!(ended.stdout, "ok\n", "{:?} {}", ended.status, ended.stderr);
    assert_eq!(ended.stderr.matches("seccomp").count(), 1, "{}", ended.stderr);
}
