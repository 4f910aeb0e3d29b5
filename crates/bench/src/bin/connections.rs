//! Many TCP connections: messages over some of them while the others are idle, and how quickly
//! connections open.
//!
//! As `pingpong`, an "unmodified program" that knows nothing of Tickwire: epoll and ordinary
//! sockets. Results go to standard output as one line of JSON.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use nix::libc::linger;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tickwire_bench::latency::Recorder;
use tickwire_bench::many::{ExchangeFigures, FirstSocket, Opened};

/// Measures what many connections cost, and what opening them costs.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Answer every message on every connection with itself until killed.
    Serve {
        address: SocketAddr,
        /// Bytes of a message.
        #[arg(long, default_value_t = 64)]
        size: usize,
    },
    /// Open connections, and send messages on some of them in turn.
    Hold {
        address: SocketAddr,
        /// Connections to hold open.
        #[arg(long, default_value_t = 10)]
        connections: u32,
        /// Of these, the ones that carry messages, spread evenly; the others stay idle.
        #[arg(long, default_value_t = 10)]
        active: u32,
        /// Messages to measure.
        #[arg(long, default_value_t = 20_000)]
        count: u64,
        /// Messages before that, not measured.
        #[arg(long, default_value_t = 1_000)]
        warmup: u64,
        /// Messages in flight at a time, each on another connection.
        #[arg(long, default_value_t = 10)]
        parallel: u32,
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// After the measurement, one message on every connection.
        #[arg(long)]
        everybody: bool,
        /// After that, keep all open until killed.
        #[arg(long)]
        stay: bool,
    },
    /// Accept connections and close each at once, until killed.
    Greet { address: SocketAddr },
    /// Open connections one after the other, wait until the peer has closed each, and close it.
    Open {
        address: SocketAddr,
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Connections open at a time.
        #[arg(long, default_value_t = 8)]
        parallel: usize,
    },
    /// With two threads, make the program's first socket; then open one connection, and wait until
    /// the peer has closed it.
    First { address: SocketAddr },
}

/// A peer that is silent for this long has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    as_many_descriptors_as_allowed()?;
    match Args::parse().role {
        Role::Serve { address, size } => serve(address, size),
        Role::Hold { address, connections, active, count, warmup, parallel, size, everybody, stay } => {
            ensure!((1..=connections).contains(&active), "of {connections} connections {active} cannot be active");
            ensure!(
                (1..=active).contains(&parallel),
                "{active} connections cannot carry {parallel} messages at a time"
            );
            let mut all = Connections::open(address, connections, size)?;
            let step = connections as usize / active as usize;
            let chosen: Vec<usize> = (0..active as usize).map(|n| n * step).collect();
            all.exchange(&chosen, warmup, parallel)?;
            let begun = Instant::now();
            let recorder = all.exchange(&chosen, count, parallel)?;
            let per_second = count as f64 / begun.elapsed().as_secs_f64();
            let latency = recorder.latency(0);
            if everybody {
                let numbers: Vec<usize> = (0..connections as usize).collect();
                all.exchange(&numbers, connections.into(), parallel)?;
            }
            let exchange = ExchangeFigures { connections, active, latency, per_second, answered: all.answered };
            println!("{}", serde_json::to_string(&exchange)?);
            if stay {
                loop {
                    std::thread::park();
                }
            }
            Ok(())
        }
        Role::Greet { address } => greet(address),
        Role::Open { address, seconds, parallel } => open(address, Duration::from_secs_f64(seconds), parallel),
        Role::First { address } => first(address),
    }
}

fn as_many_descriptors_as_allowed() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of descriptors")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("raising the limit of descriptors")
}

fn epoll() -> Result<Epoll> {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("making an epoll instance")
}

fn watch(epoll: &Epoll, socket: impl AsFd, number: usize) -> Result<()> {
    epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, number as u64)).context("watching a socket")
}

/// One connection, and how much of a message it has.
struct Connection {
    stream: TcpStream,
    message: Vec<u8>,
    got: usize,
    /// Identifies its last message.
    number: u64,
    /// When the outstanding message was sent; none if it is answered.
    sent: Option<Instant>,
}

/// The result of a read.
enum Came {
    /// A part of a message, or nothing.
    Part,
    Message,
    End,
}

impl Connection {
    fn new(stream: TcpStream, size: usize) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, message: vec![0; size], got: 0, number: 0, sent: None })
    }

    fn read(&mut self) -> Result<Came> {
        loop {
            match self.stream.read(&mut self.message[self.got..]) {
                Ok(0) => return Ok(Came::End),
                Ok(more) => self.got += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Came::Part),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("reading a message"),
            }
            if self.got == self.message.len() {
                self.got = 0;
                return Ok(Came::Message);
            }
        }
    }

    /// Sends `message`. A connection has one small message in flight at a time, so the send buffer
    /// has room for it.
    fn write(&mut self) -> Result<()> {
        self.stream.write_all(&self.message).context("sending a message")
    }
}

/// Waits for events; retries a wait that a signal interrupts.
fn wait<'a>(epoll: &Epoll, events: &'a mut [EpollEvent], timeout: EpollTimeout) -> Result<&'a [EpollEvent]> {
    let count = loop {
        match epoll.wait(events, timeout) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other.context("waiting for messages")?,
        }
    };
    Ok(&events[..count])
}

fn serve(address: SocketAddr, size: usize) -> Result<()> {
    const LISTENER: u64 = u64::MAX;
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll()?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER)).context("watching the listener")?;
    // Indexed by descriptor: the kernel gives the lowest free one, so the list stays short.
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = [EpollEvent::empty(); 64];
    loop {
        for event in wait(&epoll, &mut events, EpollTimeout::NONE)? {
            if event.data() == LISTENER {
                while let Some(stream) = accept(&listener)? {
                    let place = stream.as_raw_fd() as usize;
                    watch(&epoll, &stream, place)?;
                    if connections.len() <= place {
                        connections.resize_with(place + 1, || None);
                    }
                    connections[place] = Some(Connection::new(stream, size)?);
                }
                continue;
            }
            let place = event.data() as usize;
            // A client that resets its connection is not the server's failure: the others are
            // served.
            let over = match connections[place].as_mut().map(|connection| (connection.read(), connection)) {
                Some((Ok(Came::Message), connection)) => connection.write().is_err(),
                Some((Ok(Came::Part), _)) | None => false,
                Some((Ok(Came::End) | Err(_), _)) => true,
            };
            if over {
                connections[place] = None;
            }
        }
    }
}

fn accept(listener: &TcpListener) -> Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => Ok(None),
        Err(error) => Err(error).context("accepting"),
    }
}

/// The client's connections, all to one server.
struct Connections {
    epoll: Epoll,
    all: Vec<Connection>,
    /// Messages, over all of them.
    answered: u64,
}

impl Connections {
    /// Opens them one after the other. Every 64th sends a message and waits for its answer: by then
    /// the server has accepted all earlier ones. So no SYN meets a full accept queue, which would
    /// cost a second.
    fn open(address: SocketAddr, count: u32, size: usize) -> Result<Self> {
        const AT_A_TIME: usize = 64;
        let mut opened = Self { epoll: epoll()?, all: Vec::new(), answered: 0 };
        for number in 0..count as usize {
            let stream = TcpStream::connect_timeout(&address, TIMEOUT)
                .with_context(|| format!("connection {number} to {address}"))?;
            // Every connection ends with a reset: thousands in TIME-WAIT would leave the next
            // measurement too few ports.
            let reset = linger { l_onoff: 1, l_linger: 0 };
            setsockopt(&stream, sockopt::Linger, &reset).context("asking for a reset at the end")?;
            watch(&opened.epoll, &stream, number)?;
            opened.all.push(Connection::new(stream, size)?);
            if number % AT_A_TIME == AT_A_TIME - 1 {
                opened.exchange(&[number], 1, 1)?;
            }
        }
        Ok(opened)
    }

    /// Sends `count` messages in turn on the chosen connections, with `parallel` of them
    /// outstanding at a time, and waits for the answers.
    fn exchange(&mut self, chosen: &[usize], count: u64, parallel: u32) -> Result<Recorder> {
        let mut recorder = Recorder::new();
        let mut turns = chosen.iter().cycle();
        let (mut sent, mut answered) = (0, 0);
        let mut events = [EpollEvent::empty(); 64];
        while answered < count {
            while sent < count && sent - answered < u64::from(parallel) {
                // The next connection is nearly always idle; if not, take the next idle one.
                let free = turns.by_ref().take(chosen.len()).find(|&&number| self.all[number].sent.is_none());
                let Some(&number) = free else { break };
                self.send(number, sent)?;
                sent += 1;
            }
            let time_limit = EpollTimeout::try_from(TIMEOUT).context("a time to wait")?;
            let ready = wait(&self.epoll, &mut events, time_limit)?;
            if ready.is_empty() {
                bail!("of {sent} messages {answered} were answered, and no more for {TIMEOUT:?}");
            }
            for event in ready {
                let connection = &mut self.all[event.data() as usize];
                match connection.read()? {
                    Came::Part => continue,
                    Came::End => bail!("the server closed connection {}", event.data()),
                    Came::Message => {}
                }
                let begun = connection.sent.take().context("an answer to nothing")?;
                recorder.record(begun.elapsed());
                ensure!(connection.message[..8] == connection.number.to_be_bytes(), "an answer to another message");
                answered += 1;
            }
        }
        self.answered += answered;
        Ok(recorder)
    }

    fn send(&mut self, place: usize, number: u64) -> Result<()> {
        let connection = &mut self.all[place];
        connection.number = number << 32 | place as u64;
        connection.message[..8].copy_from_slice(&connection.number.to_be_bytes());
        connection.sent = Some(Instant::now());
        connection.write()
    }
}

fn greet(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => drop(stream),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error).context("accepting"),
        }
    }
}

/// Opens a connection, and waits until the peer has closed it.
fn open_one(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).context("connecting")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    ensure!(stream.read(&mut [0]).context("waiting for the end")? == 0, "data that the peer did not send");
    Ok(())
}

fn open(address: SocketAddr, time: Duration, parallel: usize) -> Result<()> {
    let begun = Instant::now();
    let one_after_the_other = || -> Result<u64> {
        let mut count = 0;
        while begun.elapsed() < time {
            open_one(address)?;
            count += 1;
        }
        Ok(count)
    };
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..parallel).map(|_| scope.spawn(one_after_the_other)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")));
        joined.collect::<Result<Vec<u64>>>()
    })?;
    let (connections, seconds) = (counts.into_iter().sum(), begun.elapsed().as_secs_f64());
    let opened = Opened { connections, seconds, per_second: connections as f64 / seconds };
    println!("{}", serde_json::to_string(&opened)?);
    Ok(())
}

fn first(address: SocketAddr) -> Result<()> {
    // Most large programs have threads before sockets, and some of what a first socket needs is
    // dearer then.
    let started = Barrier::new(2);
    let ended = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| (started.wait(), ended.wait()));
        started.wait();
        let begun = Instant::now();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        let took = begun.elapsed();
        let connected = open_one(address);
        ended.wait();
        drop(socket.context("the first socket")?);
        connected?;
        let ns = took.as_nanos().try_into().context("a time in nanoseconds")?;
        println!("{}", serde_json::to_string(&FirstSocket { ns })?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        probe.local_addr().unwrap()
    }

    /// Retries until the server, which has just been started, listens.
    fn eventually<T>(mut what: impl FnMut() -> Result<T>) -> T {
        for _ in 0..500 {
            if let Ok(done) = what() {
                return done;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        what().unwrap()
    }

    #[test]
    fn every_message_on_every_connection_is_answered() {
        let address = address();
        std::thread::spawn(move || serve(address, 64));
        let mut all = eventually(|| Connections::open(address, 70, 64));
        let recorder = all.exchange(&[0, 7, 14, 21, 28], 1000, 3).unwrap();
        assert_eq!(recorder.latency(0).count, 1000);
        // Fewer connections than `parallel`: no connection has two messages in flight.
        assert_eq!(all.exchange(&[1], 10, 4).unwrap().latency(0).count, 10);
    }

    #[test]
    fn connections_are_opened_and_closed_until_the_time_is_over() {
        let address = address();
        std::thread::spawn(move || greet(address));
        eventually(|| Ok(TcpStream::connect(address)?));
        open(address, Duration::from_millis(100), 2).unwrap();
        first(address).unwrap();
    }
}
