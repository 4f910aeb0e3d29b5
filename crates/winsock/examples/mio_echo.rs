//! A program of mio, for the lab: it waits for its sockets as most Rust programs on Windows do.
//!
//! ```text
//! mio_echo server ADDRESS PORT          echoes UDP datagrams and TCP streams with one thread,
//!                                       until a datagram says `end`
//! mio_echo client ADDRESS PORT COUNT    COUNT messages of TCP and of UDP, a stream, some
//!                                       connections, a refusal
//! ```
//!
//! It says `ready`, or what it has measured, or what is wrong. It knows nothing of Tickwire.

use mio::net::{TcpListener, TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::error::Error;
use std::io::ErrorKind::{ConnectionRefused, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Within this an answer comes.
const TIMEOUT: Duration = Duration::from_secs(10);

const CHUNK: usize = 1 << 16;
const STREAM: usize = 4 << 20;
const CONNECTIONS: usize = 5;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [_, "server", address, port] => serve(format!("{address}:{port}").parse()?),
        [_, "client", address, port, count] => client(format!("{address}:{port}").parse()?, count.parse()?),
        _ => Err("see the source for what it wants".into()),
    }
}

/// `None`: it would block.
fn ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == WouldBlock => Ok(None),
        result => result.map(Some),
    }
}

/// A connection of the server, and what of its data is to be sent back.
struct Echo {
    stream: TcpStream,
    data: Vec<u8>,
    from: usize,
}

impl Echo {
    /// Goes on as far as it can. Returns whether the connection has ended.
    fn go_on(&mut self) -> io::Result<bool> {
        loop {
            while self.from < self.data.len() {
                match ready(self.stream.write(&self.data[self.from..]))? {
                    Some(count) => self.from += count,
                    None => return Ok(false),
                }
            }
            self.data.resize(CHUNK, 0);
            let Some(count) = ready(self.stream.read(&mut self.data)).inspect_err(|_| self.data.clear())? else {
                self.data.clear();
                self.from = 0;
                return Ok(false);
            };
            self.data.truncate(count);
            self.from = 0;
            if count == 0 {
                return Ok(true);
            }
        }
    }
}

fn serve(address: SocketAddr) -> Result<()> {
    const LISTENER: Token = Token(0);
    const UDP: Token = Token(1);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(64));
    let mut listener = TcpListener::bind(address)?;
    let mut udp = UdpSocket::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    poll.registry().register(&mut udp, UDP, Interest::READABLE)?;
    let mut echoes: HashMap<Token, Echo> = HashMap::new();
    let mut last = UDP;
    let mut datagram = [0; 2048];
    println!("ready");
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Some((mut stream, _)) = ready(listener.accept())? {
                        last = Token(last.0 + 1);
                        stream.set_nodelay(true)?;
                        poll.registry().register(&mut stream, last, BOTH)?;
                        echoes.insert(last, Echo { stream, data: Vec::new(), from: 0 });
                    }
                }
                UDP => {
                    while let Some((count, peer)) = ready(udp.recv_from(&mut datagram))? {
                        if &datagram[..count] == b"end" {
                            return Ok(());
                        }
                        udp.send_to(&datagram[..count], peer)?;
                    }
                }
                token => {
                    // (One that has ended may have another event.)
                    let is_over = echoes.get_mut(&token).is_some_and(|echo| echo.go_on().unwrap_or(true));
                    if is_over {
                        echoes.remove(&token);
                    }
                }
            }
        }
    }
}

/// A client: the poll, and its events.
struct Client {
    poll: Poll,
    events: Events,
    address: SocketAddr,
}

impl Client {
    /// Waits until a token has an event for which `done` has a result.
    fn wait<T>(&mut self, token: Token, mut done: impl FnMut() -> io::Result<Option<T>>) -> Result<T> {
        let begin = Instant::now();
        loop {
            if let Some(result) = done()? {
                return Ok(result);
            }
            loop {
                if begin.elapsed() > TIMEOUT {
                    return Err("nothing comes".into());
                }
                self.poll.poll(&mut self.events, Some(TIMEOUT))?;
                if self.events.iter().any(|event| event.token() == token) {
                    break;
                }
            }
        }
    }

    /// A connection that is there.
    fn connect(&mut self, token: Token) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        self.poll.registry().register(&mut stream, token, BOTH)?;
        self.wait(token, || {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Ok(_) => Ok(Some(())),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn messages(&mut self, count: u32) -> Result<()> {
        let mut stream = self.connect(Token(0))?;
        let mut times = Vec::new();
        for number in 0..count {
            let (message, mut answer) = ([number as u8; 64], [0; 65]);
            let begin = Instant::now();
            if stream.write(&message)? != message.len() {
                return Err("a message was not sent whole".into());
            }
            let length = self.wait(Token(0), || ready(stream.read(&mut answer)))?;
            times.push(begin.elapsed());
            if answer[..length] != message {
                return Err("another answer".into());
            }
        }
        show("tcp", times);
        stream.shutdown(Shutdown::Write)?;
        let end = self.wait(Token(0), || ready(stream.read(&mut [0; 1])))?;
        if end == 0 { Ok(()) } else { Err("no end".into()) }
    }

    fn datagrams(&mut self, count: u32) -> Result<()> {
        let mut socket = UdpSocket::bind("0.0.0.0:0".parse()?)?;
        socket.connect(self.address)?;
        self.poll.registry().register(&mut socket, Token(1), Interest::READABLE)?;
        let mut times = Vec::new();
        for number in 0..count {
            let (message, mut answer) = ([number as u8; 64], [0; 65]);
            let begin = Instant::now();
            socket.send(&message)?;
            let length = self.wait(Token(1), || ready(socket.recv(&mut answer)))?;
            times.push(begin.elapsed());
            if answer[..length] != message {
                return Err("another datagram".into());
            }
        }
        show("udp", times);
        Ok(())
    }

    /// Sends and receives at the same time, with room and data in turn.
    fn stream(&mut self) -> Result<()> {
        let mut stream = self.connect(Token(2))?;
        let data: Vec<u8> = (0..STREAM as u32).map(|n| (n * 7 / 5) as u8).collect();
        let (mut sent, mut echoed, mut chunk) = (0, Vec::new(), vec![0; CHUNK]);
        self.wait(Token(2), || {
            while sent < data.len()
                && let Some(count) = ready(stream.write(&data[sent..]))?
            {
                sent += count;
            }
            while let Some(count) = ready(stream.read(&mut chunk))? {
                echoed.extend_from_slice(&chunk[..count]);
                if count == 0 || echoed.len() == data.len() {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        })?;
        println!("a stream");
        if echoed == data { Ok(()) } else { Err("another stream".into()) }
    }

    fn connections(&mut self) -> Result<()> {
        let tokens = || (0..CONNECTIONS).map(|number| Token(100 + number));
        let mut streams = tokens().map(|token| self.connect(token)).collect::<Result<Vec<_>>>()?;
        for stream in &mut streams {
            stream.write_all(b"some")?;
        }
        for (token, stream) in tokens().zip(&mut streams) {
            let mut answer = [0; 4];
            // (An event that came while another one was waited for does not come again.)
            self.poll.registry().reregister(stream, token, BOTH)?;
            let count = self.wait(token, || ready(stream.read(&mut answer)))?;
            if &answer[..count] != b"some" {
                return Err("another's answer".into());
            }
        }
        println!("connections");
        Ok(())
    }

    fn refused(&mut self) -> Result<()> {
        let nowhere = SocketAddr::new(self.address.ip(), self.address.port() + 1);
        let mut stream = TcpStream::connect(nowhere)?;
        self.poll.registry().register(&mut stream, Token(3), BOTH)?;
        let error = self.wait(Token(3), || stream.take_error())?;
        println!("refused");
        if error.kind() == ConnectionRefused { Ok(()) } else { Err(error.into()) }
    }
}

fn client(address: SocketAddr, count: u32) -> Result<()> {
    let mut client = Client { poll: Poll::new()?, events: Events::with_capacity(64), address };
    client.messages(count)?;
    client.datagrams(count)?;
    client.stream()?;
    client.connections()?;
    client.refused()?;
    println!("done");
    Ok(())
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).or(times.last()).copied().unwrap_or_default();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{what} p50_us={:.1} p99_us={:.1} worst_us={:.1}", us(at(50)), us(at(99)), us(at(100)));
}
