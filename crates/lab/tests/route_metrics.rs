//! Metrics of a route (`ip route ... advmss`, `initcwnd`, `initrwnd`, `hoplimit`, `rto_min`) apply
//! to its connections and datagrams, as on the kernel.

mod common;

use common::{TIMEOUT, python, start};
use tickwire_lab::{LabHost, LabPair, Service};

/// A peer without a kernel stack: it answers a SYN, acknowledges nothing, and prints the packets it
/// has seen after a while without new ones.
const PEER: &str = r#"
import json, select, socket, struct, sys, time
own = sys.argv[1]
six = ':' in own
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('eth0', 0))
print('ready', flush=True)
def total(data):
    if len(data) % 2: data += b'\0'
    n = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while n >> 16: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def parse(frame):
    kind = struct.unpack('!H', frame[12:14])[0]
    ip = frame[14:]
    if kind == 0x86dd and six: return ip[6], ip[7], ip[8:24], ip[24:40], ip[40:40 + struct.unpack('!H', ip[4:6])[0]]
    if kind == 0x0800 and not six: return ip[9], ip[8], ip[12:16], ip[16:20], ip[20:struct.unpack('!H', ip[2:4])[0]]
def answer(frame, source, peer, tcp):
    a, b, seq = struct.unpack('!HHI', tcp[:8])
    head = struct.pack('!HHIIBBHHH', b, a, 7000, seq + 1 & 0xffffffff, 6 << 4, 0x12, 65535, 0, 0) + struct.pack('!BBH', 2, 4, 1000)
    pseudo = source + peer + (struct.pack('!II', len(head), 6) if six else struct.pack('!HH', 6, len(head)))
    head = head[:16] + struct.pack('!H', total(pseudo + head)) + head[18:]
    if six: ip = struct.pack('!IHBB', 6 << 28, len(head), 6, 64) + source + peer
    else:
        ip = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(head), 0, 0, 64, 6, 0) + source + peer
        ip = ip[:10] + struct.pack('!H', total(ip)) + ip[12:]
    s.send(frame[6:12] + frame[:6] + frame[12:14] + ip + head)
seen, connections = dict(udp=[]), {}
def note(frame):
    now = time.monotonic()
    parsed = parse(frame)
    if not parsed: return
    protocol, hops, peer, source, rest = parsed
    if socket.inet_ntop(socket.AF_INET6 if six else socket.AF_INET, source) != own: return
    if protocol == 17: seen['udp'].append((struct.unpack('!H', rest[2:4])[0], hops))
    if protocol != 6: return
    port, _, seq = struct.unpack('!HHI', rest[:8])
    header, flags = (rest[12] >> 4) * 4, rest[13]
    if flags & 2:
        options, mss = rest[20:header], 0
        while options and options[0]:
            if options[0] == 2: mss = struct.unpack('!H', options[2:4])[0]
            options = options[1:] if options[0] == 1 else options[options[1]:]
        connections[port] = dict(begin=seq + 1, end=seq + 1, last=now, again=None, mss=mss, window=struct.unpack('!H', rest[14:16])[0], hops=hops)
        return answer(frame, source, peer, rest)
    c, data = connections.get(port), len(rest) - header
    if not c or not data: return
    c['hops'] = min(c['hops'], hops)
    if seq + data > c['end']: c['end'], c['last'] = seq + data, now
    elif c['again'] is None: c['again'] = now
while select.select([s], [], [], 20)[0]:
    note(s.recv(65536))
    if len(connections) == 2 and len(seen['udp']) == 2 and all(c['again'] for c in connections.values()): break
seen['udp'].sort()
seen['tcp'] = [dict(mss=c['mss'], window=c['window'], hops=c['hops'], segments=-(-(c['end'] - c['begin']) // 1000)) for c in connections.values()]
print('seen', json.dumps(seen), flush=True)
print('again after', int(min(c['again'] - c['last'] for c in connections.values()) * 1000), 'ms', flush=True)
"#;

/// Sends datagrams and much data on two connections: without a hop limit of its own, and with one.
const CLIENT: &str = r#"
import socket, sys, time
to = sys.argv[1]
six = ':' in to
kept = []
for number, hops in enumerate([None, 33]):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind)
        if hops and six: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
        elif hops: s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
        if kind == socket.SOCK_DGRAM: s.sendto(b'x', (to, 7600 + number))
        else:
            s.settimeout(20)
            s.connect((to, 80))
            s.setblocking(False)
            s.send(bytes(30000))
        kept.append(s)
print('sent', flush=True)
time.sleep(60)
"#;

/// What the peer has seen of a client, and the milliseconds until the first retransmission.
fn seen(pair: &LabPair, accelerated: bool, to: &str) -> (String, u64) {
    let mut peer = start(&pair.b, false, &[python(), "-c", PEER, to]);
    peer.wait_for("ready", TIMEOUT).unwrap();
    let mut client = start(&pair.a, accelerated, &[python(), "-c", CLIENT, to]);
    client.wait_for("sent", TIMEOUT).unwrap_or_else(|e| panic!("{e:#}\n{}", client.stderr()));
    peer.wait_for(" ms", TIMEOUT).unwrap();
    let said = peer.stdout();
    let line = |begin: &str| said.lines().find_map(|line| line.strip_prefix(begin)).unwrap().to_owned();
    let again = line("again after ").trim_end_matches(" ms").parse().unwrap();
    (line("seen "), again)
}

fn mac(host: &LabHost) -> String {
    let said: serde_json::Value =
        serde_json::from_str(&host.run(&["ip", "-json", "link", "show", "eth0"]).unwrap()).unwrap();
    said[0]["address"].as_str().unwrap().to_owned()
}

#[test]
fn metrics_of_routes_are_those_of_the_kernel() {
    let pair = LabPair::new().unwrap();
    let run = |command: &str| pair.a.run(&command.split(' ').collect::<Vec<_>>()).unwrap();
    let there = mac(&pair.b);
    let service = Service::start(&pair.a).unwrap();
    for (family, to) in [("-4", "10.77.0.50"), ("-6", "fd77::50")] {
        run(&format!("ip {family} neigh replace {to} lladdr {there} dev eth0 nud permanent"));
        for set in
            ["", " advmss 900 initcwnd 2 initrwnd 3 hoplimit 9 rto_min 500ms quickack 1", " initcwnd 5 advmss 1200"]
        {
            run(&format!("ip {family} route replace {to} dev eth0{set}"));
            let (by_kernel, _) = seen(&pair, false, to);
            let before = service.stat().unwrap();
            let (by_lane, again) = seen(&pair, true, to);
            let diverted = service.stat().unwrap().diverted() - before.diverted();
            println!("{to}{set}: {by_lane}, again after {again} ms, {diverted} diverted");
            // The two stacks have different default windows.
            if set.contains("initrwnd") {
                assert_eq!(by_lane, by_kernel, "{to}{set}");
                assert!(by_lane.contains(r#""window": 2700"#) && again >= 500, "{by_lane}, again after {again} ms");
            }
            let without_window = |seen: &str| {
                let mut seen: serde_json::Value = serde_json::from_str(seen).unwrap();
                for connection in seen["tcp"].as_array_mut().unwrap() {
                    connection["window"].take();
                }
                seen
            };
            assert_eq!(without_window(&by_lane), without_window(&by_kernel), "{to}{set}");
            // The answers to both SYNs.
            assert!(diverted >= 2, "{diverted} packets crossed the stack");
        }
    }
}
