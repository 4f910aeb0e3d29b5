//! Datagrams beyond the simple ones: large, in jumbo frames, and to groups.

mod common;

use common::{Both, PATIENCE, bound, crossing, python, start};
use tickwire_lab::{CableOptions, ServiceOptions};

const ECHO: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.bind((sys.argv[1], 7000))
while True:
    data, peer = s.recvfrom(65536)
    s.sendto(data, peer)
"#;

/// Each size some times; what does not come back is sent again, as UDP asks of a program, but that must be rare.
const ASK: &str = r#"
import os, socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
s.settimeout(2)
lost = 0
for size in (0, 1, 1472, 1473, 8972, 8973, 30000, 65507):
    for _ in range(5):
        sent = os.urandom(size)
        for _ in range(5):
            s.sendto(sent, (sys.argv[1], 7000))
            try:
                while s.recv(65536) != sent: pass
                break
            except TimeoutError:
                lost += 1
        else:
            raise SystemExit(f'{size} bytes never came back')
print('lost', lost)
"#;

fn sizes(mtu: u32, v6: bool) {
    sizes_on(&Both::with(&CableOptions { mtu, ..CableOptions::default() }, &ServiceOptions::default()), v6);
}

fn sizes_on(both: &Both, v6: bool) {
    let address = if v6 { both.pair.b_v6() } else { both.pair.b_v4() };
    let mut server = start(both.b(), true, &[python(), "-c", ECHO, &address]);
    bound(both.b(), &mut server, "udp", 7000);
    for accelerated in [true, false] {
        let mut client = start(both.a(), accelerated, &[python(), "-c", ASK, &address]);
        let said = crossing(&both.b_service, 40, || client.success(PATIENCE * 2));
        let said =
            said.unwrap_or_else(|e| panic!("client accelerated: {accelerated}: {e:#}\nserver: {}", server.stderr()));
        let lost: u32 = said.trim().strip_prefix("lost ").unwrap().parse().unwrap();
        assert!(lost <= 2, "{lost} of 40 datagrams were lost on a cable that loses none");
    }
}

#[test]
fn all_sizes_over_ipv4_go_there_and_back() {
    sizes(1500, false);
}

#[test]
fn all_sizes_over_ipv6_go_there_and_back() {
    sizes(1500, true);
}

#[test]
fn all_sizes_go_there_and_back_in_jumbo_frames() {
    let both = Both::with(&CableOptions { mtu: 9000, ..CableOptions::default() }, &ServiceOptions::default());
    let stat = || both.b_service.stat().unwrap().json;
    if stat()["host"]["interfaces"].to_string().contains("Linux 6.6") {
        // An older kernel: the interface is the kernel's, and says why, until its frames fit.
        let refused =
            start(both.b(), true, &[python(), "-c", "import socket; socket.socket()"]).wait(PATIENCE).unwrap();
        assert_eq!(refused.status.code(), Some(69));
        assert!(refused.stderr.contains("cannot hand frames so long"), "{}", refused.stderr);
        both.a().mtu("eth0", 1500).unwrap();
        both.b().mtu("eth0", 1500).unwrap();
        let taken_up = || !stat()["host"]["interfaces"].to_string().contains("Linux 6.6");
        tickwire_lab::tools::until("the interface is accelerated", PATIENCE, taken_up).unwrap();
    }
    sizes_on(&both, false);
}

/// Joins a group and prints what it hears; optionally from one source only.
const HEAR: &str = r#"
import socket, struct, sys
group, own, source = sys.argv[1], sys.argv[2], sys.argv[3]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((group, 7100))
if source == 'any':
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
else:
    IP_ADD_SOURCE_MEMBERSHIP = 39
    s.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own) + socket.inet_aton(source))
print('joined', flush=True)
while True:
    print(s.recv(100).decode(), flush=True)
"#;

const TELL: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], 0))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[2]))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(sys.argv[4]))
for n in range(5):
    s.sendto(f'{sys.argv[3]} {n};'.encode(), (sys.argv[1], 7100))
    time.sleep(0.05)
"#;

#[test]
fn every_program_that_joined_a_group_hears_each_datagram_once() {
    const GROUP: &str = "239.1.2.3";
    let both = Both::new();
    both.b().address("eth0", "10.77.0.3/24").unwrap();
    let (own, sender, other) = (both.pair.a_v4(), both.pair.b_v4(), "10.77.0.3");
    let hear = |accelerated, source: &str| {
        let mut process = start(both.a(), accelerated, &[python(), "-c", HEAR, GROUP, &own, source]);
        process.wait_for("joined", PATIENCE).unwrap();
        process
    };
    // Two accelerated ones, one on the kernel, and one that wants one source only.
    let hearers = [hear(true, "any"), hear(true, "any"), hear(false, "any"), hear(true, &sender)];
    std::thread::sleep(std::time::Duration::from_millis(300));
    for (from, name, looped) in [(sender.as_str(), "first", "1"), (other, "second", "0")] {
        start(both.b(), true, &[python(), "-c", TELL, GROUP, from, name, looped]).success(PATIENCE).unwrap();
    }
    let all = |name: &str| (0..5).map(|n| format!("{name} {n};\n")).collect::<String>();
    let expected =
        [all("first") + &all("second"), all("first") + &all("second"), all("first") + &all("second"), all("first")];
    for (hearer, expected) in hearers.iter().zip(expected) {
        let heard = || hearer.stdout().replacen("joined\n", "", 1);
        let waited = tickwire_lab::tools::until("all was heard", PATIENCE, || heard().len() >= expected.len());
        assert!(waited.is_ok() && heard() == expected, "heard: {}\nexpected: {expected}\n{}", heard(), hearer.stderr());
    }
    let copies = both.a_service.stat().unwrap().number("/host/counters/group_copies");
    assert!(copies >= 25, "only {copies} copies went to lanes: {:?}", both.a_service.stat());
}
