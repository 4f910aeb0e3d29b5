//! Many threads and processes that wait on one lane: each is woken for its own packets, and rarely
//! for those of others.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};

/// Echoes. A "!" is sent to every connection.
const SERVER: &str = r#"
import asyncio, socket, sys
writers = set()
async def serve(reader, writer):
    writers.add(writer)
    writer.get_extra_info('socket').setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := await reader.read(100):
        for to in writers if data == b'!' else [writer]:
            to.write(data)
    writers.discard(writer)
async def main():
    server = await asyncio.start_server(serve, sys.argv[1], 9000, backlog=1024)
    await server.serve_forever()
asyncio.run(main())
"#;

const COMMON: &str = r#"
import os, socket, sys, threading, time
TRIPS = 500
def connect():
    s = socket.create_connection((sys.argv[1], 9000), timeout=20)
    s.settimeout(None)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A server with a full queue accepts only a second later.
    s.sendall(b'x')
    assert s.recv(1) == b'x'
    return s
def status(path):
    with open(path + '/status') as f:
        return {name: value.strip() for name, _, value in (line.partition(':') for line in f)}
def until_they_sleep(paths):
    while not all(status(path)['State'].startswith('S') for path in paths):
        time.sleep(0.05)
    time.sleep(0.2)
def switches(paths):
    return sum(int(status(path)['voluntary_ctxt_switches']) for path in paths)
def exchange(paths):
    """How often others woke up for each trip."""
    with connect() as s:
        s.sendall(b'x')
        assert s.recv(1) == b'x'
        until_they_sleep(paths)
        before = switches(paths)
        for _ in range(TRIPS):
            s.sendall(b'x')
            assert s.recv(1) == b'x'
        woken = (switches(paths) - before) / TRIPS
        s.sendall(b'!')
        assert s.recv(1) == b'!'
    print('others woke up', woken, 'times a trip', flush=True)
    assert woken < 3, woken
"#;

const THREADS: &str = r#"
threading.stack_size(256 << 10)
got, ids = [], []
def idle():
    s = connect()
    if sys.argv[2] == 'fifo':
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(10))
    ids.append(threading.get_native_id())
    got.append(s.recv(1))
threads = [threading.Thread(target=idle, daemon=True) for _ in range(int(sys.argv[3]))]
[t.start() for t in threads]
while len(ids) < len(threads):
    time.sleep(0.05)
if sys.argv[2] == 'fifo':
    os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(20))
exchange([f'/proc/self/task/{id}' for id in ids])
[t.join() for t in threads]
assert got == [b'!'] * len(threads), got
print('all woke up')
"#;

const PROCESSES: &str = r#"
# A lane from the beginning, so that all of them use it.
first = connect()
children = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        first.close()
        os._exit(0 if connect().recv(1) == b'!' else 1)
    children.append(child)
time.sleep(1)
exchange([f'/proc/{child}' for child in children])
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
assert first.recv(1) == b'!'
print('all woke up')
"#;

/// Runs a program on host a against a server on host b's kernel.
fn all_wake_up(program: &str, arguments: &[&str], packets: u64) {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let program = format!("{COMMON}{program}");
    let command = [&[python(), "-c", &program, &address], arguments].concat();
    let ended = crossing(&both.a_service, packets, || start(both.a(), true, &command).wait(TIMEOUT).unwrap());
    println!("{}", ended.stdout);
    assert!(ended.status.success() && ended.stdout.ends_with("all woke up\n"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn hundreds_of_threads_sleep_on_while_one_exchanges_messages_and_all_are_woken_for_their_own() {
    all_wake_up(THREADS, &["other", "300"], 1000);
}

#[test]
fn real_time_threads_sleep_on_while_one_of_them_exchanges_messages() {
    all_wake_up(THREADS, &["fifo", "32"], 500);
}

#[test]
fn processes_of_a_lane_sleep_on_while_one_exchanges_messages_and_all_are_woken_for_their_own() {
    all_wake_up(PROCESSES, &["40"], 500);
}
