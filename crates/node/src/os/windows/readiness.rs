//! Which sockets have something to receive: `WSAPoll` with all of them, which has no limit as
//! `select` has.

use super::{AsSocket, handle, poll};
use std::io;
use std::time::Duration;
use windows_sys::Win32::Networking::WinSock::{POLLRDNORM, WSAPOLLFD};

/// Sockets that are waited for. A socket is reported again if there is more.
#[derive(Default)]
pub(crate) struct Readiness {
    sockets: Vec<WSAPOLLFD>,
    /// One for each.
    tokens: Vec<u64>,
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readiness").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

impl Readiness {
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Waits for a socket from now on; `token` is reported for it.
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) fn add(&mut self, socket: &impl AsSocket, token: u64) -> io::Result<()> {
        self.sockets.push(WSAPOLLFD { fd: handle(socket), events: POLLRDNORM, revents: 0 });
        self.tokens.push(token);
        Ok(())
    }

    /// Waits for a socket no more.
    pub(crate) fn remove(&mut self, socket: &impl AsSocket) -> io::Result<()> {
        let own = handle(socket);
        let place = self.sockets.iter().position(|known| known.fd == own).ok_or(io::ErrorKind::NotFound)?;
        self.sockets.swap_remove(place);
        self.tokens.swap_remove(place);
        Ok(())
    }

    /// Waits until a socket has something to receive, for so long at most, and returns the tokens
    /// of those that have.
    pub(crate) fn wait(&mut self, time: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        ready.clear();
        if self.sockets.is_empty() {
            // Winsock refuses an empty list.
            std::thread::sleep(time);
            return Ok(());
        }
        poll(&mut self.sockets, time)?;
        let found = self.sockets.iter().zip(&self.tokens).filter(|(socket, _)| socket.revents != 0);
        ready.extend(found.map(|(_, token)| token));
        Ok(())
    }
}
