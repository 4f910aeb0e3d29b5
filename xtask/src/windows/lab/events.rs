//! A program that waits for network events, by event objects and by messages to a window, on the
//! kernel's sockets and on the lane in turn. The service's counters prove which.

use super::lane::Driver;
use super::plain::Hosts;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tickwire_lab::tools;

/// Within this a program has done its work.
const TIMEOUT: Duration = Duration::from_secs(40);

const PORT: u16 = 7;

/// Bytes of the stream that the client sends and receives, and their packets at least.
const AMOUNT: u64 = 16 << 20;
const PACKETS: u64 = AMOUNT / 1448;

/// How the program is told.
const WAYS: [&str; 2] = ["objects", "window"];

/// As a client: connections, data, room, ends and failures.
pub(super) fn client() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.b_v4();
    let server = hosts.pair.b.spawn(&["python3", "-c", PEER, &address, &PORT.to_string()])?;
    tools::until("the peer listens", TIMEOUT, || server.stdout().contains("ready"))?;
    for (on_lane, way) in [false, true].into_iter().flat_map(|on_lane| WAYS.map(|way| (on_lane, way))) {
        let mut program = hosts.run("events", on_lane, &[way, "client", &address, &PORT.to_string()])?;
        program.wait_for("done", TIMEOUT).with_context(|| format!("{way}, on the lane: {on_lane}"))?;
        // As Windows has it, and Wine's own sockets not always.
        for expected in ["told anew", "room again", "the end after the data", "reset", "again"] {
            ensure!(!on_lane || program.stdout().contains(expected), "{expected}: {}", program.stdout());
        }
        program.success(TIMEOUT)?;
    }
    let [received, sent] = hosts.packets(2)?;
    ensure!(received > 2 * PACKETS && sent > 2 * PACKETS, "the lane has had {received} and {sent}");
    Ok(())
}

/// As a server of one thread, for a client on the kernel of another host.
pub(super) fn server() -> Result<()> {
    let mut hosts = Hosts::new(Driver::LabCard)?;
    let address = hosts.pair.a_v4();
    // On the lane first: connections that the kernel still has for the port, in TIME-WAIT, keep it.
    for (on_lane, way) in [true, false].into_iter().flat_map(|on_lane| WAYS.map(|way| (on_lane, way))) {
        hosts.serve("events", on_lane, &[way, "server", &address, &PORT.to_string()], &address)?;
    }
    let [received, sent] = hosts.packets(2)?;
    ensure!(received > 2 * PACKETS && sent > 2 * PACKETS, "the lane has had {received} and {sent}");
    hosts.service.kill();
    Ok(())
}

/// Echoes datagrams and streams at an address and port. A single `R` is answered by a reset, `U` by
/// an urgent byte.
const PEER: &str = r#"
import socket, struct, sys, threading
here = (sys.argv[1], int(sys.argv[2]))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(here)
def datagrams():
    while True:
        data, peer = udp.recvfrom(65536)
        udp.sendto(data, peer)
def stream(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    while data := peer.recv(65536):
        if data == b"R":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            break
        elif data == b"U":
            peer.send(b"u", socket.MSG_OOB)
        else:
            peer.sendall(data)
    peer.close()
threading.Thread(target=datagrams, daemon=True).start()
tcp = socket.create_server(here, backlog=100)
print("ready", flush=True)
while True:
    threading.Thread(target=stream, args=(tcp.accept()[0],), daemon=True).start()
"#;
