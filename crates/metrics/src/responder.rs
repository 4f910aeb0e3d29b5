//! A responder for HTTP/1.1 that serves one text, to `GET` and `HEAD` of `/` and `/metrics`. A
//! client gets one response, and its connection is closed.
//!
//! Nothing blocks: the owner waits (on Linux with `poll`) for the sockets that are [`readable`] or
//! [`writable`], until something is [`due`]. It then calls [`advance`], and if it [`is_asked`] for
//! the text, [`answer`]. No client can take more than one of a few places, for a limited time, with
//! a request of limited size. A new client takes the place of one that makes no progress.
//!
//! A connection is closed in steps, because Linux sends a RST if input is unread at `close`
//! (RFC 1122 §4.2.2.13), and a RST discards what the client has not read of the response. So the
//! responder shuts down its side, reads the client's until its end, and then closes.
//!
//! [`readable`]: Responder::readable
//! [`writable`]: Responder::writable
//! [`due`]: Responder::due
//! [`advance`]: Responder::advance
//! [`is_asked`]: Responder::is_asked
//! [`answer`]: Responder::answer

use crate::exposition::CONTENT_TYPE;
use crate::os::{self, BorrowedSocket};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Clients that are served at a time.
const PLACES: usize = 8;
/// Connections accepted at a time, so that a flood of them does not keep the owner.
const ACCEPTED_AT_ONCE: usize = 2 * PLACES;
/// The timeout of receiving a request, and of sending the response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of waiting for the client's end of the connection, after the response.
const LINGER: Duration = Duration::from_secs(1);
/// A client that has not read of its response for so long may be displaced.
const STALLED: Duration = Duration::from_secs(1);
/// Bytes that are read and discarded meanwhile, at most.
const LONGEST_DRAIN: usize = 64 << 10;
/// The longest request, in bytes.
const LONGEST_REQUEST: usize = 8192;
/// The end of a request.
const END: &[u8] = b"\r\n\r\n";
/// The pause after an `accept` that failed (no descriptors, for one).
const PAUSE: Duration = Duration::from_millis(100);

/// The responder: its listening socket and its clients.
#[derive(Debug)]
pub struct Responder {
    listener: TcpListener,
    clients: Vec<Client>,
    /// No connection is accepted before this, because `accept` has failed.
    paused_until: Option<Instant>,
    /// When the clients were last served.
    advanced: Instant,
}

impl Responder {
    /// Listens on an address.
    ///
    /// # Errors
    /// Those of `bind` and `listen`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, clients: Vec::new(), paused_until: None, advanced: Instant::now() })
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The sockets to wait for until they are readable.
    pub fn readable(&self) -> impl Iterator<Item = BorrowedSocket<'_>> {
        let listener = self.paused_until.is_none().then(|| os::borrow(&self.listener));
        let reading = |client: &&Client| matches!(client.state, State::Request(_) | State::Draining { .. });
        listener.into_iter().chain(self.clients.iter().filter(reading).map(|client| os::borrow(&client.stream)))
    }

    /// The sockets to wait for until they are writable.
    pub fn writable(&self) -> impl Iterator<Item = BorrowedSocket<'_>> {
        let responses = self.clients.iter().filter(|client| matches!(client.state, State::Response { .. }));
        responses.map(|client| os::borrow(&client.stream))
    }

    /// When [`Responder::advance`] has something to do although no socket is ready.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.until).chain(self.paused_until).min()
    }

    /// Accepts connections, receives requests, sends what is left of responses, and drops clients
    /// that are too slow. Requests that have come by now count, even if their time is over: the
    /// owner may have been busy.
    pub fn advance(&mut self, now: Instant) {
        self.advanced = now;
        self.clients.retain_mut(|client| client.advance(now));
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.paused_until = None;
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                // Without a place the connection is closed.
                Ok((stream, _)) => {
                    if self.has_place(now) {
                        self.clients.extend(Client::new(stream, now));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.paused_until = Some(now + PAUSE);
                    break;
                }
            }
        }
    }

    /// Whether there is a place for a new client. If all are taken, the oldest client that has its
    /// whole response is dropped; without one, the oldest that has not sent its request, which may
    /// be on its way; and without that, the oldest that does not read its response.
    fn has_place(&mut self, now: Instant) -> bool {
        if self.clients.len() < PLACES {
            return true;
        }
        // The clients are in the order in which they have connected.
        let oldest = |may_go: &dyn Fn(&Client) -> bool| self.clients.iter().position(may_go);
        let served = oldest(&|client| matches!(client.state, State::Draining { .. }));
        let silent = oldest(&|client| matches!(client.state, State::Request(_)));
        let stalled = oldest(&|client| client.is_stalled(now));
        served.or(silent).or(stalled).map(|at| self.clients.remove(at)).is_some()
    }

    /// Whether a client waits for the text.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.clients.iter().any(|client| matches!(client.state, State::Asked { .. }))
    }

    /// Gives the text to all clients that wait for it. The time since [`Responder::advance`], in
    /// which the owner has made the text, does not count for the other clients' timeouts.
    pub fn answer(&mut self, text: &str, now: Instant) {
        let busy = now.saturating_duration_since(self.advanced);
        self.advanced = now;
        self.clients.retain_mut(|client| {
            client.until += busy;
            if let State::Response { read, .. } = &mut client.state {
                *read += busy;
            }
            match client.state {
                State::Asked { body } => client.respond("200 OK", text, body, now),
                State::Request(_) | State::Response { .. } | State::Draining { .. } => true,
            }
        });
    }
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    state: State,
    /// When its time is over.
    until: Instant,
}

#[derive(Debug)]
enum State {
    /// Its request so far.
    Request(Vec<u8>),
    /// It has asked for the text, or for the head of the response only.
    Asked { body: bool },
    /// The response, how much of it is sent, and when the client last made room for more.
    Response { bytes: Vec<u8>, sent: usize, read: Instant },
    /// The response is sent, and so many bytes of further input are discarded.
    Draining { discarded: usize },
}

impl Client {
    /// A client that has just connected; `None` if it is served or gone already.
    fn new(stream: TcpStream, now: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        let mut client = Self { stream, state: State::Request(Vec::new()), until: now + TIMEOUT };
        client.advance(now).then_some(client)
    }

    /// Does what can be done without waiting. Returns whether the client keeps its place.
    fn advance(&mut self, now: Instant) -> bool {
        let stays = match self.state {
            State::Request(_) => self.receive(now),
            State::Asked { .. } => Ok(true),
            State::Response { .. } => self.send(now),
            State::Draining { .. } => self.drain(),
        };
        stays.unwrap_or(false) && now < self.until
    }

    /// Receives the request, up to the empty line that ends it.
    fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let State::Request(request) = &mut self.state else { return Ok(true) };
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 && request.len() + count <= LONGEST_REQUEST => {
                    // The end may have come in parts.
                    let from = request.len().saturating_sub(END.len() - 1);
                    request.extend_from_slice(&buffer[..count]);
                    if request[from..].windows(END.len()).any(|end| end == END) {
                        break;
                    }
                }
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let (wanted, body) = understood(request);
        match wanted {
            Wanted::Text => (self.state, self.until) = (State::Asked { body }, now + TIMEOUT),
            Wanted::Refused(status, why) => return Ok(self.respond(status, why, body, now)),
        }
        Ok(true)
    }

    /// Begins the response. Returns whether the client keeps its place.
    fn respond(&mut self, status: &str, text: &str, body: bool, now: Instant) -> bool {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        let bytes = if body { head + text } else { head }.into_bytes();
        self.state = State::Response { bytes, sent: 0, read: now };
        self.until = now + TIMEOUT;
        self.send(now).unwrap_or(false)
    }

    /// Sends what the socket takes. Returns whether the client keeps its place.
    fn send(&mut self, now: Instant) -> io::Result<bool> {
        let State::Response { bytes, sent, read } = &mut self.state else { return Ok(true) };
        while *sent < bytes.len() {
            match self.stream.write(&bytes[*sent..]) {
                Ok(0) => return Ok(false),
                Ok(count) => (*sent, *read) = (*sent + count, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        (self.state, self.until) = (State::Draining { discarded: 0 }, now + LINGER);
        self.drain()
    }

    /// Whether it has not read of its response for a while.
    fn is_stalled(&self, now: Instant) -> bool {
        matches!(self.state, State::Response { read, .. } if now >= read + STALLED)
    }

    /// Discards further input. Returns whether the client may still send some.
    fn drain(&mut self) -> io::Result<bool> {
        let State::Draining { discarded } = &mut self.state else { return Ok(true) };
        let mut buffer = [0; 4096];
        while *discarded < LONGEST_DRAIN {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => *discarded += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Text,
    /// The status and the reason.
    Refused(&'static str, &'static str),
}

/// What a request is for, and whether the response has a body.
fn understood(request: &[u8]) -> (Wanted, bool) {
    let line = request.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let wanted = match (method, path) {
        (b"GET" | b"HEAD", b"/" | b"/metrics") => Wanted::Text,
        (b"GET" | b"HEAD", _) => Wanted::Refused("404 Not Found", "metrics are at /metrics\n"),
        // RFC 9110 §15.5.6 asks for the methods, too.
        _ => Wanted::Refused("405 Method Not Allowed\r\nAllow: GET, HEAD", "only GET and HEAD are understood\n"),
    };
    (wanted, method != b"HEAD")
}

#[cfg(test)]
mod tests;
