//! The server's socket with the kernel's receive and transmit timestamps, as counter values.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, Timestamps, bind, recvmsg, sendto, socket,
};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickclock::{Count, CounterKind};
use tickwire_stamping::cross_timestamp::CrossTimestamp;
use tickwire_stamping::socket_stamps;

const LONGEST: usize = 1500;
/// No message waits in the socket for this long, in ns.
const WAITS: i64 = 100_000_000;
/// Sent messages without a timestamp that are remembered.
const PENDING: usize = 64;

/// A received message.
pub(crate) struct Arrival {
    pub(crate) bytes: Vec<u8>,
    pub(crate) from: SockaddrStorage,
    /// Its receive time; `None` if the system clock was set, or the kernel gave no timestamp.
    pub(crate) at: Option<Count>,
}

/// A transmitted message: its number, and its transmit time.
pub(crate) struct Departure {
    pub(crate) number: u32,
    pub(crate) at: Count,
}

pub(crate) struct Socket {
    socket: OwnedFd,
    kind: CounterKind,
    period: f64,
    /// Cross timestamps from before the next message: the older one is used, and the newer one
    /// replaces it later. A message may have waited while another one was processed.
    before: [CrossTimestamp; 2],
    sent: VecDeque<(u32, CrossTimestamp)>,
    next: u32,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr, kind: CounterKind, period: f64) -> nix::Result<Self> {
        let before = CrossTimestamp::take(kind, period);
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        socket_stamps::ask(&socket)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(Self { socket, kind, period, before: [before; 2], sent: VecDeque::new(), next: 0 })
    }

    /// Sleeps until a message or a transmit timestamp is there. Returns false once something can be
    /// read from `stop`, or its other end is closed.
    pub(crate) fn wait(&self, stop: BorrowedFd<'_>) -> nix::Result<bool> {
        let mut both = [self.socket.as_fd(), stop].map(|one| PollFd::new(one, PollFlags::POLLIN));
        match poll(&mut both, PollTimeout::NONE) {
            // The hang-up of a pipe is reported without being requested.
            Ok(_) => Ok(!both[1].any().unwrap_or(true)),
            Err(Errno::EINTR) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The next message, if there is one.
    pub(crate) fn receive(&mut self) -> Option<Arrival> {
        let mut bytes = [0; LONGEST];
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let mut control = nix::cmsg_space!(Timestamps);
        let message =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), MsgFlags::MSG_DONTWAIT);
        let message = message.ok()?;
        let after = CrossTimestamp::take(self.kind, self.period);
        let stamp = socket_stamps::arrival(&message).stamp;
        let at = stamp.and_then(|stamp| CrossTimestamp::count_at(&self.before[0], &after, stamp));
        let (length, from) = (message.bytes, message.address?);
        if after.monotonic - self.before[1].monotonic > WAITS {
            self.before = [self.before[1], after];
        }
        Some(Arrival { bytes: bytes[..length].to_vec(), from, at })
    }

    /// Sends the message that `message` makes from the counter and clocks just before the system
    /// call. Returns its number, which [`Self::departures`] repeats, and that count.
    pub(crate) fn send(
        &mut self,
        to: &SockaddrStorage,
        message: impl FnOnce(&CrossTimestamp) -> Vec<u8>,
    ) -> nix::Result<(u32, Count)> {
        let before = CrossTimestamp::take(self.kind, self.period);
        let bytes = message(&before);
        sendto(self.socket.as_raw_fd(), &bytes, to, MsgFlags::empty())?;
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        if self.sent.len() == PENDING {
            self.sent.pop_front();
        }
        self.sent.push_back((number, before));
        Ok((number, before.count))
    }

    /// The messages whose transmit timestamps have arrived since the last call.
    pub(crate) fn departures(&mut self) -> Vec<Departure> {
        let mut all = Vec::new();
        while let Some((number, stamp)) = self.departure() {
            let Some(at) = self.sent.iter().position(|(sent, _)| *sent == number) else { continue };
            let Some((_, before)) = self.sent.remove(at) else { continue };
            let after = CrossTimestamp::take(self.kind, self.period);
            all.extend(CrossTimestamp::count_at(&before, &after, stamp).map(|at| Departure { number, at }));
        }
        all
    }

    fn departure(&self) -> Option<(u32, i64)> {
        loop {
            let socket_stamps::TxTimestamps { number, stamp, .. } = socket_stamps::departure(&self.socket)?;
            if let Some(both) = number.zip(stamp) {
                return Some(both);
            }
        }
    }
}
