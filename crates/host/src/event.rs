//! Changes, as the kernel announces them.

use crate::address::InterfaceAddress;
use crate::error::{HostError, Result};
use crate::link::{NetworkInterface, changed};
use crate::neighbour::Neighbour;
use crate::netlink::{decode_all, open_socket};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Bits of the groups of `rtnetlink(7)`: link, neighbour, IPv4 address and route, IPv6 address and
/// route.
const GROUPS: u32 = 1 << 0 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10;

/// Room for bursts (a flapping link with thousands of neighbours) before the kernel has to drop
/// events.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// A link is new or changed.
    Link(NetworkInterface),
    /// A link is gone.
    LinkGone(NetworkInterface),
    /// An address is new or changed.
    Address(InterfaceAddress),
    /// An address is gone.
    AddressGone(InterfaceAddress),
    /// A neighbour entry is new or changed.
    Neighbour(Neighbour),
    /// A neighbour entry is gone.
    NeighbourGone(Neighbour),
    /// Some route changed; earlier results may be out of date.
    Routes,
    /// Events were lost (there were too many): everything has to be read again.
    Lost,
}

/// Receives [`NetworkEvent`]s; its descriptor becomes readable when there are some.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Starts to receive events in the namespace of the calling thread.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn open() -> Result<Self> {
        let socket = open_socket(GROUPS)?;
        let fail = |what| move |source| HostError::Socket { what, source };
        socket.set_non_blocking(true).map_err(fail("making the socket non-blocking"))?;
        // Only privileged callers may exceed the system's limit; without the privilege the default
        // has to suffice.
        if setsockopt(&socket.as_fd(), sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = setsockopt(&socket.as_fd(), sockopt::RcvBuf, &RECEIVE_BUFFER);
        }
        Ok(Self { socket, buffer: vec![0; 64 * 1024] })
    }

    /// Takes at most one datagram of events, without waiting; `None` if there is none.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn take(&mut self) -> Result<Option<Vec<NetworkEvent>>> {
        match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => Ok(Some(decode_all(&self.buffer[..length]).iter().filter_map(event).collect())),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(Errno::ENOBUFS) => Ok(Some(vec![NetworkEvent::Lost])),
            Err(errno) => Err(HostError::Socket { what: "receiving events", source: errno.into() }),
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn event(message: &RouteNetlinkMessage) -> Option<NetworkEvent> {
    use RouteNetlinkMessage as M;
    match message {
        M::NewLink(_) | M::DelLink(_) => changed(message)
            .map(|(link, gone)| if gone { NetworkEvent::LinkGone(link) } else { NetworkEvent::Link(link) }),
        M::NewAddress(m) => InterfaceAddress::parse(m).map(NetworkEvent::Address),
        M::DelAddress(m) => InterfaceAddress::parse(m).map(NetworkEvent::AddressGone),
        M::NewNeighbour(m) => Neighbour::parse(m).map(NetworkEvent::Neighbour),
        M::DelNeighbour(m) => Neighbour::parse(m).map(NetworkEvent::NeighbourGone),
        M::NewRoute(_) | M::DelRoute(_) => Some(NetworkEvent::Routes),
        _ => None,
    }
}
