//! How real servers are built: pre-forked, forking for each connection, threaded, on epoll, started by exec.

mod common;

use common::{Both, python, sockets_outlive_exec};

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

/// As a program is started that inherits descriptors: by vfork and exec, and by `posix_spawn` without file actions.
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
    if !sockets_outlive_exec() {
        return;
    }
    echoes(EXEC_EACH);
}

#[test]
fn a_connection_is_inherited_by_a_program_that_is_spawned() {
    if !sockets_outlive_exec() {
        return;
    }
    echoes(SPAWN_EACH);
}

#[test]
fn a_connection_is_inherited_by_a_subprocess() {
    if !sockets_outlive_exec() {
        return;
    }
    echoes(SUBPROCESS_EACH);
}
