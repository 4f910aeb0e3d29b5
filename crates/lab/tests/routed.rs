//! A router between Tickwire and the kernel that forwards smaller packets than either link carries:
//! it reports that (RFC 1191, RFC 8201), or drops larger packets silently (RFC 8899).

mod common;

use common::{TIMEOUT, crossing, python, start, wait_until_listening};
use tickwire_lab::{CableOptions, Lab, LabHost, Service, ServiceOptions};

/// The router's path MTU; the links carry 1500.
const MTU: u32 = 1400;

/// The hosts' interfaces; the router has both.
const INTERFACES: [&str; 2] = ["eth0", "eth1"];

/// A host on each side of the router, with a service each. The first sends.
struct Routed {
    services: [Service; 2],
    hosts: [LabHost; 2],
    router: LabHost,
}

/// The address of a host, and its subnet.
fn subnet(v6: bool, host: usize) -> (String, String) {
    let side = host + 1;
    if v6 {
        (format!("fd77:{side}::1"), format!("fd77:{side}::/64"))
    } else {
        (format!("10.77.{side}.1"), format!("10.77.{side}.0/24"))
    }
}

impl Routed {
    fn new() -> Self {
        let lab = Lab::new().unwrap();
        let hosts = ["a", "b"].map(|name| lab.host(name).unwrap());
        let router = lab.host("router").unwrap();
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        router.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
        for (number, (host, interface)) in hosts.iter().zip(INTERFACES).enumerate() {
            lab.cable(host, &router, interface, &CableOptions::default()).unwrap();
            for v6 in [false, true] {
                let (own, subnet) = subnet(v6, number);
                let (length, gateway) = (if v6 { 64 } else { 24 }, format!("{own}00"));
                host.address(interface, &format!("{own}/{length}")).unwrap();
                router.address(interface, &format!("{gateway}/{length}")).unwrap();
                host.run(&["ip", "route", "add", "default", "via", &gateway]).unwrap();
                // Replaces the route that came with the address, or precedes it.
                let metric = u8::from(v6);
                let narrow = format!("ip route replace {subnet} dev {interface} metric {metric} mtu lock {MTU}");
                router.run(&narrow.split(' ').collect::<Vec<_>>()).unwrap();
            }
        }
        let services = [0, 1].map(|host| {
            let options = ServiceOptions { interface: INTERFACES[host].into(), ..ServiceOptions::default() };
            Service::start_with(&hosts[host], &options).unwrap()
        });
        Self { services, hosts, router }
    }

    /// From now on the router sends no packets of its own: a rule drops all that were not received
    /// by an interface.
    fn hush(&self) {
        for family in ["-4", "-6"] {
            self.router.run(&["ip", family, "rule", "add", "pref", "1", "iif", "lo", "blackhole"]).unwrap();
        }
    }

    /// Packets that exceeded the router's MTU, and the ICMP errors about them, from the kernel's
    /// counters.
    fn too_big(&self, v6: bool) -> [u64; 2] {
        let counters = if v6 { ["Ip6FragFails", "Icmp6OutPktTooBigs"] } else { ["IpFragFails", "IcmpOutDestUnreachs"] };
        let told = self.router.run(&["nstat", "-asz", "--json"]).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        counters.map(|counter| told["kernel"][counter].as_u64().unwrap())
    }

    /// Data from the first host to the second, one of which is accelerated, checked by the sender.
    /// Returns what the sender then knows (path MTU, MSS), the number of packets that were too
    /// large, and the number of those that the router reported.
    fn send(&self, v6: bool, ours: bool) -> ([u32; 2], [u64; 2]) {
        println!("IPv6: {v6}, Tickwire sends: {ours}");
        // Forgets what the kernel has learnt earlier.
        for family in ["-4", "-6"] {
            self.hosts[0].run(&["ip", family, "route", "flush", "cache"]).unwrap();
        }
        let before = self.too_big(v6);
        let address = subnet(v6, 1).0;
        let mut takes = start(&self.hosts[1], !ours, &[python(), "-c", TAKE, &address]);
        wait_until_listening(&self.hosts[1], &mut takes, "tcp", 9000);
        let service = &self.services[usize::from(!ours)];
        // Segments, or the acknowledgements of a kernel that merges them.
        let known = crossing(service, if ours { 8 } else { 200 }, || {
            let mut sends = start(&self.hosts[0], ours, &[python(), "-c", SEND, &address]);
            sends.success(TIMEOUT).unwrap_or_else(|error| panic!("{error:#}\nreceiver: {}", takes.stderr()))
        });
        takes.success(TIMEOUT).unwrap();
        let known: Vec<u32> = known.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let after = self.too_big(v6);
        ([known[0], known[1]], [after[0] - before[0], after[1] - before[1]])
    }
}

/// The payload of a packet, without both headers and timestamps.
fn payload(v6: bool, mtu: u32) -> u32 {
    mtu - if v6 { 40 } else { 20 } - 20 - 12
}

/// Sends data, checks the receiver's digest of it, and prints the path MTU and the MSS of `struct
/// tcp_info`.
const SEND: &str = r#"
import hashlib, os, socket, struct, sys
with socket.create_connection((sys.argv[1], 9000), timeout=25) as s:
    data = os.urandom(300_000)
    s.sendall(data)
    assert s.recv(32, socket.MSG_WAITALL) == hashlib.sha256(data).digest()
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    print(*(struct.unpack_from('=I', info, at)[0] for at in (60, 16)))
"#;

/// Receives it, and answers with its digest.
const TAKE: &str = r#"
import hashlib, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], 9000), family=family) as listener:
    s, _ = listener.accept()
s.settimeout(25)
data = b''
while len(data) < 300_000:
    data += s.recv(65536)
s.sendall(hashlib.sha256(data).digest())
assert s.recv(1) == b''
"#;

#[test]
fn what_a_router_says_fits_is_what_is_sent_between_the_kernel_and_ours() {
    let routed = Routed::new();
    for v6 in [false, true] {
        for ours in [true, false] {
            let (known, [too_big, told]) = routed.send(v6, ours);
            assert_eq!(known, [MTU, payload(v6, MTU)], "path MTU and largest segment");
            assert!(too_big > 0 && told > 0, "{too_big} packets too large, {told} messages of it");
        }
    }
}

/// The kernel detects black holes only if configured to.
#[test]
fn data_gets_past_a_router_that_drops_large_packets_silently_between_the_kernel_and_ours() {
    let routed = Routed::new();
    routed.hosts[0].sysctl("net.ipv4.tcp_mtu_probing", "1").unwrap();
    routed.hush();
    for v6 in [false, true] {
        for ours in [true, false] {
            let ([_, segment], [too_big, told]) = routed.send(v6, ours);
            assert!(segment <= payload(v6, MTU), "segments of {segment} bytes");
            assert!(too_big > 0 && told == 0, "{too_big} packets too large, {told} messages of it");
        }
    }
}
