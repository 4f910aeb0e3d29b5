//! A lane: a Windows program with the stack, the service, and a peer on the kernel of another host.

use crate::windows::build::Profile;
use crate::windows::windivert;
use crate::windows::wine_host::WineHost;
use anyhow::{Context, Result, ensure};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tickwire_lab::{LabPair, Process, tools};

/// Within this a packet is answered, and a program says what it has done.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The port of the echo.
const PORT: u16 = 7;

/// The port of another program's echo.
const OTHER_PORT: u16 = 9;

/// How often a program is killed.
const KILLED: u8 = 20;

/// Datagrams, and connections.
const DATAGRAMS: u16 = 1000;
const CONNECTIONS: usize = 100;

/// Bytes of the stream, several times what the rings hold.
const STREAM: usize = 16 << 20;

pub(super) fn program(name: &str) -> Result<PathBuf> {
    Profile::Debug.windows(&format!("examples/{name}.exe"))
}

/// By which driver the service has its packets.
#[derive(Clone, Copy)]
pub(super) enum Driver {
    LabCard,
    /// The stand-in for it.
    WinDivert,
}

impl Driver {
    /// Whether a plain program runs on the lane, in turn. On the kernel's sockets it does the same
    /// whatever the driver is.
    pub(super) fn turns(self) -> &'static [bool] {
        match self {
            Self::LabCard => &[false, true],
            Self::WinDivert => &[true],
        }
    }

    /// Starts the service on a host.
    pub(super) fn service(self, wine: &WineHost) -> Result<Process> {
        self.service_behind(wine, &[])
    }

    /// Starts the service on a host whose firewall blocks these ports.
    pub(super) fn service_behind(self, wine: &WineHost, blocked: &[u16]) -> Result<Process> {
        let (program, name) = match self {
            Self::LabCard => (program("lab_service")?, "lab"),
            Self::WinDivert => (windivert::service()?, "windivert"),
        };
        let ports: Vec<String> = blocked.iter().map(u16::to_string).collect();
        let arguments: Vec<&str> = [name, "eth0"].into_iter().chain(ports.iter().map(String::as_str)).collect();
        let mut service = wine.spawn(&program, &arguments)?;
        service.wait_for("ready", TIMEOUT)?;
        Ok(service)
    }
}

/// Datagrams, a stream and many connections are echoed through the lane, which counts them. When
/// the program is killed its peers are told, its lane ends, and the port is the kernel's again.
pub(super) fn echo() -> Result<()> {
    echo_by(Driver::LabCard)
}

/// As [`echo`], with the stand-in for WinDivert.
pub(super) fn echo_by_windivert() -> Result<()> {
    echo_by(Driver::WinDivert)
}

fn echo_by(driver: Driver) -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let mut service = driver.service(&wine)?;
    let address = pair.a_v4();
    let mut echo = wine.spawn(&program("lab_echo")?, &[&address, &PORT.to_string()])?;
    echo.wait_for("ready", TIMEOUT)?;
    let open = pair.b.within(|| exercise(&address))??;
    echo.kill();
    let is_reset =
        |mut stream: TcpStream| stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
    ensure!(open.into_iter().all(is_reset), "the peers of a killed program are not told");
    service.wait_for("a lane has ended", TIMEOUT)?;
    let output = service.stdout();
    let count = |name: &str| -> Result<u64> {
        let found = output.split([' ', '\n']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.with_context(|| format!("no {name} in {output}"))?.parse().context("no number")
    };
    let least = u64::from(DATAGRAMS) + (STREAM / 1448) as u64;
    for name in ["in_packets", "out_packets"] {
        ensure!(count(name)? > least, "the lane has not had the packets: {output}");
    }
    for name in ["refused", "ring_full", "malformed"] {
        ensure!(count(name)? == 0, "{name}: {output}");
    }
    tools::until("the port is the kernel's again", TIMEOUT, || {
        let refused = |socket: &UdpSocket| {
            let answer = socket.send(&[0]).and_then(|_| socket.recv(&mut [0]));
            answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        matches!(pair.b.within(|| connected(&address).map(|socket| refused(&socket))), Ok(Ok(true)))
    })
}

/// Programs are killed while peers send to them. Each time all peers are told within two seconds,
/// the port is free again, and another program goes on.
pub(super) fn killed() -> Result<()> {
    let pair = LabPair::new()?;
    let wine = WineHost::new(&pair.a)?;
    let service = Driver::LabCard.service(&wine)?;
    let address = pair.a_v4();
    let spawn = |port: u16| -> Result<Process> {
        let mut echo = wine.spawn(&program("lab_echo")?, &[&address, &port.to_string()])?;
        echo.wait_for("ready", TIMEOUT)?;
        Ok(echo)
    };
    let _other = spawn(OTHER_PORT)?;
    let mut others = pair.b.within(|| connect(&address, OTHER_PORT))??;
    for round in 1..=KILLED {
        let mut echo = spawn(PORT)?;
        let streams = pair.b.within(|| (0..4).map(|_| connect(&address, PORT)).collect::<Result<Vec<_>>>())??;
        let (busy, is_busy) = channel();
        let senders: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let busy = busy.clone();
                thread::spawn(move || until_reset(stream, &busy))
            })
            .collect();
        (0..4).try_for_each(|_| is_busy.recv_timeout(TIMEOUT)).context("a stream does not flow")?;
        echo.kill();
        let begin = Instant::now();
        let are_told = senders.into_iter().all(|sender| sender.join().is_ok_and(|is_reset| is_reset));
        ensure!(are_told && begin.elapsed() < Duration::from_secs(2), "round {round}: not all peers are told");
        exchange(&mut others, round).context("another program")?;
        let ended = || service.stdout().matches("a lane has ended").count() >= usize::from(round);
        tools::until("the lane ends", TIMEOUT, ended)?;
    }
    Ok(())
}

/// Sends to a program, and reads, until the connection ends. Says so when it flows. Returns whether
/// it was reset.
fn until_reset(mut stream: TcpStream, busy: &Sender<()>) -> bool {
    for round in 0.. {
        if let Err(error) = exchange(&mut stream, round as u8) {
            let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            return matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
        }
        if round == 50 {
            let _ = busy.send(());
        }
    }
    false
}

/// One message, and its echo.
pub(super) fn exchange(stream: &mut TcpStream, byte: u8) -> Result<()> {
    let (sent, mut answer) = ([byte; 1000], [0; 1000]);
    stream.write_all(&sent)?;
    stream.read_exact(&mut answer)?;
    ensure!(answer == sent, "another answer");
    Ok(())
}

/// Datagrams, a stream and many connections, which are returned open.
pub(super) fn exercise(address: &str) -> Result<Vec<TcpStream>> {
    datagrams(address).context("datagrams")?;
    stream(address).context("a stream")?;
    connections(address).context("connections")
}

pub(super) fn connected(address: &str) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect((address, PORT))?;
    Ok(socket)
}

fn datagrams(address: &str) -> Result<()> {
    let socket = connected(address)?;
    for number in 0..DATAGRAMS {
        let sent = [number.to_le_bytes()[0]; 64];
        let mut answer = [0; 100];
        socket.send(&sent)?;
        let length = socket.recv(&mut answer).with_context(|| format!("datagram {number}"))?;
        ensure!(answer[..length] == sent, "datagram {number} has another answer");
    }
    Ok(())
}

pub(super) fn connect(address: &str, port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((address, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn stream(address: &str) -> Result<()> {
    let data: Vec<u8> = (0..STREAM as u32).map(|n| (n * 7 / 5) as u8).collect();
    let mut reader = connect(address, PORT)?;
    let mut writer = reader.try_clone()?;
    let mut echoed = Vec::new();
    thread::scope(|scope| -> Result<()> {
        let written = scope.spawn(|| {
            writer.write_all(&data)?;
            writer.shutdown(Shutdown::Write)
        });
        reader.read_to_end(&mut echoed)?;
        written.join().expect("it does not panic")?;
        Ok(())
    })?;
    ensure!(echoed == data, "{} of {} bytes came back, or they are others", echoed.len(), data.len());
    Ok(())
}

/// Returns them open.
fn connections(address: &str) -> Result<Vec<TcpStream>> {
    let mut all = (0..CONNECTIONS).map(|_| connect(address, PORT)).collect::<Result<Vec<_>>>()?;
    for (number, stream) in all.iter_mut().enumerate() {
        stream.write_all(&[number as u8])?;
    }
    for (number, stream) in all.iter_mut().enumerate() {
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        ensure!(answer == [number as u8], "connection {number} has another's answer");
    }
    Ok(all)
}
