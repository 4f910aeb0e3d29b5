//! The lossy cable: its reported faults match those that the hosts see, and transfers through it
//! arrive intact, on both stacks.

mod common;

use common::{TIMEOUT, built, crossing, start, wait_until_listening};
use serde_json::Value;
use std::time::Duration;
use tickwire_lab::{LabHost, Process, Relayed, Service, tools};

/// Frames that a host's device has sent and received.
fn frames(host: &LabHost) -> [u64; 2] {
    ["tx_packets", "rx_packets"].map(|counter| {
        let file = format!("/sys/class/net/eth0/statistics/{counter}");
        host.run(&["cat", &file]).unwrap().trim().parse().unwrap()
    })
}

/// Afterwards a host sends only what a test requests: IPv6 sends packets at any time (MLD, router
/// solicitations), even while no relay counts them.
fn silence(host: &LabHost) {
    host.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6"]).unwrap();
}

/// Sends two thousand numbered datagrams, slowly enough for any machine.
const TELL: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(2000):
    s.sendto(n.to_bytes(4, 'big') + bytes(1400), (sys.argv[1], 7000))
    if n % 20 == 19: time.sleep(0.005)
"#;

/// Prints the number of different datagrams, of duplicates, and of those after a later one, once
/// half a second brings none.
const HEAR: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 7000))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
got, twice, late = set(), 0, 0
try:
    while True:
        n = int.from_bytes(s.recv(2000)[:4], 'big')
        s.settimeout(0.5)
        if n in got: twice += 1
        elif got and n < max(got): late += 1
        got.add(n)
except TimeoutError:
    print(len(got), twice, late)
"#;

#[test]
fn the_relay_counts_what_the_hosts_see() {
    let relayed = Relayed::new().unwrap();
    let (a, b) = (&relayed.pair.a, &relayed.pair.b);
    let wanted = ["--loss", "50000", "--duplicate", "30000", "--reorder", "40000", "--reorder-by", "2000"];
    silence(a);
    silence(b);
    let before = [frames(a), frames(b)];
    let relay = relayed.start(&wanted).unwrap();
    let mut hears = start(b, false, &[common::python(), "-c", HEAR]);
    wait_until_listening(b, &mut hears, "udp", 7000);
    a.run(&[common::python(), "-c", TELL, &relayed.pair.b_v4()]).unwrap();
    let heard = hears.success(TIMEOUT).unwrap();
    let passed = relay.finish().unwrap();
    let after = [frames(a), frames(b)];
    let grown = |host: usize, direction: usize| after[host][direction] - before[host][direction];
    let forth = passed.forth;
    assert_eq!((forth.sent, forth.delivered), (grown(0, 0), grown(1, 1)), "{passed:?}");
    assert_eq!((passed.back.sent, passed.back.delivered), (grown(1, 0), grown(0, 1)), "{passed:?}");
    assert_eq!(forth.delivered, forth.sent - forth.dropped() + forth.duplicated, "{passed:?}");
    assert_eq!((forth.unasked(), passed.back.unasked()), (0, 0), "{passed:?}");
    // The hosts resolve addresses (ARP), and the relay treats these frames like all others.
    let heard: Vec<u64> = heard.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let near = |seen: u64, told: u64| told.abs_diff(seen) <= 5;
    assert!(near(2000 - heard[0], forth.dropped()) && near(heard[1], forth.duplicated), "{heard:?} {forth:?}");
    // Most reordered datagrams are overtaken; for a duplicated one that may remain invisible.
    assert!(heard[2] * 2 > forth.reordered && heard[2] <= forth.reordered, "{heard:?} {forth:?}");
    assert!((60..=140).contains(&forth.lost) && (30..=95).contains(&forth.duplicated), "{forth:?}");
}

/// Messages over a connection; the receiver checks each byte.
fn messages(relayed: &Relayed, ours: bool, count: &str) -> Value {
    let (program, address) = (built("messages"), format!("{}:5201", relayed.pair.b_v4()));
    let mut receiver = start(&relayed.pair.b, ours, &[&program, "receive", &address, "--size", "200000"]);
    wait_until_listening(&relayed.pair.b, &mut receiver, "tcp", 5201);
    let send = [&program, "send", &address, "--size", "200000", "--count", count, "--seconds", "10"];
    start(&relayed.pair.a, ours, &send).success(TIMEOUT).unwrap();
    serde_json::from_str(receiver.success(TIMEOUT).unwrap().trim()).unwrap()
}

#[test]
fn messages_arrive_whole_on_both_stacks_where_one_packet_in_a_hundred_is_lost() {
    let relayed = Relayed::new().unwrap();
    for ours in [false, true] {
        let services = ours.then(|| [&relayed.pair.a, &relayed.pair.b].map(|host| Service::start(host).unwrap()));
        let relay = relayed.start(&["--loss", "10000", "--duplicate", "2000", "--reorder", "2000"]).unwrap();
        let told = match &services {
            Some([_, b]) => crossing(b, 1000, || messages(&relayed, true, "15")),
            None => messages(&relayed, false, "15"),
        };
        let passed = relay.finish().unwrap();
        assert_eq!(told["completion"]["count"], 15, "{told}");
        // 2.8 MB in segments of 1448 bytes.
        assert!(passed.forth.sent > 1900 && passed.forth.lost > 4, "{passed:?}");
        assert_eq!(passed.forth.unasked() + passed.back.unasked(), 0, "{passed:?}");
    }
}

/// One of the kernel's counters.
fn kernel(host: &LabHost, name: &str) -> u64 {
    let text = host.run(&["cat", "/proc/net/netstat"]).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let of = |pair: &[Vec<&str>]| pair[0].iter().position(|n| *n == name).map(|at| pair[1][at].parse().unwrap());
    lines.chunks(2).find_map(of).unwrap_or_else(|| panic!("the kernel counts no {name}"))
}

/// RFC 3168: each stack sends ECN-capable packets, and echoes marks to the other.
#[test]
fn marks_of_routers_are_understood_between_the_kernel_and_ours() {
    let relayed = Relayed::new().unwrap();
    let (a, b) = (&relayed.pair.a, &relayed.pair.b);
    for host in [a, b] {
        host.sysctl("net.ipv4.tcp_ecn", "1").unwrap();
    }
    let services = [a, b].map(|host| Service::start(host).unwrap());
    for (sends, service) in services.iter().enumerate().map(|(host, service)| (host == 0, service)) {
        let before = (kernel(b, "InCEPkts"), kernel(a, "TCPDeliveredCE"));
        let relay = relayed.start(&["--mark", "50000"]).unwrap();
        let (program, address) = (built("messages"), format!("{}:5201", relayed.pair.b_v4()));
        let mut receiver = start(b, !sends, &[&program, "receive", &address, "--size", "200000"]);
        wait_until_listening(b, &mut receiver, "tcp", 5201);
        let send = [&program, "send", &address, "--size", "200000", "--count", "15", "--seconds", "10"];
        crossing(service, 500, || start(a, sends, &send).success(TIMEOUT)).unwrap();
        receiver.success(TIMEOUT).unwrap();
        let marked = relay.finish().unwrap().forth.marked;
        assert!(marked > 20, "{marked}");
        if sends {
            assert_eq!(kernel(b, "InCEPkts") - before.0, marked, "what ours sends may be marked");
        } else {
            assert!(kernel(a, "TCPDeliveredCE") > before.1, "ours tells the kernel of the marks");
        }
    }
}

/// The benchmark's main promise concerns the sending end.
#[test]
fn the_lost_end_of_each_message_is_repaired_long_before_the_kernels_timeout() {
    let relayed = Relayed::new().unwrap();
    let service = Service::start(&relayed.pair.a).unwrap();
    let relay = relayed.start(&["--tail", "20000"]).unwrap();
    let (program, address) = (built("messages"), format!("{}:5201", relayed.pair.b_v4()));
    let mut receiver = start(&relayed.pair.b, false, &[&program, "receive", &address]);
    wait_until_listening(&relayed.pair.b, &mut receiver, "tcp", 5201);
    let send = [&program, "send", &address, "--count", "20"];
    crossing(&service, 20, || start(&relayed.pair.a, true, &send).success(TIMEOUT)).unwrap();
    let told: Value = serde_json::from_str(receiver.success(TIMEOUT).unwrap().trim()).unwrap();
    let passed = relay.finish().unwrap();
    // Including the warm-up of five.
    assert_eq!((passed.forth.tails, told["completion"]["count"].as_u64()), (25, Some(20)), "{passed:?}");
    let median = Duration::from_nanos(told["completion"]["p50_ns"].as_u64().unwrap());
    assert!(median < Duration::from_millis(100), "{told}");
}

/// Sends, waits for a signal, sends, and waits again: meanwhile it makes no call on its socket.
const AWAY: &str = r#"
import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
s = socket.create_connection((sys.argv[1], 9000))
for word in (b'first', b'second'):
    s.sendall(word)
    print(word.decode(), 'sent', flush=True)
    signal.sigwait({signal.SIGUSR1})
"#;

/// Prints what it reads.
const READER: &str = r#"
import socket, sys
with socket.create_server((sys.argv[1], 9000)) as listener:
    s = listener.accept()[0]
while data := s.recv(100):
    print(data.decode(), flush=True)
"#;

#[test]
fn what_was_lost_is_sent_again_while_the_program_is_away() {
    let relayed = Relayed::new().unwrap();
    let service = Service::start(&relayed.pair.a).unwrap();
    let address = relayed.pair.b_v4();
    let mut reader = start(&relayed.pair.b, false, &[common::python(), "-c", READER, &address]);
    wait_until_listening(&relayed.pair.b, &mut reader, "tcp", 9000);
    let relay = relayed.start(&[]).unwrap();
    let mut away = crossing(&service, 1, || {
        let away = start(&relayed.pair.a, true, &[common::python(), "-c", AWAY, &address]);
        reader.wait_for("first", TIMEOUT).unwrap();
        away
    });
    // By then no thread of the program watches the lane any more, as far as the program knows.
    std::thread::sleep(Duration::from_millis(300));
    relay.finish().unwrap();
    away.signal(nix::sys::signal::Signal::SIGUSR1).unwrap();
    away.wait_for("second sent", TIMEOUT).unwrap();
    let _relay = relayed.start(&[]).unwrap();
    reader.wait_for("second", TIMEOUT).unwrap();
}

#[test]
fn a_relay_that_cannot_work_says_why_and_one_that_runs_goes_with_its_lab() {
    let relayed = Relayed::new().unwrap();
    let refused = relayed.start(&["--loss", "2000000"]).unwrap_err().to_string();
    assert!(refused.contains("2000000 is not in 0..=1000000"), "{refused}");
    let mut process = Process::spawn({
        let mut command = relayed.pair.a.command(&built("relay"));
        command.args(["eth0", "eth1"]);
        command
    })
    .unwrap();
    let ended = process.wait(TIMEOUT).unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(1), "relay: there is no device eth1\n"));
    // At its limit it ends by itself, with its statistics.
    let relay = relayed.start(&["--limit", "0"]).unwrap();
    assert_eq!(relay.finish().unwrap().forth.sent, 0);
    // A relay that still runs when the lab is dropped ends with it.
    let relay = relayed.start(&[]).unwrap();
    let running = format!("{}-relay", relayed.pair.lab.name());
    let pids = tickwire_lab::run(&["ip", "netns", "pids", &running]).unwrap();
    drop(relayed);
    tools::until("the relay is gone", TIMEOUT, || {
        pids.split_whitespace().all(|pid| !std::path::Path::new(&format!("/proc/{pid}/exe")).exists())
    })
    .unwrap();
    drop(relay);
}
