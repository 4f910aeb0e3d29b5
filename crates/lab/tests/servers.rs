//! How real servers are built: pre-forked, forking for each connection, threaded, on epoll, started by exec.

mod common;

use common::{Both, PATIENCE, bound, crossing, python, start};

/// Serves `handle(connection)`; the frame around it is what differs.
const PREFORK: &str = r#"
import os, socket, sys
listener = socket.create_server((sys.argv[1], 9000))
for _ in range(3):
    if os.fork() == 0:
        while True:
            connection, _ = listener.accept()
            handle(connection)
os.wait()
"#;

const FORK_EACH: &str = r#"
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        listener.close()
        handle(connection)
        os._exit(0)
    connection.close()
"#;

const THREADS: &str = r#"
import socket, sys, threading
listener = socket.create_server((sys.argv[1], 9000))
while True:
    connection, _ = listener.accept()
    threading.Thread(target=handle, args=(connection,), daemon=True).start()
"#;

const ASYNC: &str = r#"
import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, sys.argv[1], 9000)
    await server.serve_forever()
asyncio.run(main())
"#;

/// The connection is inherited over exec, as inetd does it.
const EXEC_EACH: &str = r#"
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        os.execv('/bin/cat', ['cat'])
    connection.close()
"#;

/// Echoes until the peer has finished.
const HANDLE: &str = r"
def handle(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
";

/// Several connections at once; on each, data goes there and comes back, and the end of it is seen.
const CLIENT: &str = r#"
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

fn echoes(server: &str) {
    let both = Both::new();
    let address = both.pair.b_v4();
    let script = format!("{HANDLE}{server}");
    let mut serving = start(both.b(), true, &[python(), "-c", &script, &address]);
    bound(both.b(), &mut serving, "tcp", 9000);
    for accelerated in [true, false] {
        let mut client = start(both.a(), accelerated, &[python(), "-c", CLIENT, &address]);
        let printed = crossing(&both.b_service, 100, || client.success(PATIENCE));
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}", serving.stderr()));
        assert_eq!(printed, "all came back\n");
    }
    assert!(serving.is_running().unwrap(), "{}", serving.stderr());
}

#[test]
fn a_pre_forking_server_accepts_in_all_its_children() {
    echoes(PREFORK);
}

#[test]
fn a_server_that_forks_for_each_connection_closes_its_own_copy() {
    echoes(FORK_EACH);
}

#[test]
fn a_threaded_server_serves_each_connection_in_a_thread() {
    echoes(THREADS);
}

#[test]
fn an_asynchronous_server_waits_with_epoll() {
    echoes(ASYNC);
}

#[test]
fn a_connection_is_inherited_by_the_program_that_is_executed() {
    echoes(EXEC_EACH);
}
