//! Requests and answers of many threads of one program, each with a TCP connection of its own and
//! blocking calls. Most programs that read many sensors are written this way.
//!
//! As `pingpong`, an "unmodified program" that knows nothing of Tickwire.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Parser, Subcommand};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwire_bench::latency::{Latency, Recorder};
use tickwire_bench::many::ExchangeFigures;

/// Measures round trips of many threads over ordinary TCP connections.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Answer every message with itself until killed, each connection by a thread of its own.
    Serve { address: SocketAddr },
    /// Send messages by so many threads, each one at a time, and measure until the answer is there.
    Exchange {
        address: SocketAddr,
        #[arg(long, default_value_t = 16)]
        threads: u32,
        /// Round trips to measure, of all threads together.
        #[arg(long, default_value_t = 20_000)]
        count: u32,
        /// Round trips of each thread before that, not measured.
        #[arg(long, default_value_t = 100)]
        warmup: u32,
        /// Further threads that wait, each on a connection of its own, for messages that never
        /// come.
        #[arg(long, default_value_t = 0)]
        idle_threads: u32,
        /// Further processes, started by this one, that wait in the same way.
        #[arg(long, default_value_t = 0)]
        idle_processes: u32,
    },
    /// Wait for messages on standard input, a connection, which never come.
    Idle,
    /// Receive datagrams, and send back those that are marked, until killed.
    Mirror { address: SocketAddr },
    /// Send datagrams by a real-time thread, one a millisecond, while an ordinary thread sends
    /// others without a pause, and measure what the calls of the first take. Prints as lost how
    /// many did not come back.
    Send {
        address: SocketAddr,
        /// Calls to measure.
        #[arg(long, default_value_t = 2_000)]
        count: u32,
        /// Priority of the real-time thread (SCHED_FIFO).
        #[arg(long, default_value_t = 10)]
        priority: u32,
    },
}

/// Bytes of a message.
const SIZE: usize = 64;

fn main() -> Result<()> {
    match Args::parse().role {
        Role::Serve { address } => serve(address),
        Role::Exchange { address, threads, count, warmup, idle_threads, idle_processes } => {
            let _threads = idlers(address, idle_threads)?;
            let _processes = IdleProcesses::start(address, idle_processes)?;
            exchange(address, threads.max(1), count, warmup)
        }
        Role::Idle => idle(),
        Role::Mirror { address } => mirror(address),
        Role::Send { address, count, priority } => send(address, count, priority),
    }
}

fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        std::thread::spawn(move || {
            let mut message = [0; SIZE];
            // A client that resets its connection is not the server's failure.
            while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
        });
    }
}

/// A connection on which no more messages arrive. It has carried one message, so that the lane owns
/// it.
fn idle_connection(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    round_trip(&mut stream)?;
    Ok(stream)
}

/// Threads that wait on connections of their own, until the program ends.
fn idlers(address: SocketAddr, count: u32) -> Result<Vec<JoinHandle<bool>>> {
    let idler = |_| {
        let mut stream = idle_connection(address)?;
        Ok(std::thread::spawn(move || stream.read_exact(&mut [0]).is_ok()))
    };
    (0..count).map(idler).collect()
}

/// Processes that wait on connections of their own, until this is dropped.
struct IdleProcesses(Vec<Child>);

impl IdleProcesses {
    fn start(address: SocketAddr, count: u32) -> Result<Self> {
        let mut processes = Self(Vec::new());
        for _ in 0..count {
            // A process that inherits a connection of a lane shares that lane.
            let mut child = Command::new(std::env::current_exe()?)
                .arg("idle")
                .stdin(OwnedFd::from(idle_connection(address)?))
                .stdout(Stdio::piped())
                .spawn()
                .context("starting an idle process")?;
            let said = child.stdout.take();
            processes.0.push(child);
            let mut line = [0; READY.len()];
            said.context("no pipe")?.read_exact(&mut line).context("an idle process does not wait")?;
        }
        Ok(processes)
    }
}

impl Drop for IdleProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Printed by an idle process when it is about to wait.
const READY: &str = "ready\n";

fn idle() -> Result<()> {
    print!("{READY}");
    std::io::stdout().flush()?;
    std::io::stdin().read_exact(&mut [0]).context("waiting for nothing")
}

/// The first byte of a datagram that the mirror sends back.
const MARK: u8 = 0xa5;

fn mirror(address: SocketAddr) -> Result<()> {
    // The listening TCP port shows the starting program that this one is ready.
    let _listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let socket = UdpSocket::bind(address).with_context(|| format!("receiving at {address}"))?;
    let mut message = [0; SIZE];
    loop {
        match socket.recv_from(&mut message) {
            Ok((len, from)) if message[0] == MARK => drop(socket.send_to(&message[..len], from)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn send(address: SocketAddr, count: u32, priority: u32) -> Result<()> {
    let any = SocketAddr::from(([0; 4], 0));
    let connected = || -> Result<UdpSocket> {
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(socket)
    };
    let (ours, others) = (connected()?, connected()?);
    let over = AtomicBool::new(false);
    let latency = std::thread::scope(|scope| {
        let ordinary = scope.spawn(|| {
            while !over.load(Relaxed) {
                others.send(&[0x5a; SIZE])?;
            }
            Ok(())
        });
        let measured = scope.spawn(|| {
            let measured = real_time(priority).and_then(|()| timed_sends(&ours, count));
            over.store(true, Relaxed);
            measured
        });
        let (measured, ordinary) = (measured.join(), ordinary.join());
        ordinary.map_err(|_| anyhow!("a thread panicked"))?.map_err(|error: std::io::Error| error)?;
        measured.map_err(|_| anyhow!("a thread panicked"))?
    })?;
    println!("{}", serde_json::to_string(&latency)?);
    Ok(())
}

/// Gives the calling thread a real-time priority.
fn real_time(priority: u32) -> Result<()> {
    let thread = std::fs::read_link("/proc/thread-self").context("the number of this thread")?;
    let thread = thread.file_name().context("a thread without a number")?;
    let done = Command::new("chrt").args(["--fifo", "--pid", &priority.to_string()]).arg(thread).status();
    ensure!(
        done.context("starting chrt")?.success(),
        "no real-time priority: it takes CAP_SYS_NICE or an RLIMIT_RTPRIO"
    );
    Ok(())
}

fn timed_sends(socket: &UdpSocket, count: u32) -> Result<Latency> {
    // The other thread's datagrams may fill a queue, so that one of these, or its answer, is
    // dropped.
    socket.set_read_timeout(Some(Duration::from_millis(10)))?;
    let (mut recorder, mut lost) = (Recorder::new(), 0);
    for _ in 0..count {
        std::thread::sleep(Duration::from_millis(1));
        let begin = Instant::now();
        socket.send(&[MARK; SIZE])?;
        recorder.record(begin.elapsed());
        match socket.recv(&mut [0; SIZE]) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => lost += 1,
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(lost < u64::from(count), "no datagram came back");
    Ok(recorder.latency(lost))
}

fn round_trip(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut back = [0; SIZE];
    stream.write_all(&[0x5a; SIZE])?;
    stream.read_exact(&mut back)
}

/// Measures one thread: its round trips, and when its last one ended.
fn one(mut stream: TcpStream, count: u32, warmup: u32, start: &Barrier) -> Result<(Vec<Duration>, Instant)> {
    for _ in 0..warmup {
        round_trip(&mut stream)?;
    }
    start.wait();
    let trips = (0..count).map(|_| {
        let sent = Instant::now();
        round_trip(&mut stream)?;
        Ok(sent.elapsed())
    });
    Ok((trips.collect::<Result<_>>()?, Instant::now()))
}

fn exchange(address: SocketAddr, threads: u32, count: u32, warmup: u32) -> Result<()> {
    let connect = |_| {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        // A message that is not answered by then is a failure; without a timeout the other threads
        // would wait for ever.
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(stream)
    };
    let streams = (0..threads).map(connect).collect::<Result<Vec<_>>>()?;
    let each = count.div_ceil(threads);
    let start = Barrier::new(threads as usize + 1);
    let (begin, seen) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(|| one(stream, each, warmup, &start))).collect();
        start.wait();
        let begin = Instant::now();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<Result<Vec<_>>>().map(|seen| (begin, seen))
    })?;
    let mut recorder = Recorder::new();
    seen.iter().flat_map(|(trips, _)| trips).for_each(|&trip| recorder.record(trip));
    let end = seen.iter().map(|&(_, end)| end).max().context("no thread")?;
    let exchange = ExchangeFigures {
        connections: threads,
        active: threads,
        latency: recorder.latency(0),
        per_second: f64::from(each * threads) / end.duration_since(begin).as_secs_f64(),
        answered: u64::from(threads) * (u64::from(each) + u64::from(warmup)),
    };
    println!("{}", serde_json::to_string(&exchange)?);
    Ok(())
}
