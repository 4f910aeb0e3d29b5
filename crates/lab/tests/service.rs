//! Services that are absent, hang, stop, die or come back, and how their programs react.

mod common;

use common::{
    Both, ECHO_SERVER, GROUP, HEAR, TELL, TIMEOUT, WAITING_CLIENT, crossing, python, server, start,
    wait_until_listening, willing,
};
use nix::sys::signal::Signal;
use std::time::Duration;
use tickwire_lab::{CableOptions, LabPair, Service, ServiceOptions, tools};

#[test]
fn without_a_service_programs_run_on_the_kernel_unless_they_require_it() {
    let pair = LabPair::new().unwrap();
    let tickwire = tools::tickwire().unwrap();
    let script = format!(
        "import socket; s = socket.socket(); s.bind(('{}', 9000)); s.listen(); print('listening')",
        pair.a_v4()
    );
    let run = |more: &[&str]| {
        let command = [&[tickwire.to_str().unwrap(), "run"], more, &["--", python(), "-c", &script]].concat();
        pair.a.spawn(&command).unwrap().wait(TIMEOUT).unwrap()
    };
    let ended = run(&[]);
    assert_eq!(ended.stdout, "listening\n");
    assert_eq!(ended.stderr.lines().count(), 1, "one line says why: {}", ended.stderr);
    assert!(ended.stderr.contains("no service at"), "{}", ended.stderr);
    let ended = run(&["--require"]);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(69), ""));
}

#[test]
fn a_program_that_requires_a_lane_and_is_refused_one_is_ended_and_one_line_names_it_and_says_why() {
    let pair = LabPair::new().unwrap();
    let options = ServiceOptions { config: "[limits]\nlanes = 1\n".into(), ..ServiceOptions::default() };
    let _service = Service::start_with(&pair.a, &options).unwrap();
    let holds = "import socket, time; s = socket.socket(); print('made', flush=True); time.sleep(100)";
    let mut holder = start(&pair.a, true, &[python(), "-c", holds]);
    holder.wait_for("made", TIMEOUT).unwrap();
    let mut refused = start(&pair.a, true, &[python(), "-c", "import socket; socket.socket(); print('made')"]);
    let ended = refused.wait(TIMEOUT).unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(69), ""));
    let said = "tickwire: python3 was ended at its first socket, because --require was given: all lanes are taken";
    assert!(ended.stderr.starts_with(said), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_service_that_is_stuck_is_called_so_and_a_program_goes_on_without_it() {
    const STUCK: &str = "import socket, sys, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); \
        s.bind(sys.argv[1]); s.listen(); print('listening', flush=True); time.sleep(100)";
    let pair = LabPair::new().unwrap();
    let (tickwire, socket) = (tools::tickwire().unwrap(), pair.a.socket());
    let mut stuck = start(&pair.a, false, &[python(), "-c", STUCK, socket.to_str().unwrap()]);
    stuck.wait_for("listening", TIMEOUT).unwrap();
    let script = "import socket; socket.socket(); socket.socket(); print('made')";
    let command = [tickwire.to_str().unwrap(), "run", "--", python(), "-c", script];
    let ended = pair.a.spawn(&command).unwrap().wait(TIMEOUT).unwrap();
    assert_eq!(ended.stdout, "made\n");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("the service does not answer"), "{}", ended.stderr);
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
        start(&client_host, false, &[python(), "-c", &script, &address]).success(TIMEOUT).unwrap()
    };
    // Not with --require, which would end the program at its first socket without a service.
    let tickwire = tools::tickwire().unwrap();
    let mut server =
        start(both.b(), false, &[tickwire.to_str().unwrap(), "run", python(), "-c", NEW_SOCKETS, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    assert_eq!(crossing(&both.b_service, 3, || talk(9000)), "end\n");

    assert!(both.b_service.stop().unwrap().status.success());
    for port in 9001..9004 {
        wait_until_listening(both.b(), &mut server, "tcp", port);
        assert_eq!(talk(port), "end\n");
    }

    both.b_service = Service::start(&both.pair.b).unwrap();
    let mut port = 9004;
    tools::until("new sockets are on the fast path again", TIMEOUT, || {
        wait_until_listening(both.b(), &mut server, "tcp", port);
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
    let _ = both.b_service.process().wait(TIMEOUT).unwrap();
    let lanes = || {
        let links = both.pair.b.run(&["ip", "-o", "link"]).unwrap();
        let names = links.lines().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
        names.filter(|name| name.starts_with("tw")).collect::<Vec<_>>()
    };
    let left = lanes();
    assert!(!left.is_empty(), "the program still has its lane's device");
    both.b_service = Service::start(&both.pair.b).unwrap();
    second.kill();
    // The next service keeps ready lanes of its own.
    tools::until("the leftovers are gone", TIMEOUT, || !lanes().iter().any(|name| left.contains(name))).unwrap();
}

#[test]
fn a_member_of_a_group_goes_on_hearing_it_when_the_service_is_killed() {
    let mut both = Both::new();
    let (own, other) = (both.pair.a_v4(), both.pair.b_v4());
    let mut hearer = willing(both.a(), &[python(), "-c", HEAR, GROUP, &own, "any"]);
    hearer.wait_for("joined", TIMEOUT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let teller = both.pair.b.clone();
    let tell =
        |name: &str| start(&teller, false, &[python(), "-c", TELL, GROUP, &other, name, "0"]).success(TIMEOUT).unwrap();
    tell("by the lane");
    hearer.wait_for("by the lane 4;", TIMEOUT).unwrap();
    assert_eq!(both.a_service.stat().unwrap().number("/host/counters/group_copies"), 5);
    both.a_service.process().signal(Signal::SIGKILL).unwrap();
    let _ = both.a_service.process().wait(TIMEOUT).unwrap();
    tools::until("the program has noticed", TIMEOUT, || hearer.stderr().contains("the lane has ended")).unwrap();
    assert!(hearer.stderr().contains("the connection to the service was lost"), "{}", hearer.stderr());
    tell("by the kernel");
    hearer.wait_for("by the kernel 4;", TIMEOUT).unwrap();
    assert_eq!(hearer.stdout().lines().count(), 11, "each once: {}", hearer.stdout());
}

/// Makes a socket now and then, and prints when the outcome changes.
const TRY: &str = r#"
import errno, socket, time
before = None
while True:
    try:
        socket.socket().close()
        now = 'made'
    except OSError as error:
        now = errno.errorcode[error.errno]
    if now != before:
        print(now, flush=True)
        before = now
    time.sleep(0.05)
"#;

#[test]
fn a_program_that_requires_acceleration_gets_errors_without_the_service_and_lives_on() {
    let mut both = Both::new();
    let mut program = start(both.a(), true, &[python(), "-c", TRY]);
    program.wait_for("made", TIMEOUT).unwrap();
    assert!(both.a_service.stop().unwrap().status.success());
    program.wait_for("ENETDOWN", TIMEOUT).unwrap();
    assert!(program.stderr().contains("new sockets fail (--require)"), "{}", program.stderr());
    both.a_service = Service::start(&both.pair.a).unwrap();
    tools::until("sockets can be made again", TIMEOUT, || program.stdout() == "made\nENETDOWN\nmade\n").unwrap();
    assert_eq!(both.a_service.stat().unwrap().lanes_of(program.id()).len(), 1);
}

#[test]
fn established_connections_end_with_an_error_when_the_service_is_killed() {
    let mut both = Both::new();
    let mut server = server(&both);
    let mut client = willing(both.a(), &[python(), "-c", WAITING_CLIENT, &both.pair.b_v4()]);
    client.wait_for("connected", TIMEOUT).unwrap();
    let stat = both.a_service.stat().unwrap();
    assert!(stat.diverted() > 1, "it crossed the stack");
    both.a_service.process().signal(Signal::SIGKILL).unwrap();
    client.wait_for("reset", Duration::from_secs(5)).unwrap();
    assert!(server.is_running().unwrap());
}

/// Answers on one listener; makes another socket on request.
const OLD_LISTENER: &str = r#"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 9000), family=family)
kept = [socket.create_server(('127.0.0.1', 0))]
while True:
    c, _ = listener.accept()
    d = c.recv(100)
    if d == b'new':
        kept.append(socket.create_server((sys.argv[1], 9001)))
    c.sendall(d)
    kept.append(c)
"#;

#[test]
fn sockets_that_are_older_than_the_service_are_listed_with_the_reason() {
    let mut both = Both::new();
    let (host, address) = (both.pair.a.clone(), both.pair.b_v4());
    let mut server = willing(both.b(), &[python(), "-c", OLD_LISTENER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    assert!(both.b_service.stop().unwrap().status.success());
    both.b_service = Service::start(&both.pair.b).unwrap();

    let program = || both.b_service.stat().unwrap().lanes_of(server.id()).first().map(|lane| (*lane).clone());
    tools::until("the program is listed", TIMEOUT, || program().is_some()).unwrap();
    let listed = program().unwrap();
    assert_eq!(listed["accelerated"], false);
    assert!(listed["reason"].as_str().unwrap().contains("older than the service"), "{listed}");

    // The same again with SIGKILL: the helper notices the end of the service by which the program
    // was listed.
    both.b_service.process().signal(Signal::SIGKILL).unwrap();
    let _ = both.b_service.process().wait(TIMEOUT).unwrap();
    both.b_service = Service::start(&both.pair.b).unwrap();
    let program = || both.b_service.stat().unwrap().lanes_of(server.id()).first().map(|lane| (*lane).clone());
    tools::until("the program is listed again", TIMEOUT, || program().is_some()).unwrap();

    let script = "import socket, sys; c = socket.create_connection((sys.argv[1], 9000)); c.sendall(b'new'); c.recv(3)";
    start(&host, false, &[python(), "-c", script, &address]).success(TIMEOUT).unwrap();
    let listed = program().unwrap();
    assert_eq!(listed["accelerated"], true, "its new socket took the fast path: {listed}");
    let on = |port: u16, accelerated: bool| {
        let local = format!("{address}:{port}");
        let all = listed["sockets"].as_array().unwrap();
        all.iter().filter(|s| s["local"] == local.as_str() && s["accelerated"] == accelerated).count()
    };
    assert_eq!(on(9001, true), 1, "{listed}");
    assert!(on(9000, false) >= 2, "the old listener, and a connection that it accepted: {listed}");
    assert_eq!(on(9000, true), 0, "{listed}");
    let reason = |local: &str| {
        let all = listed["sockets"].as_array().unwrap();
        all.iter()
            .find(|s| s["local"].as_str().unwrap().starts_with(local))
            .and_then(|s| s["reason"].as_str())
            .unwrap_or_default()
    };
    assert!(reason(&format!("{address}:9000")).contains("older than the service"), "{listed}");
    let loopback = reason("127.0.0.1:");
    assert!(!loopback.is_empty() && !loopback.contains("older"), "it never was on a lane: {listed}");
}

#[test]
fn a_program_that_was_started_before_the_service_is_listed_with_the_reason() {
    let pair = LabPair::new().unwrap();
    let address = pair.b_v4();
    let mut server = willing(&pair.b, &[python(), "-c", OLD_LISTENER, &address]);
    wait_until_listening(&pair.b, &mut server, "tcp", 9000);
    let service = Service::start(&pair.b).unwrap();
    let stat = service.stat().unwrap();
    let listed = stat.lanes_of(server.id());
    assert_eq!(listed.len(), 1, "{}", stat.json);
    assert_eq!((&listed[0]["accelerated"], &listed[0]["program"]), (&false.into(), &"python3".into()), "{}", stat.json);
    assert!(listed[0]["reason"].as_str().unwrap().contains("no service gave it a lane"), "{}", listed[0]);
    let sockets = listed[0]["sockets"].as_array().unwrap();
    let local = format!("{address}:9000");
    let listener = sockets.iter().find(|socket| socket["local"] == local.as_str()).unwrap();
    assert_eq!((&listener["state"], &listener["accelerated"]), (&"LISTEN".into(), &false.into()), "{}", listed[0]);
    let page = pair.b.run(&[tools::tickwire().unwrap().to_str().unwrap(), "stat"]).unwrap();
    let line = format!("python3 (process {}, user 0): on the kernel: its sockets were opened while", server.id());
    assert!(page.contains(&line) && !page.contains("no program"), "{page}");

    // It requests a lane at most once per second.
    std::thread::sleep(Duration::from_millis(1100));
    let script = "import socket, sys; c = socket.create_connection((sys.argv[1], 9000)); c.sendall(b'new'); c.recv(3)";
    start(&pair.a, false, &[python(), "-c", script, &address]).success(TIMEOUT).unwrap();
    let stat = service.stat().unwrap();
    let listed = stat.lanes_of(server.id());
    assert_eq!(listed.len(), 1, "{}", stat.json);
    assert_eq!(listed[0]["accelerated"], true, "its new socket took the fast path: {}", stat.json);
    server.kill();
    tools::until("it is gone", TIMEOUT, || service.stat().unwrap().lanes_of(server.id()).is_empty()).unwrap();
}

/// Has a child while its connection lasts, and reconnects when that has ended.
const RECONNECTING_CLIENT: &str = r#"
import os, signal, socket, sys, time
def connect():
    return socket.create_connection((sys.argv[1], 9000), timeout=25)
s = connect()
child = os.fork()
if not child:
    time.sleep(100)
    os._exit(0)
print('connected', flush=True)
# If the child has left the lane before, the connection is this process's alone, and goes over to
# the kernel instead.
s.settimeout(3)
try:
    s.recv(1)
except (ConnectionResetError, TimeoutError):
    pass
s.close()
os.kill(child, signal.SIGKILL)
os.wait()
s = connect()
print('again', flush=True)
time.sleep(100)
"#;

#[test]
fn a_client_that_connected_anew_while_the_service_was_away_is_listed_with_the_reason() {
    let pair = LabPair::new().unwrap();
    let address = pair.b_v4();
    let mut server = start(&pair.b, false, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(&pair.b, &mut server, "tcp", 9000);
    let mut service = Service::start(&pair.a).unwrap();
    let mut client = willing(&pair.a, &[python(), "-c", RECONNECTING_CLIENT, &address]);
    client.wait_for("connected", TIMEOUT).unwrap();
    let stat = service.stat().unwrap();
    let all = stat.json["lanes"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]["accelerated"]), (1, &true.into()), "the child is in its parent's lane: {all:?}");

    assert!(service.stop().unwrap().status.success());
    client.wait_for("again", TIMEOUT).unwrap();
    let service = Service::start(&pair.a).unwrap();
    let stat = service.stat().unwrap();
    let listed = stat.lanes_of(client.id());
    assert_eq!(listed.len(), 1, "{}", stat.json);
    assert_eq!(listed[0]["accelerated"], false, "{}", listed[0]);
    assert!(listed[0]["reason"].as_str().unwrap().contains("older than the service"), "{}", listed[0]);
    let sockets = listed[0]["sockets"].as_array().unwrap();
    let remote = format!("{address}:9000");
    assert!(sockets.iter().any(|s| s["remote"] == remote.as_str() && s["state"] == "ESTAB"), "{}", listed[0]);
}

#[test]
fn a_program_for_which_there_is_no_lane_is_listed_with_the_reason() {
    let options = ServiceOptions { config: "[limits]\nlanes = 1\n".into(), ..ServiceOptions::default() };
    let both = Both::with(&CableOptions::default(), &options);
    let listen = |address: String| {
        let mut server = willing(both.b(), &[python(), "-c", OLD_LISTENER, &address]);
        wait_until_listening(both.b(), &mut server, "tcp", 9000);
        server
    };
    let first = listen(both.pair.b_v4());
    let mut second = listen(both.pair.b_v6());
    let stat = both.b_service.stat().unwrap();
    assert_eq!(stat.lanes_of(first.id())[0]["accelerated"], true);
    let listed = stat.lanes_of(second.id());
    assert_eq!(listed.len(), 1, "{}", stat.json);
    assert!(listed[0]["reason"].as_str().unwrap().starts_with("all lanes are taken"), "{}", listed[0]);
    second.kill();
    tools::until("it is gone", TIMEOUT, || both.b_service.stat().unwrap().lanes_of(second.id()).is_empty()).unwrap();
}

/// Listens, and passes the listener to a program that it starts.
const PASSING: &str = r#"
import os, socket, subprocess, sys, time
here, there = socket.socketpair()
listener = socket.create_server((sys.argv[1], 9000))
os.set_inheritable(there.fileno(), True)
worker = subprocess.Popen([sys.executable, '-c', sys.argv[2], str(there.fileno())], close_fds=False)
socket.send_fds(here, [b'x'], [listener.fileno()])
print('worker', worker.pid, flush=True)
worker.wait()
"#;

/// Accepts from a listener received over a Unix socket.
const WORKER: &str = r#"
import socket, sys, time
_, passed, _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 10, 1)
connection = socket.socket(fileno=passed[0]).accept()[0]
print('accepted', connection.recv(100).decode(), flush=True)
time.sleep(60)
"#;

#[test]
fn a_program_that_got_its_listener_from_another_process_is_listed_with_the_reason() {
    let pair = LabPair::new().unwrap();
    let service = Service::start(&pair.b).unwrap();
    let address = pair.b_v4();
    let mut program = start(&pair.b, true, &[python(), "-c", PASSING, &address, WORKER]);
    program.wait_for("worker", TIMEOUT).unwrap();
    wait_until_listening(&pair.b, &mut program, "tcp", 9000);
    let script =
        "import socket, sys; c = socket.create_connection((sys.argv[1], 9000)); c.sendall(b'hello'); c.recv(3)";
    let _client = start(&pair.a, false, &[python(), "-c", script, &address]);
    program.wait_for("accepted hello", TIMEOUT).unwrap();
    let said = program.stdout();
    let worker = said.lines().find_map(|line| line.strip_prefix("worker ")).unwrap().parse().unwrap();
    let stat = service.stat().unwrap();
    let lanes = stat.lanes_of(worker);
    assert_eq!(lanes.len(), 1, "{}", stat.json);
    let sockets = lanes[0]["sockets"].as_array().unwrap();
    let told =
        |what: &serde_json::Value| what["reason"].as_str().is_some_and(|why| why.contains("came from another process"));
    // It may have a lane for another socket; otherwise it is listed as a whole.
    let shown = !sockets.is_empty() && sockets.iter().all(told);
    assert!(told(lanes[0]) || lanes[0]["accelerated"] == true && shown, "{}", lanes[0]);
}
