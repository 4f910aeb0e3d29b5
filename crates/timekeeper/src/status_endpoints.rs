//! The clock's status for other programs: a Unix socket that answers with JSON, and a local TCP
//! port that answers with Prometheus metrics.
//!
//! A client that connects gets the reply and is disconnected. No client can delay the daemon:
//! nothing blocks, and a slow reader loses what does not fit into the socket's buffer.

use crate::report::Report;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Clients served on each socket in one iteration of the loop.
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
    metrics: Option<TcpListener>,
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
        let mut status_endpoints = Self { reports, path, metrics: None };
        if let Some(address) = metrics {
            let open = || {
                let metrics = TcpListener::bind(address)?;
                metrics.set_nonblocking(true)?;
                Ok(metrics)
            };
            status_endpoints.metrics = Some(open().map_err(|error| (format!("{address} for metrics"), error))?);
        }
        Ok(status_endpoints)
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.reports.as_fd()].into_iter().chain(self.metrics.as_ref().map(AsFd::as_fd))
    }

    /// Serves waiting clients.
    pub(crate) fn serve(&self, report: impl Fn() -> Report) {
        for _ in 0..AT_ONCE {
            let Ok((mut visitor, _)) = self.reports.accept() else { break };
            let text = serde_json::to_vec(&report()).unwrap_or_default();
            // The report fits a socket's buffer; a client that is gone gets nothing.
            let _ = visitor.set_nonblocking(true).and_then(|()| visitor.write_all(&text));
        }
        for _ in 0..AT_ONCE {
            let Some(Ok((mut visitor, _))) = self.metrics.as_ref().map(TcpListener::accept) else { break };
            let text = report().metrics();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                text.len()
            );
            let _ = visitor.set_nonblocking(true).and_then(|()| {
                // The request does not matter, but unread bytes would turn the close into a reset.
                let mut request = [0; 4096];
                let _ = visitor.read(&mut request);
                visitor.write_all(head.as_bytes())?;
                visitor.write_all(text.as_bytes())?;
                visitor.shutdown(std::net::Shutdown::Write)
            });
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

    #[test]
    fn a_door_that_cannot_be_opened_is_named_and_the_other_is_not_left_behind() {
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
}
