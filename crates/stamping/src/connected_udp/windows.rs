//! Windows. The best timestamps first: those of a driver that sees the packets pass, those of
//! Winsock, or none.

use crate::clocks::monotonic;
use crate::packet_observer::{ObservedMessage, PacketObserver};
use crate::timestamps::{RxTimestamps, TxTimestamps};
use crate::winsock_stamps::{WinsockStamps, recent};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::windows::io::{AsSocket, BorrowedSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windows_sys::Win32::Networking::WinSock::WSAEMSGSIZE;

/// For so long after a message has been received the driver's copy of it is waited for: the driver
/// made it before, and another thread of the system may still be handing it over.
const COPY_IS_LATE: Duration = Duration::from_micros(200);

/// The socket.
#[derive(Debug)]
pub struct WinsockUdp {
    socket: UdpSocket,
    stamps: Option<WinsockStamps>,
    /// (There are many sockets without one.)
    observed: Option<Box<Observed>>,
    /// The number of the last message, whose departure is not reported yet.
    awaited: Option<u32>,
}

/// What is known of the last message that was sent, if a driver sees packets pass.
#[derive(Debug)]
struct Observed {
    observer: Arc<dyn PacketObserver>,
    message: Vec<u8>,
    /// The driver has seen it leave.
    has_left: bool,
}

impl AsSocket for WinsockUdp {
    fn as_socket(&self) -> BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

impl WinsockUdp {
    /// A socket connected to this peer, on a port that the system chooses.
    ///
    /// # Errors
    /// The system's error: no route, no such family.
    pub fn open(peer: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        // Windows 10, and Wine, have none: see `Quality`.
        let stamps = WinsockStamps::ask(&socket).ok();
        Ok(Self { socket, stamps, observed: None, awaited: None })
    }

    /// From the next message on its packets are stamped by this driver.
    pub fn use_observer(&mut self, observer: Option<&Arc<dyn PacketObserver>>) {
        let observer = observer.filter(|observer| !observer.has_ended());
        let is_same = |observed: &Observed| observer.is_some_and(|other| Arc::ptr_eq(&observed.observer, other));
        if !self.observed.as_deref().is_some_and(is_same) {
            let new = |observer: &Arc<_>| Observed { observer: Arc::clone(observer), message: vec![], has_left: false };
            self.observed = observer.map(|observer| Box::new(new(observer)));
        }
    }

    /// To be called before a message is sent, and before the time of that is read.
    pub fn prepare(&self) {
        if let Some(observed) = &self.observed {
            observed.observer.prepare();
        }
    }

    /// Whether Winsock has agreed to stamp this socket's packets, or a driver does.
    #[must_use]
    pub const fn has_stamps(&self) -> bool {
        self.stamps.is_some() || self.observed.is_some()
    }

    /// When a message of this socket has passed the driver, in ns of the performance counter.
    fn passed(&self, observer: &dyn PacketObserver, is_outgoing: bool, bytes: &[u8]) -> Option<i64> {
        let (local, peer) = (self.local()?.port(), self.peer()?);
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let count = observer.passed(&ObservedMessage { is_outgoing, local, peer, bytes })?;
        recent(u64::try_from(count).ok()?, monotonic())
    }

    /// The peer's address and port.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// The local address and port from which the peer is reached.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Sends a message; its departure is reported with this number.
    ///
    /// # Errors
    /// The system's error: unreachable, no buffer space.
    pub fn send(&mut self, message: &[u8], number: u32) -> io::Result<()> {
        self.awaited = None;
        if let Some(observed) = &mut self.observed {
            observed.has_left = false;
            observed.message.clear();
            observed.message.extend_from_slice(message);
        }
        if let Some(stamps) = &self.stamps {
            if stamps.send(&self.socket, message, number).is_ok() {
                self.awaited = Some(number);
                return Ok(());
            }
            // Perhaps because of the control message: the next one goes without.
            self.stamps = None;
        }
        let once = || self.socket.send(message);
        // The next call returns the unreported error of an earlier message; it does not concern
        // this one.
        let sent = once().or_else(|error| if error.kind() == ErrorKind::ConnectionReset { once() } else { Err(error) });
        sent.map(|_| self.awaited = self.observed.as_ref().map(|_| number))
    }

    /// Whether there is a message, or an error, to be received now.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.socket.peek(&mut [0]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    }

    /// One message, its length and its receive timestamps; `None` if there is none.
    pub fn receive(&self, bytes: &mut [u8]) -> Option<(usize, RxTimestamps)> {
        loop {
            let received = match &self.stamps {
                Some(stamps) => stamps.receive(&self.socket, bytes),
                None => self.socket.recv(bytes).map(|length| (length, RxTimestamps::default())),
            };
            match received {
                Ok((length, mut stamps)) => {
                    stamps.stamp = self.arrival(bytes.get(..length)?).or(stamps.stamp);
                    return Some((length, stamps));
                }
                // An ICMP error reports that the peer is unreachable: the missing reply shows the
                // same. A message that is too long is none of NTP's.
                Err(error) if is_passed_over(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// When a message that was received has passed the driver, if it has seen the last one leave.
    fn arrival(&self, bytes: &[u8]) -> Option<i64> {
        let observed = self.observed.as_ref().filter(|observed| observed.has_left)?;
        let begin = Instant::now();
        loop {
            let stamp = self.passed(&*observed.observer, false, bytes);
            if stamp.is_some() || begin.elapsed() > COPY_IS_LATE {
                return stamp;
            }
            std::hint::spin_loop();
        }
    }

    /// The report of the last message's departure; `None` if there is none now.
    pub fn departure(&mut self) -> Option<TxTimestamps> {
        let number = self.awaited?;
        let by_driver = self.observed.as_ref().and_then(|last| self.passed(&*last.observer, true, &last.message));
        if let Some(observed) = &mut self.observed {
            observed.has_left = by_driver.is_some();
        }
        let by_winsock = || self.stamps.as_ref()?.departure(&self.socket, number);
        let stamp = by_driver.or_else(by_winsock)?;
        self.awaited = None;
        Some(TxTimestamps { number: Some(number), stamp: Some(stamp), card: None })
    }

    /// Waits for a report of a departure, for a millisecond at most.
    pub fn await_departure(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_passed_over(error: &io::Error) -> bool {
    let unreachable = [ErrorKind::ConnectionReset, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
    unreachable.contains(&error.kind()) || error.raw_os_error() == Some(WSAEMSGSIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use windows_sys::Win32::System::Performance::QueryPerformanceCounter;

    /// Whether it is outgoing, the socket's port, the other end, and what is in it.
    type Message = (bool, u16, SocketAddr, Vec<u8>);

    /// A driver that has seen these messages pass, each of them at the time of its first question.
    #[derive(Debug, Default)]
    struct TestObserver {
        messages: Mutex<Vec<Message>>,
        is_blind: AtomicBool,
        has_ended: AtomicBool,
    }

    fn count() -> i64 {
        let mut count = 0;
        // SAFETY: a place for the result.
        unsafe { QueryPerformanceCounter(&raw mut count) };
        count
    }

    impl PacketObserver for TestObserver {
        fn passed(&self, message: &ObservedMessage<'_>) -> Option<i64> {
            let ObservedMessage { is_outgoing, local, peer, bytes } = *message;
            self.messages.lock().unwrap().push((is_outgoing, local, peer, bytes.to_vec()));
            (!self.is_blind.load(Relaxed)).then(count)
        }

        fn prepare(&self) {}

        fn has_ended(&self) -> bool {
            self.has_ended.load(Relaxed)
        }
    }

    #[test]
    fn a_drivers_timestamps_are_those_of_both_messages_and_without_it_there_are_none() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut socket = WinsockUdp::open(server.local_addr().unwrap()).unwrap();
        let observer = Arc::new(TestObserver::default());
        let as_observer: Arc<dyn PacketObserver> = Arc::clone(&observer) as _;
        socket.use_observer(Some(&as_observer));
        assert!(socket.has_stamps());
        let ends = (socket.local().unwrap(), socket.peer().unwrap());
        let exchange = |socket: &mut WinsockUdp, number| {
            let mut bytes = [0; 100];
            socket.send(b"request", number).unwrap();
            let departure = socket.departure();
            let (length, from) = server.recv_from(&mut bytes).unwrap();
            server.send_to(&bytes[1..length], from).unwrap();
            let received = loop {
                match socket.receive(&mut bytes) {
                    Some(received) => break received,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(received.0, 6);
            (departure, received.1.stamp)
        };
        let before = monotonic();
        let (departure, arrival) = exchange(&mut socket, 5);
        let (departure, arrival) = (departure.unwrap(), arrival.unwrap());
        assert_eq!(departure.number, Some(5));
        assert!(before <= departure.stamp.unwrap() && departure.stamp.unwrap() <= arrival && arrival <= monotonic());
        let seen = std::mem::take(&mut *observer.messages.lock().unwrap());
        let (local, peer) = (ends.0.port(), ends.1);
        assert_eq!(seen, [(true, local, peer, b"request".to_vec()), (false, local, peer, b"equest".to_vec())]);

        // One that has not seen the request is not waited for. (Wine's Winsock has no timestamps.)
        observer.is_blind.store(true, Relaxed);
        let (departure, arrival) = exchange(&mut socket, 6);
        assert_eq!((departure.is_none(), arrival), (true, None));
        assert_eq!(observer.messages.lock().unwrap().len(), 1);
        observer.has_ended.store(true, Relaxed);
        socket.use_observer(Some(&as_observer));
        assert_eq!(exchange(&mut socket, 7), (None, None));
        assert_eq!(observer.messages.lock().unwrap().len(), 1);
    }
}
