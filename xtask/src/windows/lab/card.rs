//! The lab card, seen from the other end of its cable.

use crate::windows::lab_card;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, bail, ensure};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;
use tickwire_lab::{CableOptions, LabHost, LabPair, tools};

/// Within this a packet is answered, and a program says what it has done.
const TIMEOUT: Duration = Duration::from_secs(5);

/// UDP's echo port.
const PORT: u16 = 7;

/// A datagram that the program gives back to host a's kernel.
const GIVEN_BACK: [u8; 64] = [0xff; 64];

/// A Windows program answers datagrams for the port that it has claimed, and host a's kernel those
/// for others and those that the program gives back (it refuses them). The program knows which
/// frames are longer than its buffer, and which are of a VLAN. When it is killed, the port is the
/// kernel's again.
pub(super) fn claims() -> Result<()> {
    let pair = LabPair::with(&CableOptions { mtu: 9000, ..CableOptions::default() })?;
    let wine = WineHost::new(&pair.a)?;
    let mut program = wine.spawn(&lab_card::echo()?, &["eth0", &PORT.to_string()])?;
    program.wait_for("ready: ", TIMEOUT)?;
    ensure!(program.stdout().contains("MTU 9000"), "the card is another: {}", program.stdout());
    let address = pair.a_v4();
    let [claimed, other] = [PORT, PORT + 2].map(|port| pair.b.within(|| connected(&address, port)));
    let (claimed, other) = (claimed??, other??);
    for number in 0..1000_u16 {
        let sent = [number.to_le_bytes()[0] & 0x7f; 64];
        let answer = exchange(&claimed, &sent).with_context(|| format!("datagram {number}"))?;
        ensure!(answer.as_deref() == Some(&sent), "datagram {number} was answered by {answer:?}");
    }
    ensure!(refusals(&pair.a)? == 0, "the kernel has refused datagrams for a claimed port");
    ensure!(exchange(&other, &[0; 64])?.is_none(), "the kernel answers on a port without a socket");
    ensure!(refusals(&pair.a)? == 1, "the kernel does not count what it refuses");
    ensure!(exchange(&claimed, &GIVEN_BACK)?.is_none(), "what was given back is answered");
    ensure!(refusals(&pair.a)? == 2, "the kernel does not have once what was given back");
    ensure!(exchange(&claimed, &[1; 64])?.is_some(), "the claim has ended");
    claimed.send(&[0; 4000])?;
    program.wait_for("4042 bytes, 2048 of them in the buffer", TIMEOUT)?;
    pair.b.run(&["python3", "-c", TAGGED, "eth0", "5"])?;
    program.wait_for("vlan 5", TIMEOUT)?;
    program.kill();
    tools::until("the port is the kernel's again", TIMEOUT, || matches!(exchange(&claimed, &[0; 64]), Ok(None)))
}

/// A socket that takes the kernel's refusals as errors.
fn connected(address: &str, port: u16) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.connect((address, port))?;
    Ok(socket)
}

/// Sends a datagram and returns the answer; `None` if it was refused.
fn exchange(socket: &UdpSocket, datagram: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut answer = [0; 100];
    match socket.send(datagram).and_then(|_| socket.recv(&mut answer)) {
        Ok(length) => Ok(Some(answer[..length].to_vec())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => bail!("no answer: {error}"),
    }
}

/// Sends a broadcast frame by an interface and of a VLAN, its arguments. Its protocol is one for
/// experiments (IEEE 802a).
const TAGGED: &str = "
import socket, sys
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
card.bind((sys.argv[1], 0))
tag = (0x8100).to_bytes(2, 'big') + int(sys.argv[2]).to_bytes(2, 'big')
card.send(b'\\xff' * 6 + card.getsockname()[4] + tag + (0x88b5).to_bytes(2, 'big') + bytes(60))
";

/// How many datagrams a host's kernel had no socket for (`Udp: NoPorts`).
fn refusals(host: &LabHost) -> Result<u64> {
    let table = host.run(&["cat", "/proc/net/snmp"])?;
    let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = lines.next().zip(lines.next()).context("no counters of UDP")?;
    let mut pairs = names.split(' ').zip(values.split(' '));
    let value = pairs.find(|(name, _)| *name == "NoPorts").context("no counter NoPorts")?.1;
    value.parse().context("not a number")
}
