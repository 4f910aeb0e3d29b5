//! A socket to one server, with timestamps by the network card or the kernel: as late as possible
//! for departures, as early as possible for arrivals.

use crate::packet::{HEADER, MalformedPacket, NtpPacket};
pub use crate::pending_request::Lost;
use crate::pending_request::{Landing, PendingRequest};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, Timestamps, connect, getpeername, getsockname,
    recvmsg, send, socket,
};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickclock::{Count, CounterKind, counter};
use tickwire_stamping::Quality;
use tickwire_stamping::cross_timestamp::CrossTimestamp;
use tickwire_stamping::hardware::{self, Lack, Track};
use tickwire_stamping::nic::NicClock;
use tickwire_stamping::socket_stamps::{self, RxTimestamps};

/// The longest message that is parsed; a reply with NTS is as long as its request at most (RFC 8915
/// §5.7).
const LONGEST: usize = 1500;
/// How many messages one call receives: a flood must not stop the daemon.
const AT_ONCE: usize = 16;
/// A card's transmit timestamp may arrive after the reply. The wait for it lasts at most this long,
/// once per exchange. (chronyd waits for 1 ms.)
const CARD_IS_LATE: Duration = Duration::from_millis(2);
/// How long, in ns, a request counts as queued in the host. A longer delay makes the exchange
/// useless as a measurement, so waiting on the socket resumes.
const QUEUED: i64 = 200_000_000;

/// A received message, with both timestamps of the exchange that it may complete.
#[derive(Clone, Debug)]
pub struct ReceivedReply {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When the last request left.
    pub sent: Count,
    /// When this message arrived.
    pub received: Count,
    /// Source of the timestamps: the kernel or the program.
    pub quality: Quality,
    /// The same two by the network card, or why it provided none; None if no card is used.
    pub hardware: Option<Result<[Count; 2], Lack>>,
}

/// A socket to one server.
#[derive(Debug)]
pub struct NtpSocket {
    socket: OwnedFd,
    kind: CounterKind,
    period: f64,
    /// The last request.
    sent: Option<PendingRequest>,
    /// The kernel stamps departures of this socket.
    stamped: bool,
    /// The number of the next request on this socket: the kernel identifies its timestamp by it.
    number: u32,
    /// The card whose timestamps are used.
    nic: Option<Arc<NicClock>>,
    track: Track,
    v6: bool,
}

impl AsFd for NtpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl NtpSocket {
    /// A socket connected to this server, on a port that the kernel chooses at random.
    ///
    /// # Errors
    /// The system's error: no route, too many descriptors.
    pub fn open(server: SocketAddr, kind: CounterKind, period: f64) -> nix::Result<Self> {
        let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        // A kernel without timestamps is tolerated: see `Quality`.
        let _ = socket_stamps::ask(&socket);
        connect(socket.as_raw_fd(), &SockaddrStorage::from(server))?;
        let v6 = server.is_ipv6() && server.ip().to_canonical().is_ipv6();
        Ok(Self { socket, kind, period, sent: None, stamped: false, number: 0, nic: None, track: Track::default(), v6 })
    }

    /// Sets the card through which the server is reached, from the next request on, if it stamps
    /// packets and its clock is readable.
    ///
    /// # Errors
    /// This kernel has no hardware timestamps.
    pub fn use_card(&mut self, nic: Option<&Arc<NicClock>>) -> nix::Result<()> {
        let same = match (&self.nic, nic) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !same {
            if nic.is_some() {
                socket_stamps::ask_card(&self.socket)?;
            }
            self.nic = nic.cloned();
            self.track = Track::default();
        }
        Ok(())
    }

    /// The server's address and port.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        getpeername::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// The local address and port from which the server is reached.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        getsockname::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// The counter now.
    #[must_use]
    pub fn counter(&self) -> Count {
        counter::read(self.kind)
    }

    /// Sends a complete request: all work to build it is done before its timestamp.
    ///
    /// # Errors
    /// The system's error: unreachable, no buffer space.
    pub fn send(&mut self, request: &[u8]) -> nix::Result<()> {
        let clock = self.nic.as_ref().map(|nic| nic.read());
        let before = CrossTimestamp::take(self.kind, self.period);
        let program = self.counter();
        // The next call returns the unreported error of an earlier request; it does not concern
        // this one.
        let mut sent = send(self.socket.as_raw_fd(), request, MsgFlags::empty());
        if sent == Err(Errno::ECONNREFUSED) {
            sent = send(self.socket.as_raw_fd(), request, MsgFlags::empty());
        }
        sent?;
        self.sent = Some(PendingRequest::new(self.number, before, program, clock));
        self.number = self.number.wrapping_add(1);
        self.departures();
        Ok(())
    }

    /// Whether the last request is still in one of the host's queues. Do not poll this socket
    /// meanwhile: a driver stamps a packet, notifies the socket, and only then transmits it. The
    /// wakeup of a waiter would add some us between the timestamp and the wire, in this direction
    /// only. The kernel's timestamp can be collected later as well.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let counts = (QUEUED as f64 / self.period) as i64;
        self.stamped && self.sent.is_some_and(|sent| !sent.has_left() && sent.age(self.counter()) < counts)
    }

    /// The counter is discontinuous: the departure of the last request is no longer known, so no
    /// message counts as its reply.
    pub fn disrupt(&mut self) {
        self.sent = None;
    }

    /// Receives pending messages, each with the timestamps of its exchange or the reason why it has
    /// none. `wanted` filters messages first: a rejected one costs no cross timestamp.
    pub fn receive(
        &mut self,
        mut wanted: impl FnMut(&NtpPacket) -> bool,
        mut take: impl FnMut(Result<ReceivedReply, Lost>),
        mut garbage: impl FnMut(Option<MalformedPacket>),
    ) {
        self.departures();
        for _ in 0..AT_ONCE {
            let mut bytes = [0; LONGEST];
            let Some((length, arrival)) = self.message(&mut bytes, MsgFlags::MSG_DONTWAIT) else { return };
            let program = self.counter();
            match NtpPacket::parse(&bytes[..length]) {
                Ok((packet, _)) if wanted(&packet) => {
                    self.departures();
                    if self.sent.as_mut().is_some_and(|sent| sent.awaits_card(&arrival)) {
                        self.await_card();
                    }
                    take(self.stamped(&bytes[..length.max(HEADER)], arrival, program));
                }
                Ok(_) => garbage(None),
                Err(malformed) => garbage(Some(malformed)),
            }
        }
    }

    /// Adds timestamps to a message.
    fn stamped(&mut self, bytes: &[u8], arrival: RxTimestamps, program: Count) -> Result<ReceivedReply, Lost> {
        let sent = self.sent.ok_or(Lost::Unasked)?;
        let after = CrossTimestamp::take(self.kind, self.period);
        let mbits = self.nic.as_ref().and_then(|nic| nic.mbits());
        let on_the_wire = hardware::on_the_wire(bytes.len(), self.v6, mbits);
        let landing = Landing { arrival, program, after, on_the_wire };
        let (ends, quality) = sent.ends(&landing)?;
        let read = || self.nic.as_ref().ok_or(Lack::Unread)?.read();
        let hardware = sent.by_card(&landing, ends, &mut self.track, self.period, read);
        Ok(ReceivedReply { bytes: bytes.to_vec(), sent: ends[0], received: ends[1], quality, hardware })
    }

    /// Waits briefly for the card's transmit timestamp.
    fn await_card(&mut self) {
        let until = Instant::now() + CARD_IS_LATE;
        while self.sent.is_some_and(|sent| !sent.has_card()) && Instant::now() < until {
            // POLLERR, for the error queue, is always polled.
            let mut queue = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
            let _ = poll(&mut queue, PollTimeout::from(1u8));
            self.departures();
        }
    }

    /// Collects transmit timestamps from the socket's error queue. Drops other errors (for example
    /// unreachable: the missing reply shows it).
    fn departures(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(departure) = socket_stamps::departure(&self.socket) else { return };
            if let Some(sent) = &mut self.sent {
                sent.departed(departure);
                self.stamped |= sent.has_left();
            }
        }
    }

    /// One message and its receive timestamps.
    fn message(&self, bytes: &mut [u8], flags: MsgFlags) -> Option<(usize, RxTimestamps)> {
        loop {
            let mut iov = [IoSliceMut::new(bytes)];
            let mut control = nix::cmsg_space!(Timestamps);
            match recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), flags) {
                Ok(message) => {
                    let length = message.bytes;
                    return Some((length, RxTimestamps::read(&control)));
                }
                // An ICMP error reports that the server is unreachable: the missing reply shows the
                // same.
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
