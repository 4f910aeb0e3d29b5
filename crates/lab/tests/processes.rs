//! Sockets of a program that starts others: which processes share a connection, and which do not.

mod common;

use common::{Both, TIMEOUT, compiled, crossing, python, start, wait_until_listening};
use std::time::Duration;
use tickwire_lab::tools;

/// Prints when each of its connections has ended.
const WATCHER: &str = r#"
import socket, sys, threading
def watch(c, name):
    c.sendall(b'go')
    while c.recv(100): pass
    print(name, 'ended', flush=True)
listener = socket.create_server((sys.argv[1], 9000))
for n in range(100):
    c, _ = listener.accept()
    threading.Thread(target=watch, args=(c, n), daemon=True).start()
"#;

#[test]
fn a_connection_ends_with_the_last_program_that_has_it() {
    const SPAWNER: &str = r#"
import os, signal, socket, sys
def connection():
    s = socket.create_connection((sys.argv[1], 9000), timeout=20)
    assert s.recv(2) == b'go'
    return s
def spawn(path, s, given=True):
    actions = [(os.POSIX_SPAWN_DUP2, s.fileno(), 0)] if given else []
    return os.posix_spawn(path, ['sleep', '100'], os.environ, file_actions=actions)
def step(text):
    print(text, flush=True)
    os.read(7, 1)
first, second, third = connection(), connection(), connection()
try:
    spawn('/no/such/program', first)
except FileNotFoundError:
    first.close()
step('not started')
child = spawn('/bin/sleep', second, given=False)
second.close()
step('not given')
os.kill(child, signal.SIGKILL)
child = spawn('/bin/sleep', third)
third.close()
step('given')
os.kill(child, signal.SIGKILL)
step('killed')
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut watcher = start(both.b(), true, &[python(), "-c", WATCHER, &address]);
    wait_until_listening(both.b(), &mut watcher, "tcp", 9000);
    let fifo = both.a().directory().join("fifo");
    both.a().run(&["mkfifo", fifo.to_str().unwrap()]).unwrap();
    let script = format!("exec 7<>{}; exec \"$@\"", fifo.display());
    let mut spawner = start(both.a(), true, &["bash", "-c", &script, "bash", python(), "-c", SPAWNER, &address]);
    let go_on = || std::fs::write(&fifo, "x").unwrap();

    spawner.wait_for("not started", TIMEOUT).unwrap();
    watcher.wait_for("0 ended", TIMEOUT).unwrap();
    go_on();
    spawner.wait_for("not given", TIMEOUT).unwrap();
    watcher.wait_for("1 ended", TIMEOUT).unwrap();
    go_on();
    spawner.wait_for("\ngiven", TIMEOUT).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert!(!watcher.stdout().contains("2 ended"), "the spawned program has it still");
    go_on();
    watcher.wait_for("2 ended", TIMEOUT).unwrap();
    assert!(both.b_service.stat().unwrap().diverted() > 10);
}

/// Echoes, with a thread per connection.
const ECHO: &str = r#"
import socket, sys, threading
def serve(c):
    while d := c.recv(65536): c.sendall(d)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

fn against_echo(client: &[&str], packets: u64) -> String {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", ECHO, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let program;
    let mut command = client.to_vec();
    if let [source, rest @ ..] = client
        && source.starts_with("#include")
    {
        program = compiled(both.a(), source);
        command = [&[program.as_str()], rest].concat();
    }
    command.push(&address);
    crossing(&both.a_service, packets, || {
        let ended = start(both.a(), true, &command).wait(TIMEOUT).unwrap();
        assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
        ended.stdout + &ended.stderr
    })
}

#[test]
fn parent_and_child_open_sockets_after_a_fork_without_any() {
    const CLIENT: &str = r#"
import os, socket, sys
socket.socket().close()
children = [os.fork() for _ in range(1)]
for _ in range(20):
    with socket.create_connection((sys.argv[1], 9000), timeout=5) as s:
        s.sendall(b'hello')
        assert s.recv(5) == b'hello'
if 0 in children:
    os._exit(0)
assert os.wait()[1] == 0
print('ok')
"#;
    assert_eq!(against_echo(&[python(), "-c", CLIENT], 100), "ok\n");
}

#[test]
fn shell_commands_leave_the_sockets_of_the_program_alone() {
    const CLIENT: &str = r#"
import ctypes, os, socket, sys
libc = ctypes.CDLL(None)
with socket.create_connection((sys.argv[1], 9000), timeout=5) as s:
    s.set_inheritable(True)
    for n in range(5):
        assert libc.system(b'true; exec 0</dev/null') == 0
        libc.popen.restype = ctypes.c_void_p
        pipe = libc.popen(b'cat /dev/null', b'r')
        assert libc.pclose(ctypes.c_void_p(pipe)) == 0
        assert os.popen('echo out').read() == 'out\n'
        s.sendall(b'hello')
        assert s.recv(5) == b'hello'
print('ok')
"#;
    assert_eq!(against_echo(&[python(), "-c", CLIENT], 7), "ok\n");
}

#[test]
fn a_program_may_take_and_close_every_number_that_it_can_name() {
    const CLIENT: &str = r#"
import os, socket, sys
s = socket.create_connection((sys.argv[1], 9000), timeout=5)
def talk():
    s.sendall(b'hello')
    assert s.recv(5) == b'hello'
talk()
for n in range(s.fileno() + 1, os.sysconf('SC_OPEN_MAX')):
    os.dup2(0, n)
talk()
os.closerange(s.fileno() + 1, 100000)
talk()
for n in range(s.fileno() + 1, 20000):
    try:
        os.close(n)
    except OSError:
        pass
talk()
print('ok')
"#;
    let limited = ["bash", "-c", "ulimit -S -n 1000; exec \"$@\"", "bash", python(), "-c", CLIENT];
    assert_eq!(against_echo(&limited, 6), "ok\n");
}

#[test]
fn a_child_that_is_no_forks_shares_the_kernels_sockets_with_its_parent() {
    const CLIENT: &str = r#"#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in name = {.sin_family = AF_INET};
static int connection, foreign;
static char buffer[5];

static int talk(int fd) {
    return write(fd, "hello", 5) != 5 || recv(fd, buffer, 5, MSG_WAITALL) != 5;
}

static int child(void *argument) {
    int own;
    if (foreign ? read(connection, buffer, 5) >= 0 || (errno != ENOBUFS && errno != ENOTCONN) : talk(connection))
        return 1;
    close(connection);
    own = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(own, (struct sockaddr *)&name, sizeof name))
        return 2;
    return talk(own);
}

int main(int count, char **arguments) {
    int status, n;
    name.sin_port = htons(9000);
    inet_pton(AF_INET, arguments[1], &name.sin_addr);
    for (n = 0; n < 4; n++) {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&name, sizeof name) || talk(connection))
            return 1;
        // A fork by a direct system call bypasses the library.
        foreign = n >= 2;
        char *stack = (char *)malloc(65536) + 65536;
        pid_t pid = n == 0   ? clone(child, stack, CLONE_NEWUTS | SIGCHLD, NULL)
                    : n == 1 ? clone(child, stack, CLONE_NEWUTS | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL)
                             : syscall(SYS_fork);
        if (!pid && n == 2)
            _exit(child(NULL));
        if (!pid)
            return execl("/bin/true", "true", (char *)NULL);
        if (waitpid(pid, &status, 0) != pid || status)
            return 10 + WEXITSTATUS(status);
        if (talk(connection))
            return 3;
    }
    puts("ok");
    return 0;
}
"#;
    let said = against_echo(&[CLIENT], 10);
    assert!(said.starts_with("ok\n") && !said.contains("do not work"), "{said}");
}

/// The beginning of a client: connects to the echo server, and checks that a connection works.
const TALK: &str = r#"
import os, socket, sys
def connection():
    s = socket.create_connection((sys.argv[1], 9000), timeout=5)
    talk(s)
    return s
def talk(s):
    s.sendall(b'hello')
    assert s.recv(5) == b'hello'
"#;

#[test]
fn children_in_another_process_namespace_share_the_kernels_sockets_with_their_parent() {
    // They run side by side for long enough that each looks for dead processes of its lane several
    // times.
    const CLIENT: &str = r#"
import ctypes, errno, subprocess, time
CLONE_NEWPID = 0x20000000
def child(steps):
    assert os.getppid() == 0
    talk(one)
    try:
        talk(shared)
        raise AssertionError('a connection of the other child works')
    except OSError as error:
        assert error.errno == errno.ENOBUFS, error
    shared.close()
    own = connection()
    for _ in range(steps):
        time.sleep(0.1)
        talk(own)
one, shared = connection(), connection()
reader, writer = os.pipe()
here = os.fork()
if here == 0:
    os.close(writer)
    one.close()
    os.read(reader, 1)
    talk(shared)
    os._exit(0)
os.close(reader)
assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWPID) == 0
time.sleep(0.2)
children = []
# The namespace ends with the first of them.
for steps in (20, 10):
    pid = os.fork()
    if pid == 0:
        try:
            os.close(writer)
            child(steps)
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
        os._exit(0)
    children.append(pid)
# A program started by the C library.
two, three = connection(), connection()
two.set_inheritable(True)
two.setblocking(True)
program = 'import socket; s = socket.socket(fileno=%d); s.sendall(b"hello"); assert s.recv(5) == b"hello"' % two.fileno()
pid = os.posix_spawn(sys.executable, [sys.executable, '-c', program], os.environ)
assert os.waitpid(pid, 0)[1] == 0
talk(two)
for _ in range(10):
    time.sleep(0.1)
    talk(shared)
    talk(three)
for pid in reversed(children):
    assert os.waitpid(pid, 0)[1] == 0
    talk(one)
os.close(writer)
assert os.waitpid(here, 0)[1] == 0
talk(shared)
print('ok')
"#;
    let said = against_echo(&[python(), "-c", &format!("{TALK}{CLIENT}")], 50);
    assert!(said.starts_with("ok\n") && said.matches("another process namespace").count() == 1, "{said}");
}

#[test]
fn sockets_of_every_kind_are_passed_to_a_program_that_is_not_accelerated() {
    const SENDER: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((sys.argv[1], 9001))
print('listening', flush=True)
first, _ = listener.accept()
over = socket.socket(socket.AF_UNIX)
over.connect(sys.argv[2])
socket.send_fds(over, [b'x'], [listener.fileno(), datagrams.fileno(), first.fileno()])
for passed in listener, datagrams, first: passed.close()
print('passed', flush=True)
sys.stdin.read()
"#;
    const RECEIVER: &str = r#"
import socket, sys
with socket.socket(socket.AF_UNIX) as waiting:
    waiting.bind(sys.argv[1])
    waiting.listen()
    print('waiting', flush=True)
    over, _ = waiting.accept()
_, fds, _, _ = socket.recv_fds(over, 1, 3)
listener, datagrams, first = [socket.socket(fileno=fd) for fd in fds]
print('received', flush=True)
c, _ = listener.accept()
c.sendall(c.recv(5))
data, sender = datagrams.recvfrom(100)
datagrams.sendto(data, sender)
first.sendall(first.recv(100))
"#;
    const CLIENT: &str = r#"
import os, socket, sys
first = socket.create_connection((sys.argv[1], 9000), timeout=20)
print('connected', flush=True)
while not os.path.exists(sys.argv[2]):
    pass
with socket.create_connection((sys.argv[1], 9000), timeout=20) as second:
    second.sendall(b'hello')
    assert second.recv(5) == b'hello'
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as third:
    third.settimeout(20)
    third.sendto(b'datagram', (sys.argv[1], 9001))
    assert third.recv(100) == b'datagram'
first.sendall(b'still there')
assert first.recv(100) == b'still there'
print('ok')
"#;
    let both = Both::new();
    let (address, directory) = (both.pair.b_v4(), both.b().directory());
    let (path, go) = (directory.join("passing"), directory.join("go"));
    let path = path.to_str().unwrap();
    let mut receiver = start(both.b(), false, &[python(), "-c", RECEIVER, path]);
    receiver.wait_for("waiting", TIMEOUT).unwrap();
    let mut sender = start(both.b(), true, &[python(), "-c", SENDER, &address, path]);
    wait_until_listening(both.b(), &mut sender, "tcp", 9000);
    let mut client = start(both.a(), true, &[python(), "-c", CLIENT, &address, go.to_str().unwrap()]);
    sender.wait_for("passed", TIMEOUT).unwrap();
    receiver.wait_for("received", TIMEOUT).unwrap();
    std::fs::write(&go, "").unwrap();
    let said = client.success(TIMEOUT);
    let said = said.unwrap_or_else(|e| panic!("{e:#}\nsender: {}\nreceiver: {}", sender.stderr(), receiver.stderr()));
    assert_eq!(said, "connected\nok\n");
    assert!(!sender.stderr().contains("EOPNOTSUPP"), "{}", sender.stderr());
    tools::until("the programs end", TIMEOUT, || !sender.is_running().unwrap() && !receiver.is_running().unwrap())
        .unwrap();
    assert!(sender.success(TIMEOUT).is_ok() && receiver.success(TIMEOUT).is_ok());
}

#[test]
fn a_child_gives_up_rights_and_keeps_its_sockets_and_one_born_without_them_is_told() {
    const CLIENT: &str = r#"
def give_up():
    os.chroot('/proc')
    os.chdir('/')
    os.setuid(65534)
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
one = connection()
def gives_up():
    give_up()
    talk(one)
in_child(gives_up)
talk(one)
give_up()
def is_born_without():
    try:
        talk(one)
    except ConnectionResetError:
        return
    assert False, 'the connection works'
in_child(is_born_without)
talk(one)
print('ok')
"#;
    let said = against_echo(&[python(), "-c", &format!("{TALK}{CLIENT}")], 5);
    assert!(said.starts_with("ok\n") && said.matches("before the fork").count() == 1, "{said}");
}

#[test]
fn a_connection_that_an_exec_closes_ends_in_order_where_another_goes_on() {
    const WATCH: &str = r#"
import socket, sys, threading
def watch(c):
    got = b''
    try:
        while d := c.recv(65536):
            got += d
        how = 'ended'
    except OSError as error:
        how = str(error)
    print(got[:1].decode(), len(got), how, flush=True)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    c, _ = listener.accept()
    threading.Thread(target=watch, args=(c,), daemon=True).start()
"#;
    const CLIENT: &str = r#"
import os, socket, sys
closes, stays = (socket.create_connection((sys.argv[1], 9000), timeout=20) for _ in range(2))
stays.set_inheritable(True)
closes.sendall(b'c' * 50000)
stays.sendall(b's' * 500)
then = 'import os, sys; open(sys.argv[1]).read(); os.write(int(sys.argv[2]), b"s" * 500)'
os.execv(sys.executable, [sys.executable, '-c', then, sys.argv[2], str(stays.fileno())])
"#;
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), true, &[python(), "-c", WATCH, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let fifo = both.a().directory().join("fifo").to_str().unwrap().to_owned();
    both.a().run(&["mkfifo", &fifo]).unwrap();
    let mut client = start(both.a(), true, &[python(), "-c", CLIENT, &address, &fifo]);
    server.wait_for("c 50000 ended\n", TIMEOUT).unwrap();
    std::fs::write(&fifo, "x").unwrap();
    server.wait_for("s 1000 ended\n", TIMEOUT).unwrap();
    client.success(TIMEOUT).unwrap();
    // Two handshakes, acknowledgements of 51,000 bytes, and two ends: if the program there is late,
    // one acknowledgement covers much.
    assert!(both.a_service.stat().unwrap().diverted() >= 6);
}

#[test]
fn sockets_on_the_kernel_are_shown_for_as_long_as_a_process_has_them() {
    // Connections to the host's own address stay on the kernel.
    const PROGRAM: &str = r#"
import os, socket, subprocess, sys
def say(word):
    print(word, flush=True)
    sys.stdin.readline()
address = (sys.argv[1], 9000)
listener = socket.create_server(address)
client = socket.create_connection(address)
server, _ = listener.accept()
client.sendall(b'abc')
subprocess.run(['true'])
say('both')
(closed, close) = os.pipe()
if os.fork() == 0:
    client.close()
    os.write(close, b'x')
    sys.stdin.readline()
    os._exit(0)
os.read(closed, 1)
server.close()
print('parted', flush=True)
os.wait()
say('alone')
listener.set_inheritable(True)
client.set_inheritable(True)
os.execv(sys.executable, ['python', '-c', "import sys; print('another', flush=True); sys.stdin.readline()"])
"#;
    let both = Both::new();
    let fifo = both.a().directory().join("go");
    both.a().run(&["mkfifo", fifo.to_str().unwrap()]).unwrap();
    let script = format!("exec 0<>{}; exec \"$@\"", fifo.display());
    let command = ["bash", "-c", &script, "bash", python(), "-c", PROGRAM, &both.pair.a_v4()];
    let mut program = start(both.a(), true, &command);
    let go_on = || std::fs::write(&fifo, "\n").unwrap();
    let shown = || {
        let stat = both.a_service.stat().unwrap();
        let lanes = stat.json["lanes"].as_array().unwrap();
        let sockets = lanes.iter().flat_map(|lane| lane["sockets"].as_array().unwrap());
        let on_kernel = sockets.filter(|socket| socket["accelerated"] == false);
        let mut on_kernel: Vec<_> =
            on_kernel.map(|s| (s["state"].as_str().unwrap().to_owned(), s["rx_queue"].as_u64())).collect();
        on_kernel.sort();
        on_kernel
    };
    let socket = |state: &str, waits| (state.to_owned(), Some(waits));
    program.wait_for("both", TIMEOUT).unwrap();
    assert_eq!(shown(), [socket("ESTAB", 0), socket("ESTAB", 3)], "a child of its has closed all that it inherited");
    go_on();
    program.wait_for("parted", TIMEOUT).unwrap();
    assert_eq!(shown().len(), 2, "one is the parent's, one the child's");
    go_on();
    program.wait_for("alone", TIMEOUT).unwrap();
    tools::until("the child's is gone", TIMEOUT, || shown().len() == 1).unwrap();
    go_on();
    program.wait_for("another", TIMEOUT).unwrap();
    assert_eq!(shown().len(), 1, "another program has it now");
}
