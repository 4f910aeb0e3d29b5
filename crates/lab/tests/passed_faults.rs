//! A connection is handed over to the kernel while system calls fail one after the other, first
//! those of the service and then those of the program. In each case the connection continues in one
//! of the two stacks, byte for byte, or both ends get an error. It never ends as if all data had
//! arrived.

mod common;

use common::{Both, crossing, python, start, wait_until_listening};
use std::time::Duration;
use tickwire_lab::tools;

/// Sends the requested data, then echoes each line in capitals.
const PEER: &str = r#"
import socket, sys, threading
def serve(c):
    lines = 0
    try:
        f = c.makefile('rb')
        c.sendall(bytes(i % 251 for i in range(int(f.readline()))))
        while line := f.readline():
            c.sendall(line.upper())
            lines += 1
        print('end after', lines, flush=True)
    except OSError as error:
        print('error', error, flush=True)
    c.close()
listener = socket.create_server((sys.argv[1], 9000), backlog=64)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// For each line that it reads, passes a connection with data in all its queues to itself, and
/// prints the outcome.
const PASSES: &str = r#"
import errno, socket, sys, threading
TOLD, LINES = 200000, b''.join(b'%07d' % n + b'x' * 992 + b'\n' for n in range(300))
def whole():
    s = socket.create_connection((sys.argv[1], 9000), timeout=10)
    s.sendall(b'%d\n' % TOLD)
    got, sent = b'', 0
    while len(got) < 50000: got += s.recv(50000 - len(got))
    s.setblocking(False)
    try:
        while sent < len(LINES): sent += s.send(LINES[sent:sent + 50000])
    except BlockingIOError:
        pass
    ours, theirs = socket.socketpair()
    try:
        socket.send_fds(ours, [b'x'], [s.fileno()])
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        how, c = 'passed', socket.socket(fileno=fds[0])
        s.close()
    except OSError as error:
        # EOPNOTSUPP, or one of Python's own calls that the test made fail.
        how, c = 'stayed', s
    c.settimeout(10)
    # The first affected call reports a reset, as on Linux; after that the stream has simply ended.
    over, errors = (errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ENOTCONN), []
    def told(call):
        try:
            call()
        except OSError as error:
            errors.append('timeout' if isinstance(error, TimeoutError) else error.errno)
    def send():
        c.sendall(LINES[sent:])
        c.shutdown(socket.SHUT_WR)
    def receive():
        nonlocal got
        while d := c.recv(65536): got += d
    t = threading.Thread(target=told, args=(send,))
    t.start()
    told(receive)
    t.join()
    c.close()
    if errors: how = 'reset' if all(error in over for error in errors) else 'odd: %s' % errors
    wanted = bytes(i % 251 for i in range(TOLD)) + LINES.upper()
    if not wanted.startswith(got) or how in ('passed', 'stayed') and got != wanted:
        return '%s, wrong bytes: %d of %d' % (how, len(got), len(wanted))
    return how
for _ in sys.stdin:
    try:
        told = whole()
    except OSError as error:
        # Before the connection exists: a call of the program has failed.
        told = 'never: %s' % error
    print(told, flush=True)
"#;

/// Makes the n-th call of each kind fail, for every n, in the service or in the program, and prints
/// the outcome for the connection each time.
const FAULTS: &str = r#"
import os, re, signal, subprocess, sys, time
whose, service, tickwire, address, socket_name, directory = sys.argv[1:7]
calls = sys.argv[7:]
environment = dict(os.environ, TICKWIRE_SOCKET=socket_name)
def begin():
    return subprocess.Popen([tickwire, 'run', sys.executable, '-c', PASSES, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
def passes():
    program.stdin.write('\n')
    program.stdin.flush()
    return program.stdout.readline().strip()
program = begin()
assert passes() == 'passed'
for call in calls:
    for n in range(1, 100):
        trace = os.path.join(directory, 'trace')
        victim = service if whose == 'service' else str(program.pid)
        strace = subprocess.Popen(['strace', '-f', '-p', victim, '-o', trace, '-e', 'trace=' + call, '-e', 'inject=%s:error=ENOMEM:when=%d' % (call, n)],
            stderr=subprocess.PIPE, text=True)
        line = strace.stderr.readline()
        assert 'attached' in line, line
        told = passes()
        strace.send_signal(signal.SIGINT)
        strace.wait(10)
        failed = [l for l in open(trace) if '(INJECTED)' in l]
        print(call, n, told, '; '.join(re.sub(r'^[0-9 ]*', '', l).strip() for l in failed)[:200], flush=True)
        if told == 'passed' and not failed: break
        assert n < 99, 'the calls do not end'
        if told not in ('passed', 'stayed'):
            # Its lane may be gone, too.
            program.stdin.close()
            program.wait(10)
            program = begin()
        assert passes() == 'passed', 'the next one'
program.stdin.close()
print('done', flush=True)
"#;

/// Runs it, and returns its output.
fn with_faults(whose: &str, calls: &[&str]) -> String {
    let mut both = Both::new();
    let address = both.pair.a_v4();
    let mut peer = start(both.a(), false, &[python(), "-c", PEER, &address]);
    wait_until_listening(both.a(), &mut peer, "tcp", 9000);
    let script = format!("PASSES = r'''{PASSES}'''\n{FAULTS}");
    let (service, tickwire) = (both.b_service.process().id().to_string(), tools::tickwire().unwrap());
    let (socket, directory) = (both.b().socket(), both.b().directory().to_path_buf());
    let [tickwire, socket, directory] = [&tickwire, &socket, &directory].map(|path| path.to_str().unwrap());
    let fixed = [python(), "-c", &script, whose, &service, tickwire, &address, socket, directory];
    let log = crossing(&both.b_service, 1000, || {
        let mut faults = start(both.b(), false, &[&fixed, calls].concat());
        let told = faults.success(Duration::from_secs(240));
        told.unwrap_or_else(|error| panic!("{error}\nso far:\n{}\n{}", faults.stdout(), faults.stderr()))
    });
    println!("{log}");
    assert!(both.b_service.process().is_running().unwrap(), "the service lives on");
    // To the peer no truncated stream ends like a complete one. (A peer without an error waits.)
    let whole = peer.stdout().lines().filter(|line| *line == "end after 300").count();
    let ends = peer.stdout().lines().filter(|line| line.starts_with("end after")).count();
    let kept = log.lines().filter(|line| matches!(line.split(' ').nth(2), Some("passed" | "stayed"))).count();
    assert_eq!(whole, ends, "{}", peer.stdout());
    assert!(whole > kept, "{whole} streams were whole, and {kept} kept beside those that nothing failed");
    log
}

/// Number of connections with this outcome that were passed while a call failed.
fn count(log: &str, outcome: &str) -> usize {
    log.lines()
        .filter(|line| line.split(' ').nth(2).is_some_and(|told| told == outcome) && line.contains("INJECTED"))
        .count()
}

#[test]
fn whatever_call_of_the_service_fails_no_byte_is_lost_or_doubled() {
    let calls = ["socket", "setsockopt", "getsockopt", "bind", "connect", "sendto", "pread64", "fcntl", "bpf"];
    let log = with_faults("service", &calls);
    assert!(log.ends_with("done\n"), "{log}");
    assert!(!log.contains("odd") && !log.contains("wrong bytes") && !log.contains("never"), "{log}");
    assert!(count(&log, "stayed") > 15, "what fails before the kernel has it leaves it where it is: {log}");
    // When leaving repair mode fails, and when unsent data, if any, is refused: how much there is
    // depends on the peer's progress.
    let resets: Vec<_> = log.lines().filter(|line| line.split(' ').nth(2) == Some("reset")).collect();
    assert!(resets.iter().any(|line| line.contains("TCP_REPAIR, [0]")), "{log}");
    let writes = resets.iter().filter(|line| line.starts_with("sendto")).count();
    assert!(writes <= 4 && resets.len() == writes + 1, "{log}");
}

#[test]
fn whatever_call_of_the_program_fails_no_byte_is_lost_or_doubled() {
    let calls = ["memfd_create", "pwrite64", "dup3", "setsockopt", "getsockopt", "recvmsg"];
    let log = with_faults("program", &calls);
    assert!(log.ends_with("done\n"), "{log}");
    assert!(!log.contains("odd") && !log.contains("wrong bytes"), "{log}");
    assert!(count(&log, "stayed") > 2, "{log}");
    // When the descriptor is not replaced, and when the service's answer is not read.
    assert!((2..=6).contains(&count(&log, "reset")), "{log}");
}
