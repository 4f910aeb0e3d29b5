//! Programs and services that die, stop, come back or are not there.

mod common;

use common::{Both, PATIENCE, bound, crossing, python, start};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use tickwire_lab::{Pair, Process, Service, tools};

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

const ECHO_SERVER: &str = r#"
import socket, sys, threading
listener = socket.create_server((sys.argv[1], 9000))
def serve(c):
    while d := c.recv(65536): c.sendall(d)
    c.close()
while True:
    c, _ = listener.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
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
