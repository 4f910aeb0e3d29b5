//! Languages with an event loop of their own, which use sockets differently from a C program. Each
//! is accelerated against a peer on the kernel, the other way round, and at both ends.

mod common;

use common::{Both, TIMEOUT, compiled, either_side, python, start, vouched, wait_until_listening};
use std::path::Path;

/// The same program is the server (`serve`) and the client (`ask`); its arguments are address and
/// port. The client reports when all data was echoed correctly.
fn talks(both: &Both, command: &[&str], server_more: &[&str], client_more: &[&str]) {
    let address = both.pair.b_v4();
    either_side(both, 150, |server, client, port| {
        let port_text = port.to_string();
        let role = |role| [command, &[role, &address, &port_text]].concat();
        let mut serving = start(both.b(), server, &[&role("serve")[..], server_more].concat());
        wait_until_listening(both.b(), &mut serving, "tcp", port);
        let printed = start(both.a(), client, &[&role("ask")[..], client_more].concat()).success(TIMEOUT);
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}{}", serving.stdout(), serving.stderr()));
        assert_eq!(printed, "all came back\n");
        assert!(serving.is_running().unwrap(), "{}", serving.stderr());
        serving.kill();
    });
}

/// A C client reports that it has closed its sockets, and stays alive. The Python server on the
/// kernel has seen the closes once it prints `seen`.
fn closes(client: &str, server: &str, seen: &str) {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", server, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let mut client = start(both.a(), true, &[&compiled(both.a(), client), &address]);
    client.wait_for("closed", TIMEOUT).unwrap();
    assert_eq!(server.success(TIMEOUT).unwrap(), seen);
    assert!(client.is_running().unwrap());
}

fn source(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes").join(name).to_str().unwrap().to_owned()
}

#[test]
fn pythons_asyncio_speaks_tls() {
    let both = Both::new();
    let trusted = vouched(&both.pair);
    let path = |name: &str| both.b().directory().join(name).to_str().unwrap().to_owned();
    let keys = [path("certificate.pem"), path("key.pem")];
    let more: Vec<_> = keys.iter().map(String::as_str).collect();
    talks(&both, &[python(), &source("tls.py")], &more, &[&trusted]);
}

#[test]
fn javas_selectors_and_blocking_sockets_work() {
    let both = Both::new();
    // Small and quick to start, because the program runs only for seconds.
    let java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"];
    talks(&both, &[&java[..], &[&source("Echo.java")]].concat(), &[], &[]);
}

#[test]
fn nodes_event_loop_keeps_many_connections_busy() {
    let both = Both::new();
    talks(&both, &["node", &source("many.js")], &[], &[]);
}

/// libuv may pass epoll registrations to the kernel by io_uring, bypassing all functions of the C
/// library.
#[test]
fn nodes_event_loop_does_without_rings() {
    let both = Both::new();
    talks(&both, &["env", "UV_USE_IO_URING=1", "node", &source("many.js")], &[], &[]);
}

/// Older filters of system calls, including those of containers, do not know `close_range`.
#[test]
fn closefrom_closes_sockets_where_close_range_is_refused() {
    const CLIENT: &str = r#"#define _GNU_SOURCE
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
int main(int count, char **arguments) {
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    struct sockaddr_in to = {AF_INET, htons(9000), {inet_addr(arguments[1])}, {0}};
    int sockets[2];
    for (int n = 0; n < 2; n++) {
        sockets[n] = socket(AF_INET, SOCK_STREAM, 0);
        assert(connect(sockets[n], (void *)&to, sizeof to) == 0);
        assert(write(sockets[n], "x", 1) == 1);
    }
    assert(sockets[0] < sockets[1]);
    assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    assert(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0);
    assert(close_range(sockets[1], ~0U, 0) == -1 && errno == ENOSYS);
    assert(write(sockets[1], "x", 1) == 1);
    closefrom(sockets[1]);
    assert(fcntl(sockets[1], F_GETFD) == -1 && errno == EBADF);
    assert(write(sockets[0], "y", 1) == 1);
    puts("closed");
    fflush(stdout);
    pause();
}
"#;
    const SERVER: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000))
first, second = [listener.accept()[0] for _ in range(2)]
while second.recv(10): pass
print(first.recv(1), first.recv(1), flush=True)
"#;
    closes(CLIENT, SERVER, "b'x' b'y'\n");
}

/// System calls that runtimes make without the C library's wrappers, by its `syscall`.
#[test]
fn direct_system_calls_close_sockets_and_open_no_rings() {
    const CLIENT: &str = r#"#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments) {
    struct sockaddr_in to = {AF_INET, htons(9000), {inet_addr(arguments[1])}, {0}};
    int sockets[2];
    for (int n = 0; n < 2; n++) {
        sockets[n] = socket(AF_INET, SOCK_STREAM, 0);
        assert(connect(sockets[n], (void *)&to, sizeof to) == 0);
        assert(write(sockets[n], "x", 1) == 1);
    }
    assert(syscall(SYS_close, sockets[0]) == 0);
    assert(syscall(SYS_close, sockets[0]) == -1 && errno == EBADF);
    assert(syscall(SYS_close_range, sockets[1], sockets[1], 0) == 0);
    char room[200] = {0};
    assert(syscall(SYS_io_uring_setup, 8, room) == -1 && errno == ENOSYS);
    assert(syscall(SYS_getpid) == getpid());
    puts("closed");
    fflush(stdout);
    pause();
}
"#;
    const SERVER: &str = r#"
import socket, sys
listener = socket.create_server((sys.argv[1], 9000))
for connection, _ in [listener.accept(), listener.accept()]:
    while connection.recv(10): pass
    print('ended', flush=True)
"#;
    closes(CLIENT, SERVER, "ended\nended\n");
}
