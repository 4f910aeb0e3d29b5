//! The figures for Prometheus, over HTTP.

use super::metrics;
use super::snapshot::{Snapshot, Sources};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use tickwire_metrics::Responder;
use tickwire_show::usage::UsageError;

/// Serves until a signal comes.
pub(super) fn run(address: SocketAddr, sources: Sources, interval: Duration) -> Result<()> {
    let stop = tickwire_commands::clock::until_told()?;
    let mut responder = Responder::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrNotAvailable => {
            UsageError::of("--metrics", format!("{} is no address of this host", address.ip())).into()
        }
        _ => anyhow::Error::from(error).context(format!("cannot listen on {address} for metrics")),
    })?;
    eprintln!("tickwire: metrics are at http://{}/metrics", responder.local_addr().unwrap_or(address));
    let mut figures = Figures { look: move || sources.look(), interval, last: None };
    // Looking takes seconds where something does not answer. A signal ends the program meanwhile.
    let (ended, end) = nix::unistd::pipe().context("cannot make a pipe")?;
    let stop_server = stop.try_clone().context("cannot duplicate a descriptor")?;
    let server = std::thread::spawn(move || {
        let served = serve(&mut responder, stop_server.as_fd(), &mut figures);
        drop(end);
        served
    });
    let mut waited = [&stop, &ended].map(|descriptor| PollFd::new(descriptor.as_fd(), PollFlags::POLLIN));
    while waited.iter().all(|one| one.any() != Some(true)) {
        wait(&mut waited, PollTimeout::NONE)?;
    }
    if waited[0].any() == Some(true) {
        return Ok(());
    }
    server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Serves until the other end of `stop` is closed, which is POLLHUP.
fn serve(responder: &mut Responder, stop: BorrowedFd<'_>, figures: &mut Figures<impl Fn() -> Snapshot>) -> Result<()> {
    loop {
        let readable = [stop].into_iter().chain(responder.readable());
        let readable = readable.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        let writable = responder.writable().map(|descriptor| PollFd::new(descriptor, PollFlags::POLLOUT));
        let mut waited: Vec<PollFd<'_>> = readable.chain(writable).collect();
        wait(&mut waited, timeout(responder.due()))?;
        if waited[0].any() == Some(true) {
            return Ok(());
        }
        responder.advance(Instant::now());
        if responder.is_asked() {
            responder.answer(figures.text(), Instant::now());
        }
    }
}

fn wait(waited: &mut [PollFd<'_>], timeout: PollTimeout) -> Result<()> {
    match poll(waited, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for clients"),
    }
}

/// Rounded up: at the end of the timeout the time has come.
fn timeout(due: Option<Instant>) -> PollTimeout {
    due.map_or(PollTimeout::NONE, |due| {
        let left = due.saturating_duration_since(Instant::now());
        PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
    })
}

/// The text, made anew on a request when it is older than the interval: many clients cost no more
/// than one.
struct Figures<L> {
    look: L,
    interval: Duration,
    last: Option<(Instant, String)>,
}

impl<L: Fn() -> Snapshot> Figures<L> {
    fn text(&mut self) -> &str {
        if self.last.as_ref().is_none_or(|(when, _)| when.elapsed() >= self.interval) {
            let text = metrics::of(&(self.look)()).text().to_owned();
            self.last = Some((Instant::now(), text));
        }
        self.last.as_ref().map_or("", |(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::testing;
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn every_client_gets_the_figures_and_many_cost_no_more_than_one() {
        let mut responder = Responder::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = responder.local_addr().unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let look = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            testing::snapshot()
        };
        let mut figures = Figures { look, interval: Duration::from_secs(3600), last: None };
        let (told, stop) = nix::unistd::pipe().unwrap();
        let server = std::thread::spawn(move || serve(&mut responder, told.as_fd(), &mut figures));
        for path in ["/", "/metrics", "/metrics?x=1"] {
            let answer = ask(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert!(body.contains("tickwire_clock_bound_seconds 0.0000214\n"), "{body}");
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        assert!(ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, b"GET /secret HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        drop(stop);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn figures_are_taken_anew_when_they_are_old() {
        let looks = AtomicUsize::new(0);
        let look = || {
            looks.fetch_add(1, Ordering::Relaxed);
            testing::idle()
        };
        let mut figures = Figures { look, interval: Duration::ZERO, last: None };
        assert!(figures.text().contains("tickwire_up"));
        assert!(figures.text().contains("tickwire_up"));
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }
}
