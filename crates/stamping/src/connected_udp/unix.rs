//! Linux.

use crate::socket_stamps;
use crate::timestamps::{RxTimestamps, TxTimestamps};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, Timestamps, connect, getpeername, getsockname, recv,
    recvmsg, send, socket,
};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The socket.
#[derive(Debug)]
pub struct LinuxUdp {
    socket: OwnedFd,
    has_stamps: bool,
}

impl AsFd for LinuxUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl LinuxUdp {
    /// A socket connected to this peer, on a port that the kernel chooses at random.
    ///
    /// # Errors
    /// The system's error: no route, too many descriptors.
    pub fn open(peer: SocketAddr) -> io::Result<Self> {
        let family = if peer.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        // A kernel without timestamps is tolerated: see `Quality`.
        let has_stamps = socket_stamps::ask(&socket).is_ok();
        connect(socket.as_raw_fd(), &SockaddrStorage::from(peer))?;
        Ok(Self { socket, has_stamps })
    }

    /// Whether the kernel has agreed to stamp this socket's packets.
    #[must_use]
    pub const fn has_stamps(&self) -> bool {
        self.has_stamps
    }

    /// Also requests the timestamps of the network card.
    ///
    /// # Errors
    /// This kernel has no hardware timestamps.
    pub fn ask_card(&self) -> io::Result<()> {
        Ok(socket_stamps::ask_card(&self.socket)?)
    }

    /// The peer's address and port.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        getpeername::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// The local address and port from which the peer is reached.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        getsockname::<SockaddrStorage>(self.socket.as_raw_fd()).ok().and_then(|name| address(&name))
    }

    /// Sends a message. The kernel numbers the messages of a socket from 0 on, so `number` is the
    /// number of those sent before.
    ///
    /// # Errors
    /// The system's error: unreachable, no buffer space.
    pub fn send(&mut self, message: &[u8], _number: u32) -> io::Result<()> {
        let once = || send(self.socket.as_raw_fd(), message, MsgFlags::empty());
        // The next call returns the unreported error of an earlier message; it does not concern
        // this one.
        let sent = once().or_else(|error| if error == Errno::ECONNREFUSED { once() } else { Err(error) });
        sent.map(drop).map_err(io::Error::from)
    }

    /// Whether there is a message, or an error, to be received now.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.socket.as_raw_fd(), &mut [0], flags) != Err(Errno::EAGAIN)
    }

    /// One message, its length and its receive timestamps; `None` if there is none.
    pub fn receive(&self, bytes: &mut [u8]) -> Option<(usize, RxTimestamps)> {
        loop {
            let mut iov = [IoSliceMut::new(bytes)];
            let mut control = nix::cmsg_space!(Timestamps);
            let flags = MsgFlags::MSG_DONTWAIT;
            match recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), flags) {
                Ok(message) => {
                    let length = message.bytes;
                    return Some((length, RxTimestamps::read(&control)));
                }
                // An ICMP error reports that the peer is unreachable: the missing reply shows the
                // same.
                Err(Errno::EINTR | Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => {}
                Err(_) => return None,
            }
        }
    }

    /// The next report of a departure; `None` if there is none now.
    pub fn departure(&mut self) -> Option<TxTimestamps> {
        socket_stamps::departure(&self.socket)
    }

    /// Waits for a report of a departure, for a millisecond at most.
    pub fn await_departure(&self) {
        // POLLERR, for the error queue, is always polled.
        let mut queue = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let _ = poll(&mut queue, PollTimeout::from(1u8));
    }
}

/// A socket's name as IP address and port.
fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
        (Some(v4), _) => Some((*v4).into()),
        (None, Some(v6)) => Some((*v6).into()),
        (None, None) => None,
    }
}
