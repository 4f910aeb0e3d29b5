//! A small program against plain sockets: request and answer over UDP or TCP, and one TCP stream.
//!
//! It is the "unmodified program" of the benchmark and does not know of Tickwire. Results go to
//! standard output as one line of JSON.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use tickwire_bench::latency::Recorder;
use tickwire_bench::rate::RateFigures;

/// Measures round trips, or one stream, over ordinary sockets.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Clone, Copy, ValueEnum)]
enum Transport {
    Udp,
    Tcp,
}

/// How to wait for a message.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Block in the receive call.
    Block,
    /// Non-blocking receive in a loop.
    Spin,
}

#[derive(Subcommand)]
enum Role {
    /// Answer every message with itself until killed.
    Server {
        transport: Transport,
        address: SocketAddr,
        #[arg(long, value_enum, default_value = "block")]
        wait: Wait,
        /// Message size in bytes (TCP answers once a whole message is there).
        #[arg(long, default_value_t = 64)]
        size: usize,
    },
    /// Send messages one at a time and measure until the answer is there.
    Client {
        transport: Transport,
        address: SocketAddr,
        #[arg(long, value_enum, default_value = "block")]
        wait: Wait,
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Round trips to measure.
        #[arg(long, default_value_t = 20_000)]
        count: u64,
        /// Round trips before that, not measured.
        #[arg(long, default_value_t = 1_000)]
        warmup: u64,
        /// Stream to this sink by another thread meanwhile.
        #[arg(long)]
        stream: Option<SocketAddr>,
    },
    /// Accept one connection, read it to its end, print the rate.
    Sink { address: SocketAddr },
    /// Connect and send for a time.
    Source {
        address: SocketAddr,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Bytes per write.
        #[arg(long, default_value_t = STREAM_SIZE)]
        size: usize,
    },
}

/// The default number of bytes per write of a stream.
const STREAM_SIZE: usize = 65_536;

/// A message without an answer after this time is lost.
const TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    match Args::parse().role {
        Role::Server { transport: Transport::Udp, address, wait, size } => udp_server(address, wait, size),
        Role::Server { transport: Transport::Tcp, address, wait, size } => tcp_server(address, wait, size),
        Role::Client { transport, address, wait, size, count, warmup, stream } => {
            if let Some(address) = stream {
                // Until the program ends.
                std::thread::spawn(move || {
                    if let Err(error) = source(address, Duration::MAX, STREAM_SIZE) {
                        eprintln!("the stream ended: {error:#}");
                        std::process::exit(1);
                    }
                });
            }
            let mut peer: Box<dyn RoundTrip> = match transport {
                Transport::Udp => Box::new(UdpPeer::connect(address, wait, size)?),
                Transport::Tcp => Box::new(TcpPeer::connect(address, wait, size)?),
            };
            measure(peer.as_mut(), count, warmup)
        }
        Role::Sink { address } => sink(address),
        Role::Source { address, seconds, size } => source(address, Duration::from_secs_f64(seconds), size),
    }
}

/// A message and its answer.
trait RoundTrip {
    /// Returns whether the answer came within [`TIMEOUT`].
    fn round_trip(&mut self, sequence: u64) -> Result<bool>;
}

fn measure(peer: &mut dyn RoundTrip, count: u64, warmup: u64) -> Result<()> {
    for sequence in 0..warmup {
        peer.round_trip(sequence)?;
    }
    let mut recorder = Recorder::new();
    let mut lost = 0;
    for sequence in warmup..warmup + count {
        let sent = Instant::now();
        if peer.round_trip(sequence)? {
            recorder.record(sent.elapsed());
        } else {
            lost += 1;
        }
    }
    println!("{}", serde_json::to_string(&recorder.latency(lost))?);
    Ok(())
}

/// Repeats a non-blocking call until it returns anything but "would block"; a blocking call just
/// blocks.
fn when_ready<T>(
    timeout: Option<Duration>,
    mut call: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<Option<T>> {
    let start = Instant::now();
    let mut tries = 0_u32;
    loop {
        match call() {
            Ok(value) => return Ok(Some(value)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                tries = tries.wrapping_add(1);
                if tries.is_multiple_of(1024) && timeout.is_some_and(|p| start.elapsed() > p) {
                    return Ok(None);
                }
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

struct UdpPeer {
    socket: UdpSocket,
    wait: Wait,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl UdpPeer {
    fn connect(address: SocketAddr, wait: Wait, size: usize) -> Result<Self> {
        if size < 8 {
            bail!("a message needs at least 8 bytes for its sequence number, not {size}");
        }
        let any: SocketAddr = if address.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
        let socket = UdpSocket::bind(any).context("binding a UDP socket")?;
        socket.connect(address).with_context(|| format!("connecting to {address}"))?;
        match wait {
            Wait::Spin => socket.set_nonblocking(true)?,
            Wait::Block => socket.set_read_timeout(Some(TIMEOUT))?,
        }
        Ok(Self { socket, wait, out: vec![0x5a; size], back: vec![0; size] })
    }

    fn receive(&mut self) -> Result<bool> {
        match self.wait {
            Wait::Spin => Ok(when_ready(Some(TIMEOUT), || self.socket.recv(&mut self.back))?.is_some()),
            Wait::Block => match self.socket.recv(&mut self.back) {
                Ok(_) => Ok(true),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
                Err(e) => Err(e.into()),
            },
        }
    }
}

impl RoundTrip for UdpPeer {
    fn round_trip(&mut self, sequence: u64) -> Result<bool> {
        self.out[..8].copy_from_slice(&sequence.to_be_bytes());
        self.socket.send(&self.out).context("sending")?;
        // The answer to an earlier message, already counted as lost, may still arrive: skip it.
        while self.receive()? {
            if self.back[..8] == self.out[..8] {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn udp_server(address: SocketAddr, wait: Wait, size: usize) -> Result<()> {
    let socket = UdpSocket::bind(address).with_context(|| format!("binding {address}"))?;
    socket.set_nonblocking(wait == Wait::Spin)?;
    let mut message = vec![0; size.max(65_536)];
    loop {
        if let Some((len, from)) = when_ready(None, || socket.recv_from(&mut message))? {
            when_ready(Some(TIMEOUT), || socket.send_to(&message[..len], from))?;
        }
    }
}

struct TcpPeer {
    stream: TcpStream,
    out: Vec<u8>,
    back: Vec<u8>,
}

impl TcpPeer {
    fn connect(address: SocketAddr, wait: Wait, size: usize) -> Result<Self> {
        let stream =
            TcpStream::connect_timeout(&address, TIMEOUT).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(wait == Wait::Spin)?;
        Ok(Self { stream, out: vec![0x5a; size], back: vec![0; size] })
    }
}

impl RoundTrip for TcpPeer {
    fn round_trip(&mut self, _sequence: u64) -> Result<bool> {
        write_all(&mut self.stream, &self.out)?;
        if !read_full(&mut self.stream, &mut self.back)? {
            bail!("the server closed the connection");
        }
        Ok(true)
    }
}

fn write_all(stream: &mut TcpStream, mut message: &[u8]) -> Result<()> {
    while !message.is_empty() {
        if let Some(n) = when_ready(None, || stream.write(message))? {
            message = &message[n..];
        }
    }
    Ok(())
}

/// Returns `false` at the end of the stream.
fn read_full(stream: &mut TcpStream, message: &mut [u8]) -> Result<bool> {
    let mut got = 0;
    while got < message.len() {
        match when_ready(None, || stream.read(&mut message[got..]))? {
            Some(0) => return Ok(false),
            Some(n) => got += n,
            None => {}
        }
    }
    Ok(true)
}

fn tcp_server(address: SocketAddr, wait: Wait, size: usize) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let mut message = vec![0; size];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(wait == Wait::Spin)?;
        // A client that resets its connection is not the server's failure: the next one is served.
        while matches!(read_full(&mut stream, &mut message), Ok(true)) && write_all(&mut stream, &message).is_ok() {}
    }
}

fn sink(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    let mut start = None;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            n => {
                start.get_or_insert_with(Instant::now);
                bytes += n as u64;
            }
        }
    }
    let time = start.map_or(Duration::ZERO, |s| s.elapsed());
    println!("{}", serde_json::to_string(&RateFigures::new(bytes, time))?);
    Ok(())
}

fn source(address: SocketAddr, time: Duration, size: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    let buffer = vec![0x5a; size];
    let begin = Instant::now();
    while begin.elapsed() < time {
        stream.write_all(&buffer)?;
    }
    Ok(())
}
