//! A socket to one server, with the kernel's stamps: as late as possible for what leaves, as early as possible for what comes.

use crate::packet::{HEADER, Malformed, Packet};
use crate::sandwich::Sandwich;
use crate::stamping::{self, Departure};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, Timestamps, connect, getpeername, recvmsg, send,
    socket,
};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tickclock::{Count, CounterKind, counter};

/// The longest message that is looked at; NTS answers are shorter (RFC 8915 §5.7).
const LONGEST: usize = 1500;
/// How many messages one call takes in: a flood must not stop the daemon.
const AT_ONCE: usize = 16;

/// How good a pair of stamps is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quality {
    /// Taken in the program, beside the system calls: microseconds of scheduling are in them.
    Program,
    /// The kernel's, in the driver.
    Kernel,
}

impl Quality {
    /// How far such stamps are off at random, in ns, beyond what shows in the round trip.
    #[must_use]
    pub const fn stamp_error(self) -> u32 {
        match self {
            Self::Program => 5_000,
            Self::Kernel => 0,
        }
    }
}

/// A message that came, with both stamps of the exchange it may complete.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When the last request left.
    pub sent: Count,
    /// When this came.
    pub received: Count,
    /// How good the stamps are.
    pub quality: Quality,
}

/// Why what came has no stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The kernel's clock was set between request and answer.
    #[error("the system clock was set during the exchange")]
    ClockSet,
    /// Nothing was sent.
    #[error("answers nothing that was asked")]
    Unasked,
}

/// When the last request left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    before: Sandwich,
    /// The counter just before the system call.
    program: Count,
    /// The kernel's stamp, in ns of CLOCK_REALTIME.
    kernel: Option<i64>,
}

/// A socket to one server.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    kind: CounterKind,
    period: f64,
    sent: Option<Sent>,
    /// Of the requests on this socket, the number of the last one: the kernel names its stamp by it.
    number: Option<u32>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket {
    /// A socket that hears this server only, on a port that the kernel chooses at random.
    ///
    /// # Errors
    /// What the system says: no route, too many descriptors.
    pub fn open(server: SocketAddr, kind: CounterKind, period: f64) -> nix::Result<Self> {
        let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        // A kernel without stamps is no reason not to know the time: see `Quality`.
        let _ = stamping::ask(&socket);
        connect(socket.as_raw_fd(), &SockaddrStorage::from(server))?;
        Ok(Self { socket, kind, period, sent: None, number: None })
    }

    /// The server's address and port.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        getpeername::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// The counter now.
    #[must_use]
    pub fn counter(&self) -> Count {
        counter::read(self.kind)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// What the system says: unreachable, no room.
    pub fn send(&mut self, request: &Packet) -> nix::Result<()> {
        let bytes = request.to_bytes();
        let before = Sandwich::take(self.kind, self.period);
        let program = self.counter();
        // The error of an earlier request that nobody heard comes back with the next call; it is not this one's.
        let mut sent = send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty());
        if sent == Err(Errno::ECONNREFUSED) {
            sent = send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty());
        }
        sent?;
        self.number = Some(self.number.map_or(0, |number| number.wrapping_add(1)));
        self.sent = Some(Sent { before, program, kernel: None });
        Ok(())
    }

    /// Takes in what has come since; each with the stamps of its exchange, or the reason why it has none. `wanted` looks at a message before that: what it
    /// refuses costs no sandwich.
    pub fn receive(
        &mut self,
        mut wanted: impl FnMut(&Packet) -> bool,
        mut take: impl FnMut(Result<Received, Lost>),
        mut garbage: impl FnMut(Option<Malformed>),
    ) {
        self.departures();
        for _ in 0..AT_ONCE {
            let mut bytes = [0; LONGEST];
            let Some((length, stamp)) = self.message(&mut bytes, MsgFlags::MSG_DONTWAIT) else { return };
            let program = self.counter();
            match Packet::parse(&bytes[..length]) {
                Ok((packet, _)) if wanted(&packet) => {
                    self.departures();
                    take(self.stamped(&bytes[..length.max(HEADER)], stamp, program));
                }
                Ok(_) => garbage(None),
                Err(malformed) => garbage(Some(malformed)),
            }
        }
    }

    /// Gives a message its stamps.
    fn stamped(&self, bytes: &[u8], stamp: Option<i64>, program: Count) -> Result<Received, Lost> {
        let sent = self.sent.ok_or(Lost::Unasked)?;
        let after = Sandwich::take(self.kind, self.period);
        let received = |sent, received, quality| Received { bytes: bytes.to_vec(), sent, received, quality };
        let count = |stamp| Sandwich::count_at(&sent.before, &after, stamp).ok_or(Lost::ClockSet);
        match (sent.kernel, stamp) {
            (Some(departure), Some(arrival)) => Ok(received(count(departure)?, count(arrival)?, Quality::Kernel)),
            _ => Ok(received(sent.program, program, Quality::Program)),
        }
    }

    /// Takes the kernel's stamps of what has left from the socket's error queue, and errors that do not concern anybody (unreachable: told by silence).
    fn departures(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(Departure { number, stamp }) = stamping::departure(&self.socket) else { return };
            if let Some(sent) = self.sent.as_mut().filter(|_| number.is_some() && number == self.number) {
                sent.kernel = stamp;
            }
        }
    }

    /// One message and the kernel's stamp of its arrival.
    fn message(&self, bytes: &mut [u8], flags: MsgFlags) -> Option<(usize, Option<i64>)> {
        loop {
            let mut iov = [IoSliceMut::new(bytes)];
            let mut control = nix::cmsg_space!(Timestamps);
            match recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), flags) {
                Ok(message) => {
                    return Some((message.bytes, stamping::arrival(&message)));
                }
                // Somebody told that the server is not there: silence says the same.
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => {}
                Err(_) => return None,
            }
        }
    }
}

/// A socket's name as IP address and port.
pub(crate) fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
        (Some(v4), _) => Some((*v4).into()),
        (None, Some(v6)) => Some((*v6).into()),
        (None, None) => None,
    }
}
