//! Real-time priorities that the service grants to programs of a group.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, crossing, python, start, wait_until_listening};
use std::time::Duration;
use tickwire_lab::{CableOptions, Process, ServiceOptions};

/// Exchanges messages with the server, so that threads wait: the parent, then a child with a
/// connection of its own, and a thread with a scheduling policy of its own.
const CLIENT: &str = r#"
import os, socket, sys, threading, time
def talk():
    with socket.create_connection((sys.argv[1], 9000), timeout=20) as connection:
        for _ in range(100):
            connection.sendall(b'hello')
            assert connection.recv(5, socket.MSG_WAITALL) == b'hello'
            time.sleep(0.001)
def batch():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    talk()
    time.sleep(60)
talk()
threading.Thread(target=batch, daemon=True, name='batch').start()
child = os.fork()
if child == 0:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
talk()
print('parent' if child else 'child', flush=True)
if child and sys.argv[2:] == ['exec']:
    os.execvp('sleep', ['sleep', '60'])
time.sleep(60)
"#;

const FIFO: u32 = 1;
const BATCH: u32 = 3;

/// Policy and priority of each thread of a process.
fn policies(process: u32) -> Vec<(u32, u32)> {
    let of_thread = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some((fields[38].parse().ok()?, fields[37].parse().ok()?))
    };
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut all: Vec<_> = threads.filter_map(|entry| of_thread(entry.unwrap())).collect();
    all.sort_unstable();
    all
}

fn children(process: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    list.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn reaches(process: u32, expected: &[(u32, u32)]) {
    let until = std::time::Instant::now() + TIMEOUT;
    while policies(process) != expected {
        assert!(std::time::Instant::now() < until, "{:?}, not {expected:?}", policies(process));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn threads_that_wait_get_the_priority_of_their_group_and_no_others() {
    let config = "[groups.root]\nrealtime = 30\n[groups.nobody-has-it]\nrealtime = 90\n".to_owned();
    let both = Both::with(&CableOptions::default(), &ServiceOptions { config, ..ServiceOptions::default() });
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let talking = |options: &[&str], then: &[&str]| {
        crossing(&both.a_service, 300, || {
            let mut command = both.a().command(tickwire_lab::tools::tickwire().unwrap().to_str().unwrap());
            command.arg("run").args(options).args(["--require", "--", python(), "-c", CLIENT, &address]).args(then);
            let mut client = Process::spawn(command).unwrap();
            client.wait_for("parent", TIMEOUT).unwrap();
            client.wait_for("child", TIMEOUT).unwrap();
            client
        })
    };
    let client = talking(&[], &[]);
    let child = children(client.id())[0];
    // The waiting thread, and the helper.
    reaches(client.id(), &[(FIFO, 30), (FIFO, 30), (BATCH, 0)]);
    reaches(child, &[(0, 0), (FIFO, 30), (FIFO, 30)]);
    drop(client);
    // After exec it has the default policy, and one thread.
    let client = talking(&[], &["exec"]);
    reaches(client.id(), &[(0, 0)]);
    drop(client);
    for options in [&["--realtime", "never"][..], &["--spin", "always"]] {
        let client = talking(options, &[]);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(policies(client.id()), [(0, 0), (0, 0), (BATCH, 0)], "{options:?}");
    }
}
