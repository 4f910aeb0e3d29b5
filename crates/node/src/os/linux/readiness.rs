//! Which sockets have something to receive: one epoll instance, like a program with many sockets.

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Sockets reported by one wait. The next wait reports the remaining ones first.
const EVENTS: usize = 64;

/// Sockets that are waited for. It is level-triggered: a socket is reported again if there is more.
#[derive(Debug)]
pub(crate) struct Readiness(Epoll);

impl Readiness {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Waits for a socket from now on; `token` is reported for it.
    pub(crate) fn add(&mut self, socket: &impl AsFd, token: u64) -> io::Result<()> {
        Ok(self.0.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Waits for a socket no more.
    pub(crate) fn remove(&mut self, socket: &impl AsFd) -> io::Result<()> {
        Ok(self.0.delete(socket)?)
    }

    /// Waits until a socket has something to receive, for so long at most, and returns the tokens
    /// of those that have.
    pub(crate) fn wait(&mut self, time: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = match self.0.wait(&mut events, time.as_micros().div_ceil(1_000) as u16) {
            Err(Errno::EINTR) => 0,
            count => count?,
        };
        ready.extend(events[..count].iter().map(EpollEvent::data));
        Ok(())
    }
}
