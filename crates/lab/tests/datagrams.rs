//! Datagrams beyond the simple ones: large, in jumbo frames, and to groups.

mod common;

use common::{Both, GROUP, HEAR, TELL, TIMEOUT, crossing, python, start, wait_until_listening};
use nix::sys::signal::Signal;
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

/// Sends each size several times. Lost datagrams are sent again, as UDP requires of a program, but
/// that must be rare.
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
    wait_until_listening(both.b(), &mut server, "udp", 7000);
    for accelerated in [true, false] {
        let ask = || start(both.a(), accelerated, &[python(), "-c", ASK, &address]).success(TIMEOUT * 2);
        let said = crossing(&both.b_service, 40, ask);
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
        // An older kernel: the interface stays on the kernel, with the reason, until its frames
        // fit.
        let refused = start(both.b(), true, &[python(), "-c", "import socket; socket.socket()"]).wait(TIMEOUT).unwrap();
        assert_eq!(refused.status.code(), Some(69));
        assert!(refused.stderr.contains("cannot hand frames so long"), "{}", refused.stderr);
        both.a().mtu("eth0", 1500).unwrap();
        both.b().mtu("eth0", 1500).unwrap();
        let taken_up = || !stat()["host"]["interfaces"].to_string().contains("Linux 6.6");
        tickwire_lab::tools::until("the interface is accelerated", TIMEOUT, taken_up).unwrap();
    }
    sizes_on(&both, false);
}

#[test]
fn every_program_that_joined_a_group_hears_each_datagram_once() {
    let both = Both::new();
    both.b().address("eth0", "10.77.0.3/24").unwrap();
    let (own, sender, other) = (both.pair.a_v4(), both.pair.b_v4(), "10.77.0.3");
    let hear = |accelerated, source: &str| {
        let mut process = start(both.a(), accelerated, &[python(), "-c", HEAR, GROUP, &own, source]);
        process.wait_for("joined", TIMEOUT).unwrap();
        process
    };
    // Two accelerated ones, one on the kernel, and one that accepts only one source.
    let hearers = [hear(true, "any"), hear(true, "any"), hear(false, "any"), hear(true, &sender)];
    std::thread::sleep(std::time::Duration::from_millis(300));
    for (from, name, looped) in [(sender.as_str(), "first", "1"), (other, "second", "0")] {
        start(both.b(), true, &[python(), "-c", TELL, GROUP, from, name, looped]).success(TIMEOUT).unwrap();
    }
    let all = |name: &str| (0..5).map(|n| format!("{name} {n};\n")).collect::<String>();
    let expected =
        [all("first") + &all("second"), all("first") + &all("second"), all("first") + &all("second"), all("first")];
    for (hearer, expected) in hearers.iter().zip(expected) {
        let heard = || hearer.stdout().replacen("joined\n", "", 1);
        let waited = tickwire_lab::tools::until("all was heard", TIMEOUT, || heard().len() >= expected.len());
        assert!(waited.is_ok() && heard() == expected, "heard: {}\nexpected: {expected}\n{}", heard(), hearer.stderr());
    }
    let copies = both.a_service.stat().unwrap().number("/host/counters/group_copies");
    assert!(copies >= 25, "only {copies} copies went to lanes: {:?}", both.a_service.stat());
}

/// A program that does not run for a while: packets that its lane has no room for are lost, as at a
/// kernel socket, and counted.
#[test]
fn what_a_lane_has_no_room_for_is_counted() {
    const SLEEP: &str = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7300)); print('bound', flush=True); time.sleep(60)";
    const FLOOD: &str = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); [s.sendto(bytes(100), (sys.argv[1], 7300)) for _ in range(20000)]";
    let both = Both::new();
    let mut sleeper = start(both.a(), true, &[python(), "-c", SLEEP]);
    sleeper.wait_for("bound", TIMEOUT).unwrap();
    sleeper.suspend().unwrap();
    start(both.b(), false, &[python(), "-c", FLOOD, &both.pair.a_v4()]).success(TIMEOUT).unwrap();
    let stat = both.a_service.stat().unwrap();
    let of = |name: &str| stat.number(&format!("/lanes/0/guard/{name}"));
    let (came, lost) = (of("in_packets"), of("lost_ring_full"));
    assert!(lost > 0 && came > lost, "{came} came, {lost} lost: {:?}", stat.json);
    // Packets neither lost nor read are in the ring, of which each takes 256 bytes.
    assert!(came - lost <= (2 << 20) / 256, "{came} came, {lost} lost: {:?}", stat.json);
    sleeper.signal(Signal::SIGCONT).unwrap();
}

/// A lane has room for a limited number of memberships of all sockets together. The kernel handles
/// further groups, each datagram of which is also received once.
#[test]
fn a_group_for_which_a_lane_has_no_room_is_heard_by_the_kernel() {
    const GROUPS: usize = 530;
    const JOIN: &str = r#"
import select, socket, sys
own, groups = sys.argv[1], int(sys.argv[2])
# The kernel takes 20 for each.
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range((groups + 19) // 20)]
for s in sockets:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IP, 49, 0) # IP_MULTICAST_ALL
    s.bind(('', 7500))
for n in range(groups):
    group = socket.inet_aton('239.7.%d.%d' % divmod(n, 200)) + socket.inet_aton(own)
    sockets[n // 20].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
print('joined', flush=True)
heard = []
while len(heard) < groups or select.select(sockets, [], [], 0.5)[0]:
    for s in select.select(sockets, [], [], 20)[0]:
        n = int(s.recv(100))
        assert sockets[n // 20] is s, n
        heard.append(n)
assert sorted(heard) == list(range(groups)), heard
print('each once')
"#;
    const SEND: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
for n in range(int(sys.argv[2])): s.sendto(b'%d' % n, ('239.7.%d.%d' % divmod(n, 200), 7500))
"#;
    let both = Both::new();
    let groups = GROUPS.to_string();
    let mut joining = start(both.a(), true, &[python(), "-c", JOIN, &both.pair.a_v4(), &groups]);
    joining.wait_for("joined", TIMEOUT).unwrap();
    start(both.b(), false, &[python(), "-c", SEND, &both.pair.b_v4(), &groups]).success(TIMEOUT).unwrap();
    let said = joining.success(TIMEOUT);
    assert!(said.as_ref().is_ok_and(|said| said.ends_with("each once\n")), "{said:?}");
    let copies = both.a_service.stat().unwrap().number("/host/counters/group_copies");
    assert!((100..GROUPS as u64).contains(&copies), "{copies} copies went to lanes");
}

/// Prints the control messages of datagrams to its addresses and to groups, in both families.
const WHERE: &str = r#"
import select, socket, struct, sys
own, device = sys.argv[1], socket.if_nametoindex('eth0')
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.setsockopt(socket.IPPROTO_IP, 8, 1)
four.bind(('', 7200))
four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.4') + socket.inet_aton(own))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
six.bind(('::', 7201))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff15::4') + struct.pack('I', device))
print('joined', flush=True)
seen = []
while len(seen) < 4:
    for s in select.select([four, six], [], [], 20)[0]:
        data, control, _, _ = s.recvmsg(100, 100)
        assert len(control) == 1, control
        info = control[0][2]
        if s is four:
            index, *addresses = struct.unpack('I4s4s', info)
        else:
            index, addresses = struct.unpack('I', info[16:])[0], [info[:16]]
        seen.append((data.decode(), index == device, [socket.inet_ntop(s.family, a) for a in addresses]))
print(sorted(seen))
"#;

const TELL_ALL: &str = r#"
import socket, struct, sys
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
four.sendto(b'group 4', ('239.1.2.4', 7200))
four.sendto(b'single 4', (sys.argv[2], 7200))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex('eth0'))
six.sendto(b'group 6', ('ff15::4', 7201))
six.sendto(b'single 6', (sys.argv[3], 7201))
"#;

#[test]
fn control_messages_say_the_same_about_a_datagrams_way_as_the_kernels() {
    let both = Both::new();
    let (own, sender) = (both.pair.a_v4(), both.pair.b_v4());
    let heard = |accelerated| {
        let mut hearer = start(both.a(), accelerated, &[python(), "-c", WHERE, &own]);
        hearer.wait_for("joined", TIMEOUT).unwrap();
        let tell = [python(), "-c", TELL_ALL, &sender, &own, &both.pair.a_v6()];
        start(both.b(), false, &tell).success(TIMEOUT).unwrap();
        hearer.success(TIMEOUT).unwrap()
    };
    let by_kernel = heard(false);
    assert!(by_kernel.contains(&format!("('group 4', True, ['{own}', '239.1.2.4'])")), "{by_kernel}");
    let by_lane = crossing(&both.a_service, 2, || heard(true));
    assert_eq!(by_lane, by_kernel);
    let copies = both.a_service.stat().unwrap().number("/host/counters/group_copies");
    assert!(copies >= 2, "only {copies} copies went to lanes");
}

/// One socket that sends to a group with loopback, one with an option that only the kernel
/// supports, and one on the lane.
const MIXED: &str = r#"
import socket, sys, time
looped, errors, plain = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
looped.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
looped.sendto(b'x', ('239.1.2.5', 7300))
errors.bind(('', 7301))
IP_RECVERR = 11
errors.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
plain.sendto(b'x', (sys.argv[2], 7302))
try:
    plain.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
except OSError as error:
    print('too late', error.errno, flush=True)
time.sleep(100)
"#;

#[test]
fn what_goes_by_the_kernel_is_told_with_its_reason() {
    let both = Both::new();
    let mut program = start(both.a(), true, &[python(), "-c", MIXED, &both.pair.a_v4(), &both.pair.b_v4()]);
    program.wait_for("too late 92", TIMEOUT).unwrap();
    let stat = both.a_service.stat().unwrap().json;
    let sockets = stat["lanes"][0]["sockets"].as_array().unwrap().clone();
    let told = |accelerated: bool, reason: &str| {
        let fits = |s: &&serde_json::Value| {
            s["accelerated"] == accelerated && s["reason"].as_str().unwrap_or_default().contains(reason)
        };
        sockets.iter().filter(fits).count()
    };
    assert_eq!(told(true, "IP_MULTICAST_LOOP"), 1, "{sockets:?}");
    assert_eq!(told(false, "IP_RECVERR"), 1, "{sockets:?}");
    assert_eq!(sockets.iter().filter(|s| s["reason"].is_null()).count(), 1, "{sockets:?}");
    program.kill();
}

/// Joins two groups, one per family, and sends to them once itself. Prints all received datagrams
/// when there are `expected` of them, and no more arrive.
const HEAR_ITSELF: &str = r#"
import select, socket, struct, sys
own, expected, device = sys.argv[1], int(sys.argv[2]), socket.if_nametoindex('eth0')
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.bind(('', 7500))
four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.7') + socket.inet_aton(own))
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(('::', 7500))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff02::7') + struct.pack('I', device))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, device)
four.sendto(b'itself', ('239.1.2.7', 7500))
six.sendto(b'itself', ('ff02::7', 7500))
print('joined', flush=True)
heard = []
while ready := select.select([four, six], [], [], 20 if len(heard) < expected else 0.5)[0]:
    heard += [('four' if s is four else 'six') + ' ' + s.recv(100).decode() for s in ready]
print(sorted(heard))
"#;

/// Sends its name to both groups.
const TELL_BOTH: &str = r#"
import socket, sys
own, name, device = sys.argv[1], sys.argv[2].encode(), socket.if_nametoindex('eth0')
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
four.sendto(name, ('239.1.2.7', 7500))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, device)
six.sendto(name, ('ff02::7', 7500))
"#;

/// The kernel loops back datagrams that a program of the host sends to a group, to no lane.
#[test]
fn a_group_is_heard_once_from_the_network_and_from_this_host() {
    let both = Both::new();
    let (own, far) = (both.pair.a_v4(), both.pair.b_v4());
    let mut hearer = start(both.a(), true, &[python(), "-c", HEAR_ITSELF, &own, "8"]);
    hearer.wait_for("joined", TIMEOUT).unwrap();
    start(both.a(), false, &[python(), "-c", TELL_BOTH, &own, "on the kernel"]).success(TIMEOUT).unwrap();
    start(both.a(), true, &[python(), "-c", TELL_BOTH, &own, "on a lane"]).success(TIMEOUT).unwrap();
    start(both.b(), true, &[python(), "-c", TELL_BOTH, &far, "far"]).success(TIMEOUT).unwrap();
    let heard = hearer.success(TIMEOUT).unwrap();
    let expected: Vec<String> = ["four", "six"]
        .iter()
        .flat_map(|family| ["far", "itself", "on a lane", "on the kernel"].map(|name| format!("'{family} {name}'")))
        .collect();
    assert_eq!(heard.trim(), format!("joined\n[{}]", expected.join(", ")));
    assert_eq!(both.a_service.stat().unwrap().number("/host/counters/group_copies"), 2);
}

/// Prints the length of each received datagram, in both families, and that its content is right.
const HEAR_LONG: &str = r#"
import select, socket, struct, sys
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
four.bind(('', 7400))
four.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.6') + socket.inet_aton(sys.argv[1]))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(('::', 7400))
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff15::6') + struct.pack('I', socket.if_nametoindex('eth0')))
print('joined', flush=True)
while True:
    for s in select.select([four, six], [], [])[0]:
        data = s.recv(65536)
        right = data == bytes(n % 251 for n in range(len(data)))
        print(4 if s is four else 6, len(data), right, flush=True)
"#;

/// Sends a datagram of 60000 bytes to each named address, its fragments in reverse order, as a
/// network may deliver them.
const TELL_REVERSED: &str = r#"
import socket, struct, sys
def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff
device, payload = socket.if_nametoindex('eth0'), bytes(n % 251 for n in range(60000))
for name in sys.argv[3:]:
    family = socket.AF_INET6 if ':' in name else socket.AF_INET
    source, to = (socket.inet_pton(family, a) for a in (sys.argv[2 if ':' in name else 1], name))
    udp = struct.pack('!HHHH', 7401, 7400, len(payload) + 8, 0) + payload
    udp = udp[:6] + struct.pack('!H', checksum(source + to + struct.pack('!HH', 17, len(udp)) + udp) or 0xffff) + udp[8:]
    s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    if family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, source)
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, device)
    for start in reversed(range(0, len(udp), 1400)):
        piece, more = udp[start:start + 1400], start + 1400 < len(udp)
        if family == socket.AF_INET:
            ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(piece), 77, start // 8 | more << 13, 64, 17, 0, source, to)
        else:
            ip = struct.pack('!IHBB16s16sBBHI', 6 << 28, 8 + len(piece), 44, 64, source, to, 17, 0, start | more, 77)
        s.sendto(ip + piece, (name, 0))
"#;

#[test]
fn a_groups_datagram_whose_first_fragment_comes_last_arrives_by_the_lane() {
    let both = Both::new();
    let mut hearer = start(both.a(), true, &[python(), "-c", HEAR_LONG, &both.pair.a_v4()]);
    hearer.wait_for("joined", TIMEOUT).unwrap();
    let (from_v4, from_v6) = (both.pair.b_v4(), both.pair.b_v6());
    let tell = [python(), "-c", TELL_REVERSED, &from_v4, &from_v6, "239.1.2.6", "ff15::6"];
    start(both.b(), false, &tell).success(TIMEOUT).unwrap();
    for heard in ["4 60000 True", "6 60000 True"] {
        let waited = hearer.wait_for(heard, TIMEOUT);
        waited.unwrap_or_else(|e| panic!("{e:#}\n{:?}", both.a_service.stat().unwrap().json));
    }
    let stat = both.a_service.stat().unwrap();
    let of = |name: &str| stat.number(name);
    assert_eq!(of("/host/counters/group_copies"), 2 * 43, "{:?}", stat.json);
    assert_eq!(of("/lanes/0/counters/IpReasmOKs"), 2, "{:?}", stat.json);
    assert_eq!(of("/host/counters/stray_fragments"), 0, "{:?}", stat.json);
}

#[test]
fn a_datagram_whose_first_fragment_comes_last_arrives_by_the_kernel() {
    let both = Both::new();
    let mut hearer = start(both.a(), true, &[python(), "-c", HEAR_LONG, &both.pair.a_v4()]);
    hearer.wait_for("joined", TIMEOUT).unwrap();
    let (from_v4, from_v6, to_v4, to_v6) = (both.pair.b_v4(), both.pair.b_v6(), both.pair.a_v4(), both.pair.a_v6());
    let tell = [python(), "-c", TELL_REVERSED, &from_v4, &from_v6, &to_v4, &to_v6];
    start(both.b(), false, &tell).success(TIMEOUT).unwrap();
    for heard in ["4 60000 True", "6 60000 True"] {
        let waited = hearer.wait_for(heard, TIMEOUT);
        waited.unwrap_or_else(|e| panic!("{e:#}\n{:?}", both.a_service.stat().unwrap().json));
    }
    let stat = both.a_service.stat().unwrap();
    assert_eq!(stat.number("/host/counters/stray_fragments"), 2 * 42, "{:?}", stat.json);
    assert_eq!(stat.number("/lanes/0/guard/in_packets"), 0, "{:?}", stat.json);
}

/// Linux lets sockets that share a port have the same peer; the most recently connected one
/// receives the datagrams. (With SO_REUSEPORT it may be any.)
#[test]
fn of_sockets_with_the_same_ends_the_last_to_be_connected_hears_the_peer() {
    const SHARED: &str = r#"
import select, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
sockets, port = [], 0
for _ in range(3):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((sys.argv[2], port))
    port = s.getsockname()[1]
    sockets.append(s)
for connected in (1, 0, 2):
    sockets[connected].connect((sys.argv[1], 7000))
    for question in (b'first', b'second'):
        sockets[connected].send(question)
        ready = select.select(sockets, [], [], 10)[0]
        print(connected, [sockets.index(s) for s in ready], [s.recv(9) for s in ready])
"#;
    let both = Both::new();
    for (ours, theirs) in [(both.pair.a_v4(), both.pair.b_v4()), (both.pair.a_v6(), both.pair.b_v6())] {
        let mut server = start(both.b(), true, &[python(), "-c", ECHO, &theirs]);
        wait_until_listening(both.b(), &mut server, "udp", 7000);
        let run = |accelerated| {
            start(both.a(), accelerated, &[python(), "-c", SHARED, &theirs, &ours]).success(TIMEOUT).unwrap()
        };
        let kernel = run(false);
        let tickwire = crossing(&both.a_service, 6, || run(true));
        assert_eq!(tickwire, kernel);
        assert_eq!(kernel.lines().count(), 6, "{kernel}");
    }
}
