//! Sends whole Ethernet frames by one device: the service does so on behalf of a program that died.

use crate::sys::answer;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A packet socket that only sends, by one device.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
}

impl PacketSender {
    /// Opens a sender for the device of that index, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Without the privilege, or if there is no such device.
    pub fn open(interface: u32) -> io::Result<Self> {
        // Protocol 0: the socket never receives anything.
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
        answer(fd.into())?;
        // SAFETY: the descriptor was just made and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: i32::try_from(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(io::Error::other)?;
        // SAFETY: `address` is a whole `sockaddr_ll` of `length` bytes and lives for the call.
        let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        answer(done.into()).map(|_| Self { socket })
    }

    /// Sends one frame, Ethernet header first, without blocking.
    ///
    /// # Errors
    /// If the device is down or its queue is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` lives for the call and its own length is passed.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
