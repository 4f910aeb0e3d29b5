//! Programs that die, fork, end, lose their lane or leave it.

mod common;

use common::{
    Both, ECHO_SERVER, TIMEOUT, WAITING_CLIENT, compiled, crossing, python, server, start, wait_until_listening,
};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use tickwire_lab::{Process, Service, tools};

fn client(both: &Both, accelerated: bool) -> Process {
    let mut client = start(both.a(), accelerated, &[python(), "-c", WAITING_CLIENT, &both.pair.b_v4()]);
    client.wait_for("connected", TIMEOUT).unwrap();
    client
}

/// Waits until no program's lane is left on host b, nor any listening port.
fn no_lane_is_left(both: &Both, time_limit: Duration) {
    tools::until("nothing is left of the lane", time_limit, || {
        let links = both.b().run(&["ip", "-o", "link"]).unwrap();
        let listeners = both.b().run(&["ss", "-H", "-lnt"]).unwrap();
        let lanes = both.b_service.stat().unwrap().json["lanes"].as_array().map_or(0, Vec::len);
        // The loopback interface, the card, and unassigned lanes.
        links.lines().count() == 2 + Service::READY_LANES && listeners.is_empty() && lanes == 0
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
        client.wait_for("reset", TIMEOUT).unwrap();
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
        no_lane_is_left(&both, TIMEOUT);
    }
}

/// Has connections, a blocking listener, a non-blocking one and a UDP socket. Then it loses its
/// lane: children that use the lane continuously are killed until one of them dies holding the
/// lock.
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

/// Exchanges a word with each of the sockets of `LOSES_ITS_LANE`, and retries until the kernel has
/// taken them over.
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
    loser.wait_for("connected", TIMEOUT).unwrap();
    assert!(both.a_service.stat().unwrap().diverted() >= 4, "its connections cross the stack");
    loser.signal(Signal::SIGUSR1).unwrap();
    loser.wait_for("serves", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", loser.stderr()));
    let expected = "connected\nreceives Connection reset by peer\nreceives b''\nsends Connection reset by peer\nsends Broken pipe\nsends b''\n\
                    asks Connection reset by peer\nasks b''\npolls True\nwaits True\nwaits False\nserves\n";
    assert_eq!(loser.stdout(), expected);
    let said = start(both.b(), false, &[python(), "-c", ASKS_ALL, &own]).success(TIMEOUT).unwrap();
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
    wait_until_listening(both.b(), &mut reader, "tcp", 9000);
    crossing(&both.a_service, 10, || {
        for status in ["0", "3"] {
            let ended = start(both.a(), true, &[python(), "-c", LEAVE, &both.pair.b_v4(), status]).wait(TIMEOUT);
            assert_eq!(ended.unwrap().status.code(), Some(status.parse().unwrap()));
        }
        tools::until("both have arrived", TIMEOUT, || reader.stdout() == "150003 b'end'\n150003 b'end'\n").unwrap();
    });
}

/// Three processes share a listener and one connection; each answers with its role.
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
    try:
        c = socket.create_connection((sys.argv[1], 9000), timeout=20)
        print(talk(c, b'two'), flush=True)
        c.close()
    except OSError:
        pass  # the child that was killed had it
    print(talk(first, b'three'), flush=True)
    time.sleep(0.1)
"#;

#[test]
fn a_forked_child_that_is_killed_takes_none_of_its_siblings_sockets_along() {
    let both = Both::new();
    let mut family = start(both.b(), true, &[python(), "-c", FAMILY, &both.pair.b_v4()]);
    wait_until_listening(both.b(), &mut family, "tcp", 9000);
    let mut talker = start(both.a(), false, &[python(), "-c", TALK, &both.pair.b_v4()]);
    talker.wait_for("parent three", TIMEOUT).unwrap();
    let children = || -> Vec<i32> {
        let said = family.stdout();
        said.split_inclusive('\n').filter_map(|l| l.strip_prefix("child ")?.strip_suffix('\n')?.parse().ok()).collect()
    };
    tools::until("both children have printed their process numbers", TIMEOUT, || children().len() == 2).unwrap();
    let children = children();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(children[0]), Signal::SIGKILL).unwrap();
    // Longer than the cleanup after dead processes takes.
    std::thread::sleep(Duration::from_secs(1));
    let before = talker.stdout().len();
    crossing(&both.b_service, 10, || {
        tools::until("both still answer", TIMEOUT, || {
            let since = talker.stdout().split_off(before);
            since.matches("child two").count() >= 3 && since.matches("parent three").count() >= 3
        })
        .unwrap();
    });
    assert!(talker.is_running().unwrap(), "{}", talker.stderr());
}

#[test]
fn a_program_that_confines_itself_before_its_first_socket_is_listed_with_the_reason() {
    const PROGRAM: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sock_filter rules[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};

int main(void) {
    struct sock_fprog filter = {1, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 1;
    puts(socket(AF_INET, SOCK_STREAM, 0) >= 0 ? "made" : errno == ENETDOWN ? "refused" : "failed");
    fflush(stdout);
    pause();
}
"#;
    let both = Both::new();
    let program = compiled(both.a(), PROGRAM);
    let tickwire = tools::tickwire().unwrap();
    for (requires, said) in [(&[][..], "made"), (&["--require"], "refused")] {
        let command = [&[tickwire.to_str().unwrap(), "run"], requires, &["--", &program]].concat();
        let mut confined = start(both.a(), false, &command);
        confined.wait_for(said, TIMEOUT).unwrap();
        let stat = both.a_service.stat().unwrap();
        let listed = stat.lanes_of(confined.id());
        assert_eq!(listed.len(), 1, "{}", stat.json);
        assert_eq!(listed[0]["accelerated"], false, "{}", stat.json);
        assert!(listed[0]["reason"].as_str().unwrap().contains("seccomp"), "{}", listed[0]);
    }
}

#[test]
fn a_program_that_confines_itself_again_makes_no_call_that_it_has_forbidden() {
    const PROGRAM: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_filter no_socket[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int count, char **arguments) {
    struct sock_fprog first = {4, no_socket}, second = {1, allow};
    if (count > 1 && socket(AF_INET, SOCK_STREAM, 0) < 0)
        return 1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &first))
        return 2;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &second))
        return 3;
    puts("alive");
}
"#;
    let both = Both::new();
    let program = compiled(both.a(), PROGRAM);
    for arguments in [&[][..], &["with a lane"]] {
        let command = [&[program.as_str()], arguments].concat();
        assert_eq!(start(both.a(), true, &command).success(TIMEOUT).unwrap(), "alive\n");
    }
}

#[test]
fn a_program_that_confines_itself_goes_on_with_the_kernel_and_is_told_why() {
    // The child is confined like OpenSSH's: a thread that makes a forbidden call is killed alone.
    const PROGRAM: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
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
    int connection = socket(AF_INET, SOCK_STREAM, 0), datagrams, status, told[2];
    char back[5];
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGUSR1);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    if (pipe(told))
        return 10;
    inet_pton(AF_INET, arguments[1], &name.sin_addr);
    if (connect(connection, (struct sockaddr *)&name, sizeof name))
        return 1;
    // A query is no confinement.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0) != -1 || errno != EFAULT)
        return 7;
    // Nor is a refused request.
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
        dprintf(1, "child %d\n", getpid());
        // Like OpenSSH's, which cannot reach the service any more.
        if (chroot("/proc/self/fdinfo"))
            _exit(11);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            _exit(3);
        if (read(connection, back, 5) >= 0 || errno != ECONNRESET)
            _exit(4);
        if (write(datagrams, "again", 5) != 5 || read(datagrams, back, 5) != 5 || memcmp(back, "again", 5))
            _exit(5);
        _exit(write(1, "confined\n", 9) != 9 || read(told[0], back, 1) != 1);
    }
    if (sigwait(&awaited, &status) || write(told[1], ".", 1) != 1 || wait(&status) < 0 || status)
        return status >> 8;
    // The parent's share of the connection is unchanged.
    if (write(connection, "hello", 5) != 5 || read(connection, back, 5) != 5)
        return 6;
    puts("ok");
    return 0;
}
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "udp", 9000);
    let program = compiled(both.a(), PROGRAM);
    let ended = crossing(&both.a_service, 4, || {
        let mut parent = start(both.a(), true, &[&program, &address]);
        parent.wait_for("confined", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", parent.stderr()));
        let said = parent.stdout();
        let child = said.lines().find_map(|line| line.strip_prefix("child ")).unwrap().parse().unwrap();
        let stat = both.a_service.stat().unwrap();
        let listed = stat.lanes_of(child);
        assert_eq!(listed.len(), 1, "{}", stat.json);
        assert_eq!(
            (&listed[0]["accelerated"], &listed[0]["program"]),
            (&false.into(), &"program".into()),
            "{}",
            listed[0]
        );
        assert!(listed[0]["reason"].as_str().unwrap().contains("seccomp"), "{}", listed[0]);
        assert_eq!(stat.lanes_of(parent.id())[0]["accelerated"], true, "{}", stat.json);
        parent.signal(Signal::SIGUSR1).unwrap();
        let ended = parent.wait(TIMEOUT).unwrap();
        tools::until("it is gone", TIMEOUT, || both.a_service.stat().unwrap().lanes_of(child).is_empty()).unwrap();
        ended
    });
    assert!(ended.stdout.ends_with("confined\nok\n"), "{:?} {} {}", ended.status, ended.stdout, ended.stderr);
    assert_eq!(ended.stderr.matches("seccomp").count(), 1, "{}", ended.stderr);
}
