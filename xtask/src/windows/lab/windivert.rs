//! WinDivert, by its stand-in: which packets it takes, gives back, and leaves alone.

use super::lane::{self, Driver};
use crate::windows::wine::windows_path;
use crate::windows::wine_host::WineHost;
use crate::windows::{real_windivert, windivert};
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tickwire_lab::{LabPair, tools};

/// Within this a packet is answered, and a program says what it has done.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The port that the lane has at host a's address of IPv4, and the kernel at that of IPv6.
const PORT: u16 = 7;

/// A port that nothing has.
const OTHER_PORT: u16 = 9;

/// Messages to the kernel's socket.
const COUNT: u64 = 500;

/// Of one port, the lane has what is for its address, and the kernel the rest: that is taken, and
/// given back with a record that is unchanged. Other ports' packets are not taken. When the service
/// is killed, the kernel has all.
pub(super) fn claims() -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let mut service = Driver::WinDivert.service(&wine)?;
    let (first, second) = (pair.a_v4(), pair.a_v6());
    let mut echo = wine.spawn(&lane::program("lab_echo")?, &[&first, &PORT.to_string()])?;
    echo.wait_for("ready", TIMEOUT)?;
    let mut kernel = pair.a.spawn(&["python3", "-c", super::plain::ECHO, &second, &PORT.to_string()])?;
    kernel.wait_for("ready", TIMEOUT)?;
    pair.b.within(|| -> Result<()> {
        for address in [&first, &second] {
            datagrams(address).with_context(|| format!("datagrams to {address}"))?;
            messages(address).with_context(|| format!("a stream to {address}"))?;
        }
        ensure!(is_refused(&first, OTHER_PORT)?, "the kernel does not answer for a port that is not claimed");
        Ok(())
    })??;
    for (from, to) in [(&first, pair.b_v4()), (&second, pair.b_v6())] {
        let is_told = || is_refused(&to, OTHER_PORT).with_context(|| format!("from {from}"));
        ensure!(pair.a.within(is_told)??, "the kernel of host a does not learn of {to}'s ICMP error");
    }
    echo.kill();
    service.wait_for("a lane has ended", TIMEOUT)?;
    let output = service.stdout();
    // Of the stream there is at least one packet a message.
    let [lane, passed] = ["in_packets", "passed"].map(|name| figure(&output, name));
    ensure!(lane? > 2 * COUNT, "the lane has not had its packets: {output}");
    let passed = passed?;
    ensure!(passed > 2 * COUNT, "the kernel's packets were not taken and given back: {output}");
    ensure!(passed < 6 * COUNT, "packets were given back that need not be taken: {output}");
    for name in ["unsent", "malformed", "strays", "truncated", "refused"] {
        ensure!(figure(&output, name)? == 0, "{name}: {output}");
    }
    service.kill();
    pair.b.within(|| -> Result<()> {
        tools::until("the port is the kernel's again", TIMEOUT, || matches!(is_refused(&first, PORT), Ok(true)))?;
        datagrams(&second).context("the kernel's own, after the service's end")
    })?
}

/// The driver's own library, and the stand-in, take by our filters what they are to take.
pub(super) fn filters() -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let compare = |library: &Path| -> Result<()> {
        let library = windows_path(library);
        let mut program = wine.spawn(&lane::program("windivert_filters")?, &[&library])?;
        let told = program.success(3 * TIMEOUT).with_context(|| format!("filters in {library}"))?;
        ensure!(told.contains("done: "), "it says: {told}");
        Ok(())
    };
    compare(&windivert::library()?)?;
    match real_windivert::library()? {
        Some(library) => compare(&library),
        None => {
            println!("skipped: WinDivert's own library, because the package pydivert cannot be got (python3-pip)");
            Ok(())
        }
    }
}

/// Without the driver the service says what is missing and ends.
pub(super) fn missing() -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let mut service = wine.spawn(&windivert::service_without()?, &["windivert", "eth0"])?;
    let ended = service.wait(TIMEOUT)?;
    let told = service.stderr();
    ensure!(!ended.status.success(), "it goes on without a driver");
    ensure!(told.contains("WinDivert.dll: put WinDivert.dll and WinDivert64.sys"), "it says: {told}");
    let mut service = wine.spawn(&windivert::service()?, &["windivert", "eth7"])?;
    service.wait(TIMEOUT)?;
    let told = service.stderr();
    ensure!(told.contains("no interface has the name or index eth7: use one of \"eth0\""), "it says: {told}");
    Ok(())
}

/// A figure in the service's log.
fn figure(log: &str, name: &str) -> Result<u64> {
    let found = log.split([' ', '\n']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    found.with_context(|| format!("no {name} in {log}"))?.parse().context("no number")
}

fn connected(address: &str, port: u16) -> Result<UdpSocket> {
    let any = if address.contains(':') { "::" } else { "0.0.0.0" };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect((address, port))?;
    Ok(socket)
}

fn is_refused(address: &str, port: u16) -> Result<bool> {
    let socket = connected(address, port)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.send(&[0])?;
    Ok(socket.recv(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
}

fn datagrams(address: &str) -> Result<()> {
    let socket = connected(address, PORT)?;
    for number in 0..COUNT {
        let (sent, mut answer) = (number.to_le_bytes(), [0; 100]);
        socket.send(&sent)?;
        let length = socket.recv(&mut answer).with_context(|| format!("datagram {number}"))?;
        ensure!(answer[..length] == sent, "datagram {number} has another answer");
    }
    Ok(())
}

fn messages(address: &str) -> Result<()> {
    let mut stream = TcpStream::connect((address, PORT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    for number in 0..COUNT {
        let (sent, mut answer) = (number.to_le_bytes(), [0; 8]);
        stream.write_all(&sent)?;
        stream.read_exact(&mut answer).with_context(|| format!("message {number}"))?;
        ensure!(answer == sent, "message {number} has another answer");
    }
    Ok(())
}
