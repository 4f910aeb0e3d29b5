//! A plain program of Winsock, on the kernel's sockets and on the lane in turn. The service's
//! counters prove which.

use super::lane::{self, Driver};
use crate::windows::build::Profile;
use crate::windows::lab_programs;
use crate::windows::wine::windows_path;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickwire_lab::{LabPair, Process, tools};

/// Within this a program has done its work.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const PORT: u16 = 7;

/// What Windows tells of a connection that was reset.
const REPEATED: [&str; 1] = ["a reset is repeated"];

/// Connections in a row.
const CONNECTIONS: u32 = 200;

/// Messages of each kind.
const COUNT: u32 = 1000;

/// What `select` and `WSAPoll` tell of failures and ends.
const AS_ON_WINDOWS: [&str; 6] =
    ["an exception alone", "waits", "hung up, failed, writable", "no time below zero", "data and the end", "\nthe end"];

/// A file that cargo has built.
pub(super) fn built(name: &str) -> Result<PathBuf> {
    Profile::Debug.windows(name)
}

/// Host a, with Wine, and the service; host b has a kernel.
pub(super) struct Hosts {
    // In the order in which they are to end.
    pub(super) service: Process,
    wine: WineHost,
    pub(super) pair: LabPair,
}

impl Hosts {
    pub(super) fn new(driver: Driver) -> Result<Self> {
        Self::behind(driver, &[])
    }

    /// Host a has a firewall that blocks these ports.
    fn behind(driver: Driver, blocked: &[u16]) -> Result<Self> {
        let pair = LabPair::new()?;
        let wine = WineHost::new(&pair.a)?;
        let service = driver.service_behind(&wine, blocked)?;
        Ok(Self { service, wine, pair })
    }

    /// A program of the lab on host a, on the lane or on the kernel's sockets.
    pub(super) fn run(&self, program: &str, on_lane: bool, arguments: &[&str]) -> Result<Process> {
        self.run_file(&lab_programs::program(program)?, on_lane, arguments)
    }

    /// As [`Self::run`], for any Windows program.
    pub(super) fn run_file(&self, program: &Path, on_lane: bool, arguments: &[&str]) -> Result<Process> {
        let mut command = if on_lane {
            let mut launcher = self.wine.command(&built("examples/launch.exe")?);
            launcher.args(["--require", &windows_path(&built("tickwire_winsock.dll")?), &windows_path(program)]);
            launcher
        } else {
            self.wine.command(program)
        };
        command.args(arguments);
        Process::spawn(command)
    }

    /// Runs a program on host a as a server of echo, at this address. Host b uses it, then says
    /// `end`. Afterwards its port is free.
    pub(super) fn serve(&self, program: &str, on_lane: bool, arguments: &[&str], address: &str) -> Result<()> {
        self.serve_file(&lab_programs::program(program)?, on_lane, arguments, address)
    }

    /// As [`Self::serve`], for any Windows program.
    pub(super) fn serve_file(&self, program: &Path, on_lane: bool, arguments: &[&str], address: &str) -> Result<()> {
        let lanes = self.ended_lanes() + usize::from(on_lane);
        let mut process = self.run_file(program, on_lane, arguments)?;
        process.wait_for("ready", TIMEOUT)?;
        let open = self.pair.b.within(|| lane::exercise(address))?;
        let open = open.with_context(|| format!("{arguments:?}, on the lane: {on_lane}: {}", process.stdout()))?;
        self.pair.b.within(|| lane::connected(address)?.send(b"end").context("cannot send"))??;
        process.success(TIMEOUT)?;
        drop(open);
        // The service keeps the port until the lane has ended.
        self.packets(lanes).map(drop)
    }

    /// How many lanes have ended.
    fn ended_lanes(&self) -> usize {
        self.service.stdout().matches("a lane has ended").count()
    }

    /// What all lanes that have ended have received and sent.
    pub(super) fn packets(&self, lanes: usize) -> Result<[u64; 2]> {
        tools::until("the lanes end", TIMEOUT, || self.ended_lanes() >= lanes)?;
        let output = self.service.stdout();
        let sum = |name: &str| -> u64 {
            let figures = output.split([' ', '\n']).filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            figures.filter_map(|figure| figure.parse::<u64>().ok()).sum()
        };
        for name in ["refused", "malformed"] {
            ensure!(sum(name) == 0, "{name}: {output}");
        }
        Ok([sum("in_packets"), sum("out_packets")])
    }
}

/// As a client: messages, a stream, a refused connection, and calls that do not block.
pub(super) fn client() -> Result<()> {
    client_by(Driver::LabCard)
}

/// As [`client`], with the stand-in for WinDivert.
pub(super) fn client_by_windivert() -> Result<()> {
    client_by(Driver::WinDivert)
}

fn client_by(driver: Driver) -> Result<()> {
    let hosts = Hosts::new(driver)?;
    let address = hosts.pair.b_v4();
    let _server = peer(&hosts.pair, &address)?;
    for &on_lane in driver.turns() {
        for (kind, as_on_windows) in [("client", &["again"][..]), ("select", &AS_ON_WINDOWS), ("reset", &REPEATED)] {
            let count = COUNT.to_string();
            let mut program = hosts.run("plain", on_lane, &[kind, &address, &PORT.to_string(), &count])?;
            program.wait_for("done", TIMEOUT).with_context(|| format!("{kind}, on the lane: {on_lane}"))?;
            // As Windows has it, and Wine's own sockets do not.
            for expected in as_on_windows {
                ensure!(!on_lane || program.stdout().contains(expected), "{expected}: {}", program.stdout());
            }
            program.success(TIMEOUT)?;
        }
    }
    let [received, sent] = hosts.packets(3)?;
    ensure!(received > u64::from(2 * COUNT) && sent > u64::from(2 * COUNT), "the lane has had {received} and {sent}");
    Ok(())
}

/// As a server, for a client on the kernel of another host.
pub(super) fn server() -> Result<()> {
    server_by(Driver::LabCard)
}

/// As [`server`], with the stand-in for WinDivert.
pub(super) fn server_by_windivert() -> Result<()> {
    server_by(Driver::WinDivert)
}

fn server_by(driver: Driver) -> Result<()> {
    let mut hosts = Hosts::new(driver)?;
    let address = hosts.pair.a_v4();
    for &on_lane in driver.turns() {
        hosts.serve("plain", on_lane, &["server", &address, &PORT.to_string()], &address)?;
    }
    let [received, sent] = hosts.packets(1)?;
    ensure!(received > 1000 && sent > 1000, "the lane has had {received} and {sent}");
    hosts.service.kill();
    Ok(())
}

/// The sockets of a server at a port that the firewall blocks stay on the kernel, and the reason is
/// shown. (The firewall is a stand-in, which the kernel's sockets do not see.)
pub(super) fn blocked_server() -> Result<()> {
    let mut hosts = Hosts::behind(Driver::LabCard, &[PORT])?;
    let address = hosts.pair.a_v4();
    hosts.serve("plain", true, &["server", &address, &PORT.to_string()], &address)?;
    let packets = hosts.packets(1)?;
    ensure!(packets == [0, 0], "the lane has had packets: {packets:?}");
    let log = hosts.service.stdout();
    let reason = "reason=Windows' firewall blocks incoming packets for this program and port";
    ensure!(log.contains("sockets stay on the kernel") && log.contains(reason), "{log}");
    hosts.service.kill();
    Ok(())
}

/// Connections, one after the other, come from the block of ports that the driver takes as a whole:
/// none of them opens a handle of WinDivert.
pub(super) fn connections_by_windivert() -> Result<()> {
    let hosts = Hosts::new(Driver::WinDivert)?;
    let address = hosts.pair.b_v4();
    let _server = peer(&hosts.pair, &address)?;
    let count = CONNECTIONS.to_string();
    let mut program = hosts.run("plain", true, &["connects", &address, &PORT.to_string(), &count])?;
    // Each claim looks at the kernel's tables, which takes Wine long on a busy machine.
    program.wait_for("done", 6 * TIMEOUT)?;
    program.success(TIMEOUT)?;
    let [received, sent] = hosts.packets(1)?;
    // Those of a connection, at least: three to open it, two with bytes, and its end.
    ensure!(received > u64::from(2 * CONNECTIONS), "the lane has had {received}");
    ensure!(sent > u64::from(3 * CONNECTIONS), "the lane has sent {sent}");
    let opened = hosts.service.stderr().matches("WinDivert: a handle is opened").count();
    ensure!((1..=4).contains(&opened), "{opened} handles were opened for {CONNECTIONS} connections");
    println!("{CONNECTIONS} connections, {opened} handles of WinDivert");
    Ok(())
}

/// Echoes on host b, at port [`PORT`].
pub(super) fn peer(pair: &LabPair, address: &str) -> Result<Process> {
    let mut server = pair.b.spawn(&["python3", "-c", ECHO, address, &PORT.to_string()])?;
    server.wait_for("ready", TIMEOUT)?;
    Ok(server)
}

/// Echoes datagrams and streams at an address and port.
pub(super) const ECHO: &str = r#"
import socket, sys, threading
here = (sys.argv[1], int(sys.argv[2]))
family = socket.AF_INET6 if ":" in here[0] else socket.AF_INET
udp = socket.socket(family, socket.SOCK_DGRAM)
udp.bind(here)
def datagrams():
    while True:
        data, peer = udp.recvfrom(65536)
        udp.sendto(data, peer)
def stream(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(65536):
        if data == b"reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            break
        peer.sendall(data)
    peer.close()
threading.Thread(target=datagrams, daemon=True).start()
tcp = socket.create_server(here, family=family, backlog=100)
print("ready", flush=True)
while True:
    threading.Thread(target=stream, args=(tcp.accept()[0],), daemon=True).start()
"#;
