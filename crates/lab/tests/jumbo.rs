//! Interfaces with jumbo frames: the stack fills them.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};
use tickwire_lab::{CableOptions, ServiceOptions};

/// Sends four megabytes in which swapped pieces would show, receives them back, and stays.
const STREAM: &str = r#"
import hashlib, socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 7001))
s.listen()
data = b''.join(hashlib.sha256(n.to_bytes(4, 'big')).digest() for n in range(131072))
kept = []
while True:
    c, _ = s.accept()
    c.sendall(data)
    back = b''
    while len(back) < len(data) and (piece := c.recv(1 << 20)):
        back += piece
    c.sendall(b'y' if back == data else b'n')
    kept.append(c)
"#;

const RETURN: &str = r#"
import socket, sys
with socket.create_connection((sys.argv[1], 7001), timeout=20) as s:
    data = b''
    while len(data) < 4 << 20:
        data += s.recv(1 << 20)
    s.sendall(data)
    print(s.recv(1).decode())
    sys.stdout.flush()
    sys.stdin.read()
"#;

#[test]
fn segments_of_a_stream_fill_jumbo_frames() {
    let both = Both::with(&CableOptions { mtu: 9000, ..CableOptions::default() }, &ServiceOptions::default());
    let stat = || both.b_service.stat().unwrap().json;
    if stat()["host"]["interfaces"].to_string().contains("Linux 6.6") {
        println!("an older kernel does not hand out frames in pieces: the interface stays with it");
        return;
    }
    for address in [both.pair.b_v4(), both.pair.b_v6()] {
        let mut server = start(both.b(), true, &[python(), "-c", STREAM, &address]);
        wait_until_listening(both.b(), &mut server, "tcp", 7001);
        for accelerated in [true, false] {
            // A kernel's segments may arrive merged, up to 64 KiB at a time.
            let (_client, came_back) = crossing(&both.b_service, 60, || {
                let mut client = start(both.a(), accelerated, &[python(), "-c", RETURN, &address]);
                let came_back = client.wait_for("y", TIMEOUT);
                (client, came_back)
            });
            came_back
                .unwrap_or_else(|e| panic!("client accelerated: {accelerated}: {e:#}\nserver: {}", server.stderr()));
            let stat = stat();
            let lanes = stat["lanes"].as_array().unwrap().iter();
            let sockets = lanes.flat_map(|lane| lane["sockets"].as_array().unwrap().iter());
            let streams: Vec<_> = sockets.filter(|s| s["tcp"]["mss"].as_u64().is_some_and(|mss| mss > 8_000)).collect();
            assert!(!streams.is_empty(), "{stat:#}");
            for stream in streams {
                let [bytes, packets] = ["tx_bytes", "tx_packets"].map(|name| stream[name].as_u64().unwrap());
                // Including acknowledgements of the echoed data, which are at most as many again.
                assert!(bytes > 4 << 20 && bytes / packets > 3_000, "{stream:#}");
            }
        }
    }
}
