//! This process's control connection: requests to the service and what it says unasked.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;
use tickwire_link::control::{Channel, Descriptors, Push, Reply, Request};

/// How long the service may take for an answer before it counts as gone. Long, because a host under full load is slow and giving up
/// costs the program its connections; a service that has ended is noticed at once, by its end of the connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers to requests that nobody waited for are told from others by their number.
pub(crate) struct Session {
    channel: Channel,
    number: u32,
    /// What came unasked while an answer was awaited.
    pushes: Vec<Push>,
}

impl Session {
    /// A session over a connected channel.
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel, number: 0, pushes: Vec::new() }
    }

    /// Its descriptor, for waiting.
    pub(crate) fn descriptor(&self) -> i32 {
        self.channel.as_raw_fd()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// If the connection is broken, the service silent, or the answer no answer.
    pub(crate) fn call(
        &mut self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Reply, Descriptors)> {
        self.number = self.number.wrapping_add(1).max(1);
        self.channel.send(request, self.number, descriptor.as_slice())?;
        loop {
            let mut incoming = self.channel.receive(PATIENCE)?;
            if let Ok((_, push)) = incoming.decode::<Push>() {
                self.pushes.push(push);
                continue;
            }
            let (number, reply) =
                incoming.decode::<Reply>().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
            // The answer to an earlier request for which we lost patience is of no use any more.
            if number == self.number {
                return Ok((reply, std::mem::take(&mut incoming.descriptors)));
            }
        }
    }

    /// What the service said unasked since the last call of this function.
    ///
    /// # Errors
    /// If the service has gone.
    pub(crate) fn pushes(&mut self) -> io::Result<Vec<Push>> {
        let mut gone = None;
        loop {
            match self.channel.try_receive() {
                Ok(Some(incoming)) => {
                    if let Ok((_, push)) = incoming.decode::<Push>() {
                        self.pushes.push(push);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    gone = Some(error);
                    break;
                }
            }
        }
        match gone {
            Some(error) if self.pushes.is_empty() => Err(error),
            _ => Ok(std::mem::take(&mut self.pushes)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The table would keep our own `close` from closing it.
        crate::fd::TABLE.set(self.channel.as_raw_fd(), crate::fd::Entry::Foreign);
    }
}
