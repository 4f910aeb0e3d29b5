//! A process that ends: what it has sent arrives, and its other threads are told of nothing.

use super::lane::Driver;
use super::plain::{Hosts, PORT, TIMEOUT};
use anyhow::{Context, Result, ensure};

/// So much the program sends before it ends.
const SENT: u32 = 400_000;

/// On the kernel's sockets and on the lane.
pub(super) fn ends() -> Result<()> {
    let hosts = Hosts::new(Driver::LabCard)?;
    let (address, port) = (hosts.pair.b_v4(), PORT.to_string());
    for on_lane in [false, true] {
        let mut peer = hosts.pair.b.spawn(&["python3", "-c", PEER, &address, &port])?;
        peer.wait_for("ready", TIMEOUT)?;
        let mut program = hosts.run("exits", on_lane, &[&address, &port])?;
        let ended = program.success(TIMEOUT);
        ended.with_context(|| format!("on the lane: {on_lane}: {}", program.stdout()))?;
        let told = program.stdout();
        ensure!(told.trim() == "exiting", "on the lane: {on_lane}: threads were told: {told}");
        peer.wait_for("has", TIMEOUT)?;
        let had = peer.stdout();
        ensure!(had.contains(&format!("has {SENT}")), "on the lane: {on_lane}: the peer {had}");
    }
    let [received, sent] = hosts.packets(1)?;
    ensure!(received > 10 && sent > 10, "the lane has had {received} and {sent}");
    Ok(())
}

/// Reads slowly what comes after an `s`, and says how much that was; sends nothing.
const PEER: &str = r#"
import socket, sys, threading, time
def stream(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    is_counted = peer.recv(1) == b"s"
    time.sleep(0.3)
    count = 0
    try:
        while data := peer.recv(16384):
            count += len(data)
            time.sleep(0.005)
    except ConnectionResetError:
        pass
    if is_counted:
        print("has", count, flush=True)
tcp = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
print("ready", flush=True)
while True:
    threading.Thread(target=stream, args=(tcp.accept()[0],), daemon=True).start()
"#;
