//! Paths with faults between a Tickwire end and a kernel end: messages arrive intact, whichever end
//! sends. `relay.rs` has the same stack at both ends.

mod common;

use common::{Both, TIMEOUT, built, crossing, python, start, wait_until_listening};
use serde_json::Value;
use tickwire_lab::{LabHost, Passed, Relayed, Service};

const SIZE: usize = 200_000;

/// Two hosts on a cable with faults, with a service each.
struct Across {
    services: [Service; 2],
    relayed: Relayed,
}

/// Messages and their faults.
struct Talk<'a> {
    /// Whether the sender, host a, is accelerated; otherwise the receiver, host b, is.
    sends: bool,
    address: &'a str,
    faults: &'a [&'a str],
    count: u64,
}

impl Across {
    fn new() -> Self {
        let relayed = Relayed::new().unwrap();
        let services = [&relayed.pair.a, &relayed.pair.b].map(|host| Service::start(host).unwrap());
        Self { services, relayed }
    }

    fn host(&self, end: usize) -> &LabHost {
        [&self.relayed.pair.a, &self.relayed.pair.b][end]
    }

    /// The receiver checks each byte. Each message crosses the lane: its segments, or the
    /// acknowledgements of a kernel that merges received segments.
    fn messages(&self, talk: &Talk) -> Passed {
        println!("Tickwire sends: {}, to {}, {:?}", talk.sends, talk.address, talk.faults);
        let (program, size, count) = (built("messages"), SIZE.to_string(), talk.count.to_string());
        let relay = self.relayed.start(talk.faults).unwrap();
        let mut receiver = start(self.host(1), !talk.sends, &[&program, "receive", talk.address, "--size", &size]);
        wait_until_listening(self.host(1), &mut receiver, "tcp", 5201);
        let send = [&program, "send", talk.address, "--size", &size, "--count", &count];
        let send = [&send[..], &["--warmup", "0", "--seconds", "20"]].concat();
        let (service, each) = if talk.sends { (&self.services[0], 5) } else { (&self.services[1], 130) };
        let told = crossing(service, each * talk.count, || {
            start(self.host(0), talk.sends, &send).success(TIMEOUT).unwrap();
            receiver.success(TIMEOUT).unwrap()
        });
        let passed = relay.finish().unwrap();
        let told: Value = serde_json::from_str(told.trim()).unwrap();
        assert_eq!(told["completion"]["count"], talk.count, "{told}");
        assert_eq!(passed.forth.unasked() + passed.back.unasked(), 0, "{passed:?}");
        passed
    }

    /// To the address of each family, sent by either stack.
    fn both_ways(&self, faults: &[&str], count: u64, check: impl Fn(&Passed)) {
        let pair = &self.relayed.pair;
        for address in [format!("{}:5201", pair.b_v4()), format!("[{}]:5201", pair.b_v6())] {
            for sends in [true, false] {
                check(&self.messages(&Talk { sends, address: &address, faults, count }));
            }
        }
    }
}

#[test]
fn messages_arrive_whole_between_the_kernel_and_ours_where_packets_are_lost() {
    let faults = ["--loss", "10000", "--duplicate", "2000", "--reorder", "2000"];
    // 2.8 MB in segments of 1448 bytes.
    Across::new().both_ways(&faults, 14, |passed| {
        assert!(passed.forth.sent > 1900 && passed.forth.lost > 4, "{passed:?}");
    });
}

#[test]
fn messages_arrive_whole_between_the_kernel_and_ours_where_losses_come_in_bursts() {
    // Four at a time, on average.
    Across::new().both_ways(&["--burst", "4000"], 14, |passed| {
        assert!(passed.forth.sent > 1900 && passed.forth.lost > 8, "{passed:?}");
    });
}

#[test]
fn a_message_arrives_whole_between_the_kernel_and_ours_after_a_second_of_darkness() {
    let across = Across::new();
    let (address, size) = (format!("{}:5201", across.relayed.pair.b_v4()), SIZE.to_string());
    for sends in [true, false] {
        for dark in ["forth", "back"] {
            let faults = ["--blackout", &size, "--dark", dark, "--dark-for", "1000"];
            let passed = across.messages(&Talk { sends, address: &address, faults: &faults, count: 1 });
            let (in_it, beside) =
                if dark == "forth" { (passed.forth, passed.back) } else { (passed.back, passed.forth) };
            assert!(in_it.dark > 0 && beside.dark == 0, "{passed:?}");
        }
    }
}

/// Exchanges with the other end the options that its own end has negotiated: the sixth byte of
/// `struct tcp_info`.
const AGREED: &str = r#"
import socket, sys
own, peer = sys.argv[1], sys.argv[2]
if own == 'server':
    with socket.create_server((peer, 9000)) as listener:
        s, _ = listener.accept()
else:
    s = socket.create_connection((peer, 9000), timeout=20)
s.sendall(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5:6])
print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & 7, s.recv(1)[0] & 7)
"#;

/// RFC 7323 and RFC 2018, between the kernel and Tickwire, whichever connects: timestamps (1), SACK
/// (2), window scaling (4).
#[test]
fn the_kernel_and_ours_agree_on_timestamps_and_the_other_options() {
    let both = Both::new();
    let address = both.pair.b_v4();
    for accepts in [true, false] {
        let mut server = start(both.b(), accepts, &[python(), "-c", AGREED, "server", &address]);
        wait_until_listening(both.b(), &mut server, "tcp", 9000);
        let service = if accepts { &both.b_service } else { &both.a_service };
        let printed = crossing(service, 3, || {
            start(both.a(), !accepts, &[python(), "-c", AGREED, "client", &address]).success(TIMEOUT).unwrap()
        });
        assert_eq!(printed.trim(), "7 7", "Tickwire accepts: {accepts}");
        assert_eq!(server.success(TIMEOUT).unwrap().trim(), "7 7", "Tickwire accepts: {accepts}");
    }
}

/// Sends data, or receives it and prints whether it is intact; then stays, so that its counters can
/// be read.
const STAYS: &str = r#"
import hashlib, os, socket, sys, time
if sys.argv[1] == 'takes':
    with socket.create_server((sys.argv[2], 9000)) as listener:
        s, _ = listener.accept()
    data = b''
    while len(data) < 2_000_032:
        data += s.recv(65536)
    print('whole' if hashlib.sha256(data[32:]).digest() == data[:32] else 'another', flush=True)
else:
    s = socket.create_connection((sys.argv[2], 9000), timeout=20)
    data = os.urandom(2_000_000)
    s.sendall(hashlib.sha256(data).digest() + data)
time.sleep(60)
"#;

/// RFC 7323 §5: a segment so late that it was already retransmitted has an older timestamp than the
/// latest one, and is dropped by PAWS.
#[test]
fn old_segments_are_told_by_their_timestamps_between_the_kernel_and_ours() {
    let across = Across::new();
    let address = across.relayed.pair.b_v4();
    for sends in [true, false] {
        let dropped = || match sends {
            true => {
                let told = across.host(1).run(&["nstat", "-asz", "--json"]).unwrap();
                let told: Value = serde_json::from_str(&told).unwrap();
                told["kernel"]["TcpExtPAWSEstab"].as_u64().unwrap()
            }
            false => across.services[1].stat().unwrap().number("/lanes/0/counters/TcpExtPAWSEstab"),
        };
        let mut takes = start(across.host(1), !sends, &[python(), "-c", STAYS, "takes", &address]);
        wait_until_listening(across.host(1), &mut takes, "tcp", 9000);
        let before = dropped();
        let relay = across.relayed.start(&["--reorder", "20000", "--reorder-by", "50000"]).unwrap();
        crossing(&across.services[usize::from(!sends)], if sends { 50 } else { 1300 }, || {
            let _sender = start(across.host(0), sends, &[python(), "-c", STAYS, "sends", &address]);
            takes.wait_for("whole", TIMEOUT).unwrap();
        });
        let (passed, dropped) = (relay.finish().unwrap(), dropped() - before);
        println!("Tickwire sends: {sends}: {} late, {dropped} too old", passed.forth.reordered);
        assert!(dropped > 0 && passed.forth.reordered >= dropped, "{dropped} too old, {passed:?}");
    }
}
