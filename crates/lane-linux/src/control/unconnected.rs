//! Why no service answers at its path.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tickwire_lane::control::Reason;

/// The meaning of the error with which [`super::Channel::connect`] failed at a path.
#[must_use]
pub fn why_unconnected(path: &Path, error: &io::Error) -> Reason {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => Reason::NotPermitted,
        // Its queue is full: it does not accept earlier clients.
        (io::ErrorKind::WouldBlock, _) => Reason::Silent,
        // A path that is too long for a socket.
        (io::ErrorKind::InvalidInput, None) => Reason::NotService,
        (_, Some(libc::EPROTOTYPE)) => Reason::NotService,
        (_, Some(libc::EMFILE)) => Reason::Descriptors,
        // As by the socket of a service that was killed, whose file is left.
        (io::ErrorKind::ConnectionRefused, _)
            if std::fs::metadata(path).is_ok_and(|file| !file.file_type().is_socket()) =>
        {
            Reason::NotService
        }
        _ => Reason::NoService,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn what_is_not_the_services_socket_is_told_from_a_service_that_is_away() {
        let directory = std::env::temp_dir().join(format!("tickwire-lane-linux-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let place = |name: &str| directory.join(name);
        std::fs::write(place("file"), "").unwrap();
        let _stream = UnixListener::bind(place("stream")).unwrap();
        let _datagrams = UnixDatagram::bind(place("datagrams")).unwrap();
        drop(UnixListener::bind(place("old")).unwrap());
        let why = |path: &Path| why_unconnected(path, &Channel::connect(path).unwrap_err());
        let other = ["file", "", "stream", "datagrams", &"long".repeat(30)].map(|name| why(&place(name)));
        let away = ["old", "nothing", "file/nothing"].map(|name| why(&place(name)));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((other, away), ([Reason::NotService; 5], [Reason::NoService; 3]));
    }
}
