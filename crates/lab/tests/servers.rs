//! Common server designs: pre-forked, forking for each connection, threaded, on epoll, started by
//! exec.

mod common;

use common::{Both, TIMEOUT, crossing_ends, python, start, wait_until_listening};

/// Serves with `handle(connection)`; the servers differ in the code around it.
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

/// The connection is inherited across exec, as with inetd.
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

/// The connection is given to a program that `posix_spawn` starts, without an environment.
const SPAWN_EACH: &str = r#"
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], 9000))
while True:
    connection, _ = listener.accept()
    given = [(os.POSIX_SPAWN_DUP2, connection.fileno(), n) for n in (0, 1)]
    os.posix_spawn('/bin/cat', ['cat'], {}, file_actions=given)
    connection.close()
"#;

/// The usual ways of starting a program that inherits descriptors: by vfork and exec, and by
/// `posix_spawn` without file actions.
const SUBPROCESS_EACH: &str = r#"
import os, signal, socket, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], 9000))
echo = 'import socket, sys; c = socket.socket(fileno=int(sys.argv[1]))\nwhile d := c.recv(65536): c.sendall(d)'
for n in range(10**9):
    connection, _ = listener.accept()
    if n % 2:
        subprocess.Popen(['/bin/cat'], stdin=connection, stdout=connection, close_fds=False)
    else:
        connection.set_inheritable(True)
        os.posix_spawn(sys.executable, [sys.executable, '-c', echo, str(connection.fileno())], os.environ)
    connection.close()
"#;

/// Echoes until the peer has finished.
const HANDLE: &str = r"
def handle(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
";

fn echoes(server: &str) {
    let both = Both::new();
    let script = format!("{HANDLE}{server}");
    common::echoes(&both, &[python(), "-c", &script, &both.pair.b_v4()]);
}

/// Answers each request with its process number.
const NAMED: &str = r"
def handle(connection):
    while connection.recv(100):
        connection.sendall(b'%d' % os.getpid())
    connection.close()
";

/// As many concurrent connections as children. A child serves one at a time, so each must have been
/// accepted by another child.
const ASK_ALL: &str = r"
import socket, sys
for _ in range(3):
    connections = [socket.create_connection((sys.argv[1], 9000), timeout=20) for _ in range(3)]
    for connection in connections: connection.sendall(b'who')
    children = {connection.recv(100) for connection in connections}
    assert len(children) == 3 and all(children), children
    for connection in connections: connection.close()
print(*sorted(int(child) for child in children))
";

#[test]
fn a_pre_forking_server_accepts_in_all_its_children() {
    echoes(PREFORK);
    let both = Both::new();
    let (script, address) = (format!("{NAMED}{PREFORK}"), both.pair.b_v4());
    let mut server = start(both.b(), true, &[python(), "-c", &script, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let ask = |accelerated| {
        // Nine connections, each opened, asked and closed.
        crossing_ends(&both, true, accelerated, 9 * 3, || {
            let printed = start(both.a(), accelerated, &[python(), "-c", ASK_ALL, &address]).success(TIMEOUT);
            printed.unwrap_or_else(|error| panic!("{error:#}\nserver: {}", server.stderr()))
        })
    };
    assert_eq!(ask(true), ask(false), "the same children");
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

#[test]
fn a_connection_is_inherited_by_a_program_that_is_spawned() {
    echoes(SPAWN_EACH);
}

#[test]
fn a_connection_is_inherited_by_a_subprocess() {
    echoes(SUBPROCESS_EACH);
}
