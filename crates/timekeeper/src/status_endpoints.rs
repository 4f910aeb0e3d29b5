//! The clock's status for other programs: a Unix socket that answers with JSON, and a local TCP
//! port that answers with Prometheus metrics.
//!
//! A client gets the reply and is disconnected: on the Unix socket when it connects, on the port
//! when it has sent a request. No client can delay the daemon: nothing blocks. On the Unix socket a
//! slow reader loses what does not fit into the socket's buffer; on the port a slow client is
//! dropped.

use crate::report::Report;
use nix::poll::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tickwire_metrics::Responder;

/// Clients of the Unix socket that are served in one iteration of the loop.
const AT_ONCE: usize = 8;

/// The daemon's socket beside the page: the page's name with `.sock`.
#[must_use]
pub fn socket_of(page: &Path) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(".sock");
    name.into()
}

/// Requests the status of a page's daemon.
///
/// # Errors
/// There is no daemon, or its reply is invalid.
pub fn ask(page: &Path) -> std::io::Result<Report> {
    let mut stream = UnixStream::connect(socket_of(page))?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// The status sockets of a daemon.
#[derive(Debug)]
pub(crate) struct StatusEndpoints {
    reports: UnixListener,
    path: PathBuf,
    /// The clients of the Unix socket that have just connected.
    clients: Vec<UnixStream>,
    metrics: Option<Responder>,
}

impl Drop for StatusEndpoints {
    fn drop(&mut self) {
        // The name is not used any more; a leftover would be replaced at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl StatusEndpoints {
    /// Opens them. The page's lock shows that no other daemon is alive, so a socket of that name is
    /// a leftover.
    ///
    /// # Errors
    /// Which one cannot be opened, and why. Then neither is left behind.
    pub(crate) fn open(page: &Path, metrics: Option<SocketAddr>) -> Result<Self, (String, std::io::Error)> {
        let path = socket_of(page);
        let reports = listen(&path).map_err(|error| (path.display().to_string(), error))?;
        let mut status_endpoints = Self { reports, path, clients: Vec::new(), metrics: None };
        if let Some(address) = metrics {
            let metrics = Responder::bind(address).map_err(|error| (format!("{address} for metrics"), error))?;
            status_endpoints.metrics = Some(metrics);
        }
        Ok(status_endpoints)
    }

    /// The descriptors to wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = PollFd<'_>> {
        let readable = self.metrics.iter().flat_map(Responder::readable).chain([self.reports.as_fd()]);
        let writable = self.metrics.iter().flat_map(Responder::writable);
        let readable = readable.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        readable.chain(writable.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLOUT)))
    }

    /// When [`Self::receive`] has something to do although no descriptor is ready.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.metrics.as_ref().and_then(Responder::due)
    }

    /// Accepts clients and receives requests. Returns whether one waits for the report.
    pub(crate) fn receive(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Ok((client, _)) = self.reports.accept() else { break };
            self.clients.push(client);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.advance(Instant::now());
        }
        !self.clients.is_empty() || self.metrics.as_ref().is_some_and(Responder::is_asked)
    }

    /// Gives the report to all clients that wait for it.
    pub(crate) fn answer(&mut self, report: &Report) {
        if !self.clients.is_empty() {
            let text = serde_json::to_vec(report).unwrap_or_default();
            for mut client in self.clients.drain(..) {
                // The report fits a socket's buffer; a client that is gone gets nothing.
                let _ = client.set_nonblocking(true).and_then(|()| client.write_all(&text));
            }
        }
        if let Some(metrics) = self.metrics.as_mut().filter(|metrics| metrics.is_asked()) {
            metrics.answer(report.metrics().text(), Instant::now());
        }
    }
}

/// Binds the socket for reports.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) => std::fs::remove_file(path)?,
        Ok(_) => return Err(std::io::Error::new(ErrorKind::AlreadyExists, "something else has this name")),
        Err(_) => {}
    }
    let reports = UnixListener::bind(path)?;
    // Every user may read the status, like the page itself.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    reports.set_nonblocking(true)?;
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_endpoint_that_cannot_be_opened_is_named_and_the_other_is_not_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (which, error) = StatusEndpoints::open(&page, Some(address)).unwrap_err();
        assert_eq!((which, error.kind()), (format!("{address} for metrics"), ErrorKind::AddrInUse));
        assert!(!socket_of(&page).exists());
        drop(StatusEndpoints::open(&page, None).unwrap());
        std::fs::write(socket_of(&page), "").unwrap();
        let (which, _) = StatusEndpoints::open(&page, None).unwrap_err();
        assert_eq!(which, socket_of(&page).display().to_string());
        assert!(socket_of(&page).exists(), "a file that is no socket stays");
    }

    #[test]
    fn a_client_gets_the_report_on_either_socket_and_a_silent_one_delays_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let mut endpoints = StatusEndpoints::open(&page, Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = endpoints.metrics.as_ref().unwrap().local_addr().unwrap();
        let _silent = TcpStream::connect(address).unwrap();
        let asked = std::thread::spawn(move || {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            (ask(&page).unwrap(), answer)
        });
        let report: Report = serde_json::from_str(
            r#"{"status": ["synchronised"], "leap": 0, "counter": "TSC", "nominal_period_ns": 0.5, "disruptions": 0,
            "page": "/page", "sources": []}"#,
        )
        .unwrap();
        while !asked.is_finished() {
            if endpoints.receive() {
                endpoints.answer(&report);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let (told, answer) = asked.join().unwrap();
        assert_eq!(told, report);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\ntickwire_clock_synchronised 1\n"), "{answer}");
        // The client that was served has closed its end.
        assert!(!endpoints.receive());
        assert_eq!(endpoints.awaited().count(), 3, "the silent client is still there");
        let due = endpoints.due().expect("its time is limited");
        assert!(due <= Instant::now() + std::time::Duration::from_secs(5));
    }
}
