//! Accepts connections at the service's socket, also when descriptors run out.
//!
//! A connection that cannot be accepted for want of a descriptor would stay in the listener's
//! queue: its program would wait, and the loop, for which the listener stays readable, would spin.
//! So one descriptor is kept in reserve. It accepts the connection, which is then closed at once;
//! the program continues with the kernel. If even that fails, accepting pauses for a moment. A
//! refused program may have passed descriptors already, so that closing its connection is left to
//! the caller (see `user_workers`).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Accepting pauses for so long.
const PAUSE: Duration = Duration::from_millis(100);

/// A shortage is logged at most once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// The outcome of one attempt to accept.
#[derive(Debug)]
pub(crate) enum Visitor {
    /// A connection.
    In(OwnedFd),
    /// One that cannot be kept: the caller closes it soon, because it uses the reserved descriptor.
    ShownOut(OwnedFd),
    /// No connection waits, or none can be accepted for now.
    Nobody,
}

/// Accepts connections; `A` accepts one without blocking.
#[derive(Debug)]
pub(crate) struct Acceptor<A> {
    accept: A,
    reserve: Option<File>,
    shut_until: Option<Instant>,
    told: Option<Instant>,
}

impl<A: FnMut() -> io::Result<OwnedFd>> Acceptor<A> {
    pub(crate) fn new(accept: A) -> Self {
        Self { accept, reserve: reserve(), shut_until: None, told: None }
    }

    /// Until when no connection is accepted.
    pub(crate) fn shut_until(&self) -> Option<Instant> {
        self.shut_until
    }

    /// Resumes accepting.
    pub(crate) fn open(&mut self) {
        self.shut_until = None;
    }

    /// The next connection that waits.
    pub(crate) fn next(&mut self, now: Instant) -> Visitor {
        self.reserve = self.reserve.take().or_else(reserve);
        let error = match self.accept() {
            Ok(Some(socket)) => return Visitor::In(socket),
            Ok(None) => return Visitor::Nobody,
            Err(error) => error,
        };
        if self.told.is_none_or(|told| now.saturating_duration_since(told) > QUIET) {
            self.told = Some(now);
            tracing::error!(
                %error, "connections cannot be kept: their programs run on the kernel; \
                 raise the service's limit of open files (LimitNOFILE), or fs.file-max"
            );
        }
        if self.reserve.take().is_some() {
            if let Ok(Some(socket)) = self.accept() {
                return Visitor::ShownOut(socket);
            }
            self.reserve = reserve();
        }
        self.shut_until = Some(now + PAUSE);
        Visitor::Nobody
    }

    /// `Ok(None)` if no connection waits.
    fn accept(&mut self) -> io::Result<Option<OwnedFd>> {
        loop {
            match (self.accept)() {
                Ok(socket) => return Ok(Some(socket)),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    io::ErrorKind::WouldBlock => return Ok(None),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// The descriptor that is kept in reserve.
fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn descriptor() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn full() -> io::Error {
        io::Error::from_raw_os_error(libc::EMFILE)
    }

    #[test]
    fn without_a_descriptor_visitors_are_shown_out_by_the_one_in_reserve() {
        let calls = Cell::new(0);
        let mut door = Acceptor::new(|| {
            calls.set(calls.get() + 1);
            // Each second call is made with the reserve.
            if calls.get() % 2 == 1 { Err(full()) } else { Ok(descriptor()) }
        });
        for _ in 0..3 {
            assert!(matches!(door.next(Instant::now()), Visitor::ShownOut(_)));
        }
        assert_eq!((calls.get(), door.shut_until()), (6, None));
    }

    #[test]
    fn when_nothing_helps_the_door_is_shut_for_a_moment() {
        let full_now = Cell::new(true);
        let mut door = Acceptor::new(|| if full_now.get() { Err(full()) } else { Ok(descriptor()) });
        let now = Instant::now();
        assert!(matches!(door.next(now), Visitor::Nobody));
        assert_eq!(door.shut_until(), Some(now + PAUSE));
        full_now.set(false);
        door.open();
        assert!(door.shut_until().is_none() && matches!(door.next(now), Visitor::In(_)));
    }

    #[test]
    fn what_passes_by_is_no_shortage() {
        let mut kinds = vec![io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted];
        let mut door = Acceptor::new(|| Err(kinds.pop().unwrap().into()));
        assert!(matches!(door.next(Instant::now()), Visitor::Nobody));
        assert!(door.shut_until().is_none());
    }
}
