//! Programs that read the wire (GigE Vision, by Aravis): packets of their UDP ports reach their
//! packet and raw sockets as on the kernel, and their connections stay on the lane.

mod common;

use common::{Both, TIMEOUT, crossing, python, server, start, wait_until_listening};

/// Opens a stream, then a UDP socket and a socket that reads the wire, in either order. Counts what
/// both receive at port 9100, and continues with the stream.
const READER: &str = r#"
import select, socket, sys, time
order, kind, own, peer = sys.argv[1:]
def trips(n):
    for _ in range(n):
        stream.sendall(b'question')
        assert stream.recv(8, socket.MSG_WAITALL) == b'question'
def answered(s):
    # The packets of this end contain no marker.
    s.sendto(b'question', (peer, 9000))
    assert s.recv(100) == b'question'
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.bind((own, 9100))
    answered(s)
    return s
def packets():
    if kind == 'raw':
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    if kind == 'bound':
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        s.bind(('eth0', 0x0800))
        return s
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
stream = socket.create_connection((peer, 9000), timeout=10)
trips(20)
if order == 'datagrams':
    d = datagrams()
    p = packets()
else:
    p = packets()
    d = datagrams()
print('ready', flush=True)
seen = {d: 0, p: 0}
end = time.monotonic() + 20
while min(seen.values()) < 20 and time.monotonic() < end:
    for s in select.select([d, p], [], [], 1)[0]:
        seen[s] += b'marker' in s.recv(2048)
answered(d)
late = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
late.settimeout(10)
answered(late)
trips(20)
print('datagrams', seen[d], 'packets', seen[p], flush=True)
time.sleep(60)
"#;

/// Sends the datagrams that [`READER`] counts.
const SENDER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(20):
    s.sendto(b'marker %d' % n, (sys.argv[1], 9100))
";

/// The program's output, run in this way; on Tickwire also its sockets in `tickwire stat`:
/// protocol, whether accelerated, and why not.
fn read(both: &Both, accelerated: bool, order: &str, kind: &str) -> (String, Vec<(String, bool, String)>) {
    let (own, peer) = (both.pair.a_v4(), both.pair.b_v4());
    let mut reader = start(both.a(), accelerated, &[python(), "-c", READER, order, kind, &own, &peer]);
    reader.wait_for("ready\n", TIMEOUT).unwrap();
    start(both.b(), false, &[python(), "-c", SENDER, &own]).success(TIMEOUT).unwrap();
    reader.wait_for("packets", TIMEOUT).unwrap_or_else(|e| panic!("{order} {kind}: {e:#}"));
    let stat = both.a_service.stat().unwrap();
    let lanes = stat.lanes_of_group(reader.id());
    let sockets = lanes.iter().flat_map(|lane| lane["sockets"].as_array().unwrap());
    let shown = |key: &str, socket: &serde_json::Value| socket[key].as_str().unwrap_or_default().to_owned();
    let sockets = sockets
        .map(|socket| (shown("protocol", socket), socket["accelerated"].as_bool().unwrap(), shown("reason", socket)));
    let sockets = sockets.collect();
    (reader.stdout(), sockets)
}

#[test]
fn a_program_that_reads_the_wire_sees_the_packets_of_its_udp_ports() {
    let both = Both::new();
    let mut server = server(&both);
    wait_until_listening(both.b(), &mut server, "udp", 9000);
    for (order, kind) in [
        ("packets", "packet"),
        ("datagrams", "packet"),
        ("packets", "raw"),
        ("datagrams", "raw"),
        ("datagrams", "bound"),
    ] {
        let (kernel, _) = read(&both, false, order, kind);
        assert_eq!(kernel, "ready\ndatagrams 20 packets 20\n", "{order} {kind}");
        // The stream's answers, and that of a datagram from before the program read the wire.
        let (tickwire, sockets) = crossing(&both.a_service, 40, || read(&both, true, order, kind));
        assert_eq!(tickwire, kernel, "{order} {kind}");
        println!("{order} {kind}: {sockets:?}");
        let of = |wanted: &'static str| sockets.iter().filter(move |(protocol, ..)| protocol == wanted);
        assert_eq!((of("tcp").count(), of("udp").count()), (1, 2), "{sockets:?}");
        assert!(of("tcp").all(|&(_, accelerated, _)| accelerated), "{sockets:?}");
        assert!(of("udp").all(|(_, accelerated, reason)| !accelerated && reason.contains("SOCK_RAW")), "{sockets:?}");
    }
}
