//! A responder for HTTP/1.1 that serves one text, to `GET` and `HEAD` of `/` and `/metrics`. A
//! client gets one response, and its connection is closed.
//!
//! Nothing blocks: the owner waits with `poll` for the descriptors that are [`readable`] or
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
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
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

    /// The descriptors to wait for until they are readable.
    pub fn readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.paused_until.is_none().then(|| self.listener.as_fd());
        let reading = |client: &&Client| matches!(client.state, State::Request(_) | State::Draining { .. });
        listener.into_iter().chain(self.clients.iter().filter(reading).map(|client| client.stream.as_fd()))
    }

    /// The descriptors to wait for until they are writable.
    pub fn writable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let responses = self.clients.iter().filter(|client| matches!(client.state, State::Response { .. }));
        responses.map(|client| client.stream.as_fd())
    }

    /// When [`Responder::advance`] has something to do although no descriptor is ready.
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
mod tests {
    use super::*;

    const TEXT: &str = "one 1\n";

    fn responder() -> (Responder, SocketAddr) {
        let responder = Responder::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = responder.local_addr().unwrap();
        (responder, address)
    }

    /// Runs the responder until the condition holds.
    fn run_until(responder: &mut Responder, now: Instant, mut done: impl FnMut(&Responder) -> bool) {
        let begin = Instant::now();
        loop {
            responder.advance(now);
            if done(responder) {
                return;
            }
            assert!(begin.elapsed() < 4 * TIMEOUT, "it never comes to that: {responder:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What a client gets that sends these parts, one after the other.
    fn told(parts: &[&[u8]]) -> String {
        let (mut responder, address) = responder();
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let client = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            for part in parts {
                // A client whose connection is closed may notice it while it writes.
                let _ = stream.write_all(&part);
            }
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        });
        while !client.is_finished() {
            responder.advance(Instant::now());
            if responder.is_asked() {
                responder.answer(TEXT, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        client.join().unwrap()
    }

    #[test]
    fn the_text_is_at_two_paths_and_a_head_has_no_body() {
        for path in ["/", "/metrics", "/metrics?x=1"] {
            let answer = told(&[format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()]);
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\nConnection: close"), "{head}");
            assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
            assert!(head.contains("\r\nContent-Length: 6\r\n"), "{head}");
            assert_eq!(body, TEXT);
        }
        let head = told(&[b"HEAD /metrics HTTP/1.0\r\n\r\n"]);
        assert!(head.contains("\r\nContent-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        for path in ["/secret", "/metrics/", "/../metrics", "//metrics", "metrics", "*", "http://x/metrics"] {
            let answer = told(&[format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()]);
            assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}: {answer}");
        }
        let head = told(&[b"HEAD /secret HTTP/1.1\r\n\r\n"]);
        assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "GETS", "\0"] {
            let answer = told(&[format!("{method} /metrics HTTP/1.1\r\n\r\n").as_bytes()]);
            assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nAllow: GET, HEAD\r\n"), "{answer}");
        }
    }

    #[test]
    fn hostile_requests_get_an_error_or_nothing() {
        for refused in [&b"\r\n\r\n"[..], b"GET\r\n\r\n", b"\xff\xfe\x00 \x01\r\n\r\n", b" GET / HTTP/1.1\r\n\r\n"] {
            assert!(told(&[refused]).starts_with("HTTP/1.1 40"), "{refused:?}");
        }
        // It ends before its empty line, or that does not come in time.
        for cut in [&b""[..], b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\n\n", b"\r\n\r"] {
            assert_eq!(told(&[cut]), "", "{cut:?}");
        }
        assert_eq!(told(&[&[b'x'; 2 * LONGEST_REQUEST]]), "");
        let long = |header: usize| [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; header], END].concat();
        assert!(told(&[&long(LONGEST_REQUEST - 100)]).starts_with("HTTP/1.1 200 "));
        assert_eq!(told(&[&long(LONGEST_REQUEST)]), "");
    }

    #[test]
    fn a_request_in_parts_is_one_and_a_second_one_is_not_answered() {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        let bytes: Vec<&[u8]> = request.chunks(1).collect();
        assert!(told(&bytes).ends_with(TEXT));
        let answer = told(&[&[&request[..], &request[..]].concat()]);
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }

    /// Clients that have connected and are silent, one for each place.
    fn silent(responder: &mut Responder, address: SocketAddr, now: Instant) -> Vec<TcpStream> {
        let mut connect = |count| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nonblocking(true).unwrap();
            run_until(responder, now, |responder| responder.clients.len() == count);
            stream
        };
        (1..=PLACES).map(&mut connect).collect()
    }

    fn is_open(mut stream: &TcpStream) -> bool {
        matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn silent_clients_keep_their_places_only_for_a_while() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let _silent = silent(&mut responder, address, now);
        assert_eq!((responder.readable().count(), responder.writable().count()), (PLACES + 1, 0));
        assert_eq!(responder.due(), Some(now + TIMEOUT));
        responder.advance(now + TIMEOUT);
        assert!(responder.clients.is_empty() && responder.due().is_none());
    }

    #[test]
    fn a_new_client_takes_the_place_of_the_oldest_that_has_sent_no_request() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut clients = silent(&mut responder, address, now);
        // The oldest has sent its request, so the second one has to leave.
        clients[0].write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        clients[1].write_all(b"GET / HTTP/1.1\r\n").unwrap();
        run_until(&mut responder, now, Responder::is_asked);
        let mut new = TcpStream::connect(address).unwrap();
        new.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(&mut responder, now, |_| !is_open(&clients[1]));
        assert!(clients.iter().enumerate().all(|(at, client)| at == 1 || is_open(client)));
        let asked = |responder: &Responder| {
            responder.clients.iter().filter(|client| matches!(client.state, State::Asked { .. })).count()
        };
        run_until(&mut responder, now, |responder| asked(responder) == 2);
        assert_eq!(responder.clients.len(), PLACES);
    }

    #[test]
    fn clients_that_wait_for_their_response_are_not_displaced_and_served_ones_are() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut clients = silent(&mut responder, address, now);
        clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
        let asked =
            |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Asked { .. }));
        run_until(&mut responder, now, asked);
        let refused = TcpStream::connect(address).unwrap();
        refused.set_nonblocking(true).unwrap();
        run_until(&mut responder, now, |_| !is_open(&refused));
        assert!(responder.clients.len() == PLACES && clients.iter().all(is_open));
        responder.answer(TEXT, now);
        assert_eq!(responder.clients.len(), PLACES, "they have not closed their ends yet");
        let _new = TcpStream::connect(address).unwrap();
        let accepted = |responder: &Responder| matches!(responder.clients[PLACES - 1].state, State::Request(_));
        run_until(&mut responder, now, accepted);
        assert_eq!(responder.clients.len(), PLACES);
    }

    #[test]
    fn a_client_that_has_its_response_is_displaced_before_one_whose_request_may_be_on_its_way() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut clients = silent(&mut responder, address, now);
        let served = PLACES / 2;
        clients[served].write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(&mut responder, now, Responder::is_asked);
        responder.answer(TEXT, now);
        let _new = TcpStream::connect(address).unwrap();
        let all_silent =
            |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Request(_)));
        run_until(&mut responder, now, all_silent);
        assert_eq!(responder.clients.len(), PLACES);
        assert!(clients.iter().enumerate().all(|(at, client)| at == served || is_open(client)));
    }

    #[test]
    fn clients_that_do_not_read_their_responses_are_displaced_after_a_while() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut clients = silent(&mut responder, address, now);
        clients.iter_mut().for_each(|client| client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
        let asked =
            |responder: &Responder| responder.clients.iter().all(|client| matches!(client.state, State::Asked { .. }));
        run_until(&mut responder, now, asked);
        responder.answer(&"x".repeat(16 << 20), now);
        // The sockets may take some more of it.
        let sent = |client: &Client| match client.state {
            State::Response { sent, .. } => sent,
            _ => panic!("{client:?} has a long response"),
        };
        let (mut before, mut same) = (0, 0);
        run_until(&mut responder, now, |responder| {
            let all: usize = responder.clients.iter().map(sent).sum();
            same = if all == before { same + 1 } else { 0 };
            before = all;
            same > 300
        });
        let soon = now + STALLED / 2;
        let refused = TcpStream::connect(address).unwrap();
        refused.set_nonblocking(true).unwrap();
        run_until(&mut responder, soon, |_| !is_open(&refused));
        assert_eq!(responder.writable().count(), PLACES);
        let _new = TcpStream::connect(address).unwrap();
        let accepted = |responder: &Responder| matches!(responder.clients[PLACES - 1].state, State::Request(_));
        run_until(&mut responder, now + STALLED, accepted);
        assert_eq!((responder.clients.len(), responder.writable().count()), (PLACES, PLACES - 1));
    }

    #[test]
    fn input_behind_the_request_does_not_cut_the_response() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(&mut responder, now, Responder::is_asked);
        // What the responder has not read when the response is sent.
        client.write_all(&[b'x'; 2 * LONGEST_REQUEST]).unwrap();
        responder.answer(TEXT, now);
        assert_eq!((responder.readable().count(), responder.writable().count()), (2, 0));
        assert_eq!(responder.due(), Some(now + LINGER));
        client.write_all(b"and more").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        run_until(&mut responder, now, |responder| responder.clients.is_empty());
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("no reset");
        assert!(answer.ends_with(TEXT), "{answer}");
    }

    #[test]
    fn draining_is_bounded_in_time_and_in_bytes() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let serve = |responder: &mut Responder| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            run_until(responder, now, Responder::is_asked);
            responder.answer(TEXT, now);
            client
        };
        let _silent = serve(&mut responder);
        responder.advance(now + LINGER);
        assert!(responder.clients.is_empty());
        let mut endless = serve(&mut responder);
        let flood = std::thread::spawn(move || while endless.write_all(&[b'x'; 4096]).is_ok() {});
        run_until(&mut responder, now, |responder| responder.clients.is_empty());
        flood.join().unwrap();
    }

    #[test]
    fn the_time_in_which_the_text_is_made_cuts_no_response() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let text = "x".repeat(16 << 20);
        let asks = |responder: &mut Responder, now| {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            run_until(responder, now, Responder::is_asked);
            client
        };
        let mut first = asks(&mut responder, now);
        responder.answer(&text, now);
        assert_eq!(responder.writable().count(), 1, "more than the sockets take at once");
        // Another client asks, and making its text takes longer than the timeout.
        let soon = now + Duration::from_secs(1);
        let _second = asks(&mut responder, soon);
        let late = soon + 2 * TIMEOUT;
        responder.answer(TEXT, late);
        assert!(responder.due().is_some_and(|due| due > late), "the first one keeps its 4 s");
        let reader = std::thread::spawn(move || {
            let mut answer = String::new();
            first.read_to_string(&mut answer).map(|_| answer)
        });
        run_until(&mut responder, late, |_| reader.is_finished());
        let answer = reader.join().unwrap().expect("no reset");
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), text.len());
    }

    #[test]
    fn a_client_that_trickles_is_dropped_at_its_time_limit() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut client = TcpStream::connect(address).unwrap();
        for second in 0..5 {
            client.write_all(b"GET ").unwrap();
            let received = |responder: &Responder| match responder.clients.as_slice() {
                [Client { state: State::Request(request), .. }] => request.len() == 4 * (second + 1),
                _ => false,
            };
            run_until(&mut responder, now + Duration::from_secs(second as u64), received);
        }
        responder.advance(now + TIMEOUT);
        assert!(responder.clients.is_empty());
    }

    #[test]
    fn a_client_that_does_not_read_is_dropped_at_its_time_limit() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        run_until(&mut responder, now, Responder::is_asked);
        let later = now + TIMEOUT;
        responder.answer(&"x".repeat(64 << 20), later);
        assert_eq!((responder.readable().count(), responder.writable().count()), (1, 1));
        responder.advance(later);
        assert_eq!(responder.due(), Some(later + TIMEOUT), "sending has its own time");
        responder.advance(later + TIMEOUT);
        assert!(responder.clients.is_empty());
    }

    #[test]
    fn a_request_that_has_come_counts_even_if_the_owner_was_busy() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        let mut client = TcpStream::connect(address).unwrap();
        run_until(&mut responder, now, |responder| responder.clients.len() == 1);
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // On the loopback interface the bytes are there when the call has returned.
        responder.advance(now + 3 * TIMEOUT);
        assert!(responder.is_asked());
    }

    #[test]
    fn nothing_is_accepted_for_a_while_after_a_failure() {
        let (mut responder, address) = responder();
        let now = Instant::now();
        responder.paused_until = Some(now + PAUSE);
        let _client = TcpStream::connect(address).unwrap();
        responder.advance(now);
        assert_eq!((responder.readable().count(), responder.due()), (0, Some(now + PAUSE)));
        run_until(&mut responder, now + PAUSE, |responder| responder.clients.len() == 1);
    }
}
