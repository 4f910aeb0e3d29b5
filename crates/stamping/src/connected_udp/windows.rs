//! Windows.

use crate::timestamps::{RxTimestamps, TxTimestamps};
use crate::winsock_stamps::WinsockStamps;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::windows::io::{AsSocket, BorrowedSocket};
use std::time::Duration;
use windows_sys::Win32::Networking::WinSock::WSAEMSGSIZE;

/// The socket.
#[derive(Debug)]
pub struct WinsockUdp {
    socket: UdpSocket,
    stamps: Option<WinsockStamps>,
    /// The last message, whose departure is not reported yet.
    awaited: Option<u32>,
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
        Ok(Self { socket, stamps, awaited: None })
    }

    /// Whether Winsock has agreed to stamp this socket's packets.
    #[must_use]
    pub const fn has_stamps(&self) -> bool {
        self.stamps.is_some()
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
        sent.map(drop)
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
                Ok(message) => return Some(message),
                // An ICMP error reports that the peer is unreachable: the missing reply shows the
                // same. A message that is too long is none of NTP's.
                Err(error) if is_passed_over(&error) => {}
                Err(_) => return None,
            }
        }
    }

    /// The report of the last message's departure; `None` if there is none now.
    pub fn departure(&mut self) -> Option<TxTimestamps> {
        let number = self.awaited?;
        let stamp = self.stamps.as_ref()?.departure(&self.socket, number)?;
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
