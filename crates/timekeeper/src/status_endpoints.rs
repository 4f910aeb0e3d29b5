//! The clock's status for other programs: a Unix socket that answers with JSON (on Windows a named
//! pipe), and a local TCP port that answers with Prometheus metrics.
//!
//! A client gets the reply and is disconnected: on the Unix socket when it connects, on the port
//! when it has sent a request. No client can delay the daemon: nothing blocks. On the Unix socket a
//! slow reader loses what does not fit into the socket's buffer; on the port a slow client is
//! dropped.

use crate::os::{self, BorrowedSocket, ReportClient, ReportListener};
use crate::report::Report;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tickwire_metrics::Responder;

/// Clients for reports that are served in one iteration of the loop.
const AT_ONCE: usize = 8;

/// The daemon's socket beside the page: the page's name with `.sock`. On Windows the named pipe of
/// this page.
#[must_use]
pub fn socket_of(page: &Path) -> PathBuf {
    os::report_path(page)
}

/// Requests the status of a page's daemon.
///
/// # Errors
/// There is no daemon, or its reply is invalid.
pub fn ask(page: &Path) -> std::io::Result<Report> {
    let text = os::read_report(page)?;
    serde_json::from_str(&text).map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))
}

/// The status sockets of a daemon.
#[derive(Debug)]
pub(crate) struct StatusEndpoints {
    reports: ReportListener,
    path: PathBuf,
    /// The clients that have just connected for a report.
    clients: Vec<ReportClient>,
    metrics: Option<Responder>,
}

impl Drop for StatusEndpoints {
    fn drop(&mut self) {
        ReportListener::remove(&self.path);
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
        let reports = ReportListener::bind(&path).map_err(|error| (path.display().to_string(), error))?;
        let mut status_endpoints = Self { reports, path, clients: Vec::new(), metrics: None };
        if let Some(address) = metrics {
            let metrics = Responder::bind(address).map_err(|error| (format!("{address} for metrics"), error))?;
            status_endpoints.metrics = Some(metrics);
        }
        Ok(status_endpoints)
    }

    /// Where clients connect for a report: to wait for.
    pub(crate) const fn reports(&self) -> &ReportListener {
        &self.reports
    }

    /// The sockets to wait for until they are readable.
    pub(crate) fn readable(&self) -> impl Iterator<Item = BorrowedSocket<'_>> {
        self.metrics.iter().flat_map(Responder::readable)
    }

    /// The sockets to wait for until they are writable.
    pub(crate) fn writable(&self) -> impl Iterator<Item = BorrowedSocket<'_>> {
        self.metrics.iter().flat_map(Responder::writable)
    }

    /// When [`Self::receive`] has something to do although no socket is ready.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.metrics.as_ref().and_then(Responder::due)
    }

    /// Accepts clients and receives requests. Returns whether one waits for the report.
    pub(crate) fn receive(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let Some(client) = self.reports.accept() else { break };
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
            self.clients.drain(..).for_each(|client| client.answer(&text));
        }
        if let Some(metrics) = self.metrics.as_mut().filter(|metrics| metrics.is_asked()) {
            metrics.answer(report.metrics().text(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_endpoint_that_cannot_be_opened_is_named_and_the_other_is_not_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (which, error) = StatusEndpoints::open(&page, Some(address)).unwrap_err();
        assert_eq!((which, error.kind()), (format!("{address} for metrics"), ErrorKind::AddrInUse));
        assert!(ask(&page).is_err());
        drop(StatusEndpoints::open(&page, None).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
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
        assert_eq!(endpoints.readable().count(), 2, "the silent client is still there");
        let due = endpoints.due().expect("its time is limited");
        assert!(due <= Instant::now() + std::time::Duration::from_secs(5));
    }
}
