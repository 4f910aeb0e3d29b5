//! The service's stream of captured packets.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;
use tickwire_commands::capture::{CaptureStream, Turn};

/// A record and a jumbo packet fit; the ring buffer's entries are smaller.
const LARGEST: usize = 1 << 18;

/// The reading end of a `SOCK_SEQPACKET` socket: one packet is one record.
pub(crate) struct Stream {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, buffer: vec![0; LARGEST] }
    }
}

impl CaptureStream for Stream {
    /// A signal ends the wait.
    fn next(&mut self, time_limit: Duration) -> Result<Turn<'_>> {
        let read = |buffer: &mut [u8]| recv(self.fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT);
        let length = match read(&mut self.buffer) {
            Err(Errno::EAGAIN) => {
                let mut wait = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
                let time_limit = PollTimeout::try_from(time_limit).unwrap_or(PollTimeout::ZERO);
                match poll(&mut wait, time_limit) {
                    Ok(0) | Err(Errno::EINTR) => return Ok(Turn::Quiet),
                    Ok(_) => match read(&mut self.buffer) {
                        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Turn::Quiet),
                        done => done,
                    },
                    Err(error) => Err(error),
                }
            }
            Err(Errno::EINTR) => return Ok(Turn::Quiet),
            done => done,
        };
        match length {
            Ok(0) | Err(Errno::ECONNRESET) => Ok(Turn::Ended),
            Ok(length) => Ok(Turn::Record(self.buffer.get(..length).unwrap_or_default())),
            Err(error) => Err(error).context("cannot read captured packets"),
        }
    }
}
