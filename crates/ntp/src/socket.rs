//! A socket to one server, with timestamps by the network card or the kernel: as late as possible
//! for departures, as early as possible for arrivals.

use crate::packet::{HEADER, MalformedPacket, NtpPacket};
pub use crate::pending_request::Lost;
use crate::pending_request::{Landing, PendingRequest};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickclock::{Count, CounterKind, counter};
use tickwire_stamping::Quality;
use tickwire_stamping::connected_udp::ConnectedUdp;
use tickwire_stamping::cross_timestamp::CrossTimestamp;
use tickwire_stamping::hardware::{self, Lack, Track};
use tickwire_stamping::nic::NicClock;
#[cfg(windows)]
use tickwire_stamping::packet_observer::PacketObserver;
use tickwire_stamping::timestamps::RxTimestamps;

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

/// A server is near if its reply comes within so many ns.
const NEAR: i64 = 1_000_000;

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
    socket: ConnectedUdp,
    kind: CounterKind,
    period: f64,
    /// The last request.
    sent: Option<PendingRequest>,
    /// The kernel stamps departures of this socket.
    stamped: bool,
    /// The last reply came within [`NEAR`].
    is_near: bool,
    /// No reply to the last request has come.
    is_pending: bool,
    /// The number of the next request on this socket: the kernel identifies its timestamp by it.
    number: u32,
    /// The card whose timestamps are used.
    nic: Option<Arc<NicClock>>,
    track: Track,
    v6: bool,
}

#[cfg(unix)]
impl std::os::fd::AsFd for NtpSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for NtpSocket {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

impl NtpSocket {
    /// A socket connected to this server, on a port that the kernel chooses at random.
    ///
    /// # Errors
    /// The system's error: no route, too many descriptors.
    pub fn open(server: SocketAddr, kind: CounterKind, period: f64) -> io::Result<Self> {
        let socket = ConnectedUdp::open(server)?;
        let v6 = server.is_ipv6() && server.ip().to_canonical().is_ipv6();
        Ok(Self {
            socket,
            kind,
            period,
            sent: None,
            stamped: false,
            is_near: false,
            is_pending: false,
            number: 0,
            nic: None,
            track: Track::default(),
            v6,
        })
    }

    /// Whether the kernel has agreed to stamp this socket's packets. Otherwise the program does.
    #[must_use]
    pub const fn has_kernel_stamps(&self) -> bool {
        self.socket.has_stamps()
    }

    /// Sets the card through which the server is reached, from the next request on, if it stamps
    /// packets and its clock is readable.
    ///
    /// # Errors
    /// This kernel has no hardware timestamps.
    pub fn use_card(&mut self, nic: Option<&Arc<NicClock>>) -> io::Result<()> {
        let same = match (&self.nic, nic) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !same {
            #[cfg(unix)]
            if nic.is_some() {
                self.socket.ask_card()?;
            }
            self.nic = nic.cloned();
            self.track = Track::default();
        }
        Ok(())
    }

    /// From the next request on a driver stamps its packets, if it sees them pass.
    #[cfg(windows)]
    pub fn use_observer(&mut self, observer: Option<&Arc<dyn PacketObserver>>) {
        self.socket.use_observer(observer);
    }

    /// The server's address and port.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer()
    }

    /// The local address and port from which the server is reached.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local()
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
    pub fn send(&mut self, request: &[u8]) -> io::Result<()> {
        #[cfg(windows)]
        self.socket.prepare();
        let clock = self.nic.as_ref().map(|nic| nic.read());
        let before = CrossTimestamp::take(self.kind, self.period);
        let program = self.counter();
        self.socket.send(request, self.number)?;
        self.sent = Some(PendingRequest::new(self.number, before, program, clock));
        self.is_pending = true;
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
        self.stamped && self.sent.is_some_and(|sent| !sent.has_left()) && self.is_younger(QUEUED)
    }

    /// Whether the reply will come in a moment, and only the program can stamp it: then do not
    /// sleep until it comes, because a wakeup takes as long as the whole path. A server that is not
    /// near is not worth a processor.
    #[must_use]
    pub fn is_imminent(&self) -> bool {
        !self.socket.has_stamps() && self.is_near && self.is_pending && self.is_younger(NEAR)
    }

    /// Whether there is something to be received now.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.socket.is_readable()
    }

    /// Whether the last request was sent less than so many ns ago.
    fn is_younger(&self, ns: i64) -> bool {
        let counts = (ns as f64 / self.period) as i64;
        self.sent.is_some_and(|sent| sent.age(self.counter()) < counts)
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
            let Some((length, arrival)) = self.socket.receive(&mut bytes) else { return };
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
        self.is_pending = false;
        self.is_near = ends[1].since(ends[0]) < (NEAR as f64 / self.period) as i64;
        let read = || self.nic.as_ref().ok_or(Lack::Unread)?.read();
        let hardware = sent.by_card(&landing, ends, &mut self.track, self.period, read);
        Ok(ReceivedReply { bytes: bytes.to_vec(), sent: ends[0], received: ends[1], quality, hardware })
    }

    /// Waits briefly for the card's transmit timestamp.
    fn await_card(&mut self) {
        let until = Instant::now() + CARD_IS_LATE;
        while self.sent.is_some_and(|sent| !sent.has_card()) && Instant::now() < until {
            self.socket.await_departure();
            self.departures();
        }
    }

    /// Collects transmit timestamps. Drops errors (for example unreachable: the missing reply shows
    /// it).
    fn departures(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(departure) = self.socket.departure() else { return };
            if let Some(sent) = &mut self.sent {
                sent.departed(departure);
                self.stamped |= sent.has_left();
            }
        }
    }
}
