//! Threads, children and signals of programs, at awkward moments for the preloaded library.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};

/// Sends a datagram to each of several ports, until all have answered.
const ASKS: &str = r#"
import socket, sys
address, ports = sys.argv[1], int(sys.argv[2])
for port in range(9000, 9000 + ports):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.sendto(b'question', (address, port))
    assert s.recv(100) == b'answer'
print('answered')
"#;

/// Runs a server on b with UDP ports 9000 and up, and sends to each; at least `packets` packets
/// must cross b's lanes.
fn asked(both: &Both, script: &str, ports: u16, packets: u64) {
    let mut server = start(both.b(), true, &[python(), "-c", script, &both.pair.b_v4()]);
    for port in 9000..9000 + ports {
        wait_until_listening(both.b(), &mut server, "udp", port);
    }
    crossing(&both.b_service, packets, || {
        let ports = ports.to_string();
        let mut client = start(both.a(), false, &[python(), "-c", ASKS, &both.pair.b_v4(), &ports]);
        assert_eq!(client.success(TIMEOUT).unwrap(), "answered\n");
    });
    server.success(TIMEOUT).unwrap();
}

#[test]
fn threads_that_open_their_first_sockets_at_once_all_get_the_lane() {
    let both = Both::new();
    let script = r#"
import socket, sys, threading
together = threading.Barrier(6)
def serve(port):
    together.wait()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], port))
    s.sendto(b'answer', s.recvfrom(100)[1])
threads = [threading.Thread(target=serve, args=(port,)) for port in range(9000, 9006)]
for t in threads: t.start()
for t in threads: t.join()
"#;
    asked(&both, script, 6, 6);
}

#[test]
fn children_of_a_program_whose_sockets_are_all_closed_have_lanes_of_their_own() {
    let both = Both::new();
    // The first child ends before the second has answered: neither may affect the other's sockets.
    let script = r#"
import os, socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
def serve(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], port))
    s.sendto(b'answer', s.recvfrom(100)[1])
    os._exit(0)
children = []
for port in range(9000, 9003):
    child = os.fork()
    if child == 0: serve(port)
    children.append(child)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 9003))
s.sendto(b'answer', s.recvfrom(100)[1])
for child in children: assert os.waitpid(child, 0)[1] == 0
"#;
    asked(&both, script, 4, 4);
}

#[test]
fn a_thread_that_sleeps_in_an_instance_serves_the_socket_that_another_adds_by_a_duplicate() {
    let both = Both::new();
    // Like tokio: a worker waits on the epoll instance before any socket exists, and sockets are
    // registered through a duplicate.
    let script = r#"
import os, select, socket, sys, threading, time
ep = select.epoll()
copy = select.epoll.fromfd(os.dup(ep.fileno()))
sockets = {}
def work():
    for _ in range(3):
        for fd, _ in ep.poll():
            s = sockets[fd]
            data, peer = s.recvfrom(100)
            s.sendto(b'answer', peer)
worker = threading.Thread(target=work)
worker.start()
time.sleep(0.2)
for port in range(9000, 9003):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], port))
    sockets[s.fileno()] = s
    copy.register(s, select.EPOLLIN | select.EPOLLET)
worker.join()
"#;
    asked(&both, script, 3, 3);
}
