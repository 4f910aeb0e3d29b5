//! Programs that read the wire (GigE Vision, by Aravis): the packets of their UDP ports come to
//! their packet and raw sockets as they do on the kernel, and their connections stay on the lane.

mod common;

use common::{Both, PATIENCE, bound, crossing, python, server, start};

/// Opens a stream, then a UDP socket and a socket that reads the wire, in this or the other order.
/// Takes what comes to port 9100 by both, and tells how much it was. Goes on with the stream.
const READER: &str = r#"
import select, socket, sys, time
order, kind, own, peer = sys.argv[1:]
def trips(n):
    for _ in range(n):
        stream.sendall(b'question')
        assert stream.recv(8, socket.MSG_WAITALL) == b'question'
def answered(s):
    # The packets of this end are no marker.
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

/// Sends what [`READER`] counts.
const SENDER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(20):
    s.sendto(b'marker %d' % n, (sys.argv[1], 9100))
";

/// What the program says, run in this way; on Tickwire also what `tickwire stat` says of its
/// sockets: protocol, whether it is accelerated, and why not.
fn read(both: &Both, accelerated: bool, order: &str, kind: &str) -> (String, Vec<(String, bool, String)>) {
    let (own, peer) = (both.pair.a_v4(), both.pair.b_v4());
    let mut reader = start(both.a(), accelerated, &[python(), "-c", READER, order, kind, &own, &peer]);
    reader.wait_for("ready\n", PATIENCE).unwrap();
    start(both.b(), false, &[python(), "-c", SENDER, &own]).success(PATIENCE).unwrap();
    reader.wait_for("packets", PATIENCE).unwrap_or_else(|e| panic!("{order} {kind}: {e:#}"));
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
    bound(both.b(), &mut server, "udp", 9000);
    for (order, kind) in [
        ("packets", "packet"),
        ("datagrams", "packet"),
        ("packets", "raw"),
        ("datagrams", "raw"),
        ("datagrams", "bound"),
    ] {
        let (kernel, _) = read(&both, false, order, kind);
        assert_eq!(kernel, "ready\ndatagrams 20 packets 20\n", "{order} {kind}");
        // The stream's answers, and a datagram's that came before the program read the wire.
        let (tickwire, sockets) = crossing(&both.a_service, 40, || read(&both, true, order, kind));
        assert_eq!(tickwire, kernel, "{order} {kind}");
        println!("{order} {kind}: {sockets:?}");
        let of = |wanted: &'static str| sockets.iter().filter(move |(protocol, ..)| protocol == wanted);
        assert_eq!((of("tcp").count(), of("udp").count()), (1, 2), "{sockets:?}");
        assert!(of("tcp").all(|&(_, accelerated, _)| accelerated), "{sockets:?}");
        assert!(of("udp").all(|(_, accelerated, reason)| !accelerated && reason.contains("SOCK_RAW")), "{sockets:?}");
    }
}
