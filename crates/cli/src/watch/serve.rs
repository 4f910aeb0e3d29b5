//! The figures for Prometheus, over HTTP. A client gets them and its connection is closed. No
//! client can block the others: few are served at a time, and a slow one is dropped.

use super::metrics;
use super::snapshot::{Snapshot, Sources};
use crate::usage::Usage;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// While so many clients are served, a further connection is closed at once.
const AT_ONCE: usize = 8;
/// The timeout of receiving a request, and of sending the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest request, in bytes.
const LONGEST_REQUEST: usize = 8192;
/// The pause after an `accept` that failed (no descriptors, for one).
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal comes.
pub(super) fn run(address: SocketAddr, sources: Sources, interval: Duration) -> Result<()> {
    let stop = crate::clock::until_told()?;
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            Usage::of("--metrics", format!("{} is no address of this host", address.ip())).into()
        }
        _ => anyhow::Error::from(error).context(format!("cannot listen on {address} for metrics")),
    })?;
    listener.set_nonblocking(true).context("cannot wait for visitors")?;
    eprintln!("tickwire: metrics are at http://{}/metrics", listener.local_addr().unwrap_or(address));
    let figures = Arc::new(Figures { look: Box::new(move || sources.look()), interval, last: Mutex::default() });
    visitors(&listener, stop.as_fd(), &figures)
}

fn visitors(listener: &TcpListener, stop: BorrowedFd<'_>, figures: &Arc<Figures>) -> Result<()> {
    let served = Arc::new(AtomicUsize::new(0));
    loop {
        let mut waited = [PollFd::new(listener.as_fd(), PollFlags::POLLIN), PollFd::new(stop, PollFlags::POLLIN)];
        match poll(&mut waited, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            other => other.context("cannot wait for visitors")?,
        };
        // A signal has closed the write end: that is POLLHUP, which is reported without being asked
        // for.
        if waited[1].any() == Some(true) {
            return Ok(());
        }
        match listener.accept() {
            Ok((visitor, _)) => {
                // Without a free place, or without a thread, the connection is closed.
                let Some(place) = Place::take(&served) else { continue };
                let figures = Arc::clone(figures);
                let _ = std::thread::Builder::new().spawn(move || {
                    serve(visitor, &figures, TIMEOUT);
                    drop(place);
                });
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// One of the slots for clients, freed on drop.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(served: &Arc<AtomicUsize>) -> Option<Self> {
        if served.fetch_add(1, Ordering::Relaxed) < AT_ONCE {
            return Some(Self(Arc::clone(served)));
        }
        served.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The text, made anew on a request when it is older than the interval: many clients cost no more
/// than one.
struct Figures {
    look: Box<dyn Fn() -> Snapshot + Send + Sync>,
    interval: Duration,
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Figures {
    fn text(&self) -> Arc<str> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, text)) = &*last
            && when.elapsed() < self.interval
        {
            return Arc::clone(text);
        }
        let text = Arc::from(metrics::text(&(self.look)()));
        *last = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

/// Serves one client; one that is gone, or slow, gets nothing more.
fn serve(mut visitor: TcpStream, figures: &Figures, time_limit: Duration) {
    let mut asked = || -> io::Result<()> {
        visitor.set_nonblocking(false)?;
        let request = request(&mut visitor, Instant::now() + time_limit)?;
        let (status, body) = answer(&request, || figures.text());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let until = Instant::now() + time_limit;
        write(&mut visitor, head.as_bytes(), until)?;
        if !request.starts_with(b"HEAD ") {
            write(&mut visitor, body.as_bytes(), until)?;
        }
        visitor.shutdown(Shutdown::Write)
    };
    let _ = asked();
}

/// The status and the body for a request.
fn answer(request: &[u8], text: impl FnOnce() -> Arc<str>) -> (&'static str, Arc<str>) {
    let line = request.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET" | b"HEAD", b"/" | b"/metrics") => ("200 OK", text()),
        (b"GET" | b"HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET and HEAD are understood\n".into()),
    }
}

/// Reads the request, up to the empty line that ends it.
fn request(visitor: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        visitor.set_read_timeout(Some(left(until)?))?;
        let count = visitor.read(&mut buffer)?;
        if count == 0 || request.len() + count > LONGEST_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&buffer[..count]);
    }
    Ok(request)
}

fn write(visitor: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        visitor.set_write_timeout(Some(left(until)?))?;
        let count = visitor.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// The time until the deadline. A slow client does not extend it by making progress.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::super::draw::testing;
    use super::*;
    use std::os::fd::OwnedFd;

    struct Door {
        address: SocketAddr,
        looks: Arc<AtomicUsize>,
        stop: Option<OwnedFd>,
        thread: Option<std::thread::JoinHandle<Result<()>>>,
    }

    impl Door {
        fn open(interval: Duration) -> Self {
            let looks = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&looks);
            let look = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                testing::snapshot()
            };
            let figures = Arc::new(Figures { look: Box::new(look), interval, last: Mutex::default() });
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            let (told, stop) = nix::unistd::pipe().unwrap();
            let thread = std::thread::spawn(move || visitors(&listener, told.as_fd(), &figures));
            Self { address, looks, stop: Some(stop), thread: Some(thread) }
        }

        fn ask(&self, request: &[u8]) -> String {
            let mut visitor = TcpStream::connect(self.address).unwrap();
            // A client whose connection is closed may notice it while it writes.
            let _ = visitor.write_all(request);
            let mut answer = String::new();
            let _ = visitor.read_to_string(&mut answer);
            answer
        }
    }

    impl Drop for Door {
        fn drop(&mut self) {
            drop(self.stop.take());
            self.thread.take().unwrap().join().unwrap().unwrap();
        }
    }

    #[test]
    fn every_client_gets_the_figures_and_many_cost_no_more_than_one() {
        let door = Door::open(Duration::from_secs(3600));
        for path in ["/", "/metrics", "/metrics?x=1"] {
            let answer = door.ask(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert!(body.contains("tickwire_clock_bound_seconds 0.0000214\n"), "{body}");
        }
        assert_eq!(door.looks.load(Ordering::Relaxed), 1);
        assert!(door.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(door.ask(b"GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(door.ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(door.ask(&[b'x'; 2 * LONGEST_REQUEST]), "");
    }

    #[test]
    fn silent_clients_keep_their_places_only_for_a_while() {
        let door = Door::open(Duration::ZERO);
        let silent: Vec<TcpStream> = (0..AT_ONCE).map(|_| TcpStream::connect(door.address).unwrap()).collect();
        // All places are taken: a new connection is closed at once. (Until the server has accepted
        // all silent ones, it may still be served.)
        let request = b"GET / HTTP/1.1\r\n\r\n";
        let until = Instant::now() + TIMEOUT;
        while !door.ask(request).is_empty() {
            assert!(Instant::now() < until, "no connection was closed");
        }
        drop(silent);
        let until = Instant::now() + 2 * TIMEOUT;
        while door.ask(request).is_empty() {
            assert!(Instant::now() < until, "their places were not given back");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A client, and the server's end of its connection.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let visitor = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (visitor, listener.accept().unwrap().0)
    }

    #[test]
    fn a_client_that_trickles_is_dropped_at_its_time_limit() {
        let time_limit = Duration::from_millis(200);
        let (mut visitor, door) = connected();
        let trickle = std::thread::spawn(move || {
            while visitor.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut door = door;
        let error = request(&mut door, Instant::now() + time_limit).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(door);
        trickle.join().unwrap();
        // The same for a client that does not read.
        let (_visitor, mut door) = connected();
        let begin = Instant::now();
        let much = vec![b'x'; 64 << 20];
        assert!(write(&mut door, &much, begin + time_limit).is_err());
        assert!(begin.elapsed() < 20 * time_limit, "{:?}", begin.elapsed());
    }
}
