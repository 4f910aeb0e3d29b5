//! UDP (RFC 768) over both families: sockets, their options, and the program's calls.

mod api;
mod groups;
#[cfg(any(test, feature = "owned"))]
mod invariants;
mod receive;
mod send;

pub use groups::GroupFilter;
pub use receive::Datagram;
pub use send::SendTo;

pub(crate) use groups::Membership;
pub(crate) use send::MOST_SEGMENTS;

use crate::addr::Endpoint;
use crate::error::StackError;
use crate::pool::{PoolLink, PoolSlot};
use zerocopy::FromZeros;

/// Bytes of a UDP header.
pub(crate) const HEADER: usize = 8;

/// The treatment of a datagram larger than the path's MTU (`IP_MTU_DISCOVER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum MtuDiscover {
    /// It is fragmented, and routers may fragment others, too.
    Dont = 0,
    /// It is fragmented; others are sent with "don't fragment", so that the path MTU is learned.
    /// The default.
    #[default]
    Want = 1,
    /// It is refused with [`StackError::MessageTooLong`].
    Do = 2,
    /// As [`MtuDiscover::Do`], but only the interface's MTU counts, not a learned one.
    Probe = 3,
    /// As [`MtuDiscover::Probe`], but routers may fragment it.
    Interface = 4,
}

shared_layout! { enum MtuDiscover { Dont, Want, Do, Probe, Interface } }

impl MtuDiscover {
    /// Whether only the interface's MTU counts.
    pub(super) const fn ignores_routers(self) -> bool {
        matches!(self, Self::Probe | Self::Interface)
    }
}

/// Options of a UDP socket.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct UdpOptions {
    /// Receive buffer in bytes; a datagram is charged with its length and a fixed part per frame.
    pub rcvbuf: u32,
    /// Send buffer in bytes, as the program requested it. The actual limit is the lane's transmit
    /// queue.
    pub sndbuf: u32,
    /// Time to live (hop limit) of unicast datagrams.
    pub ttl: u8,
    /// The program has set it: it overrides the route's.
    pub own_ttl: bool,
    /// Time to live (hop limit) of multicast datagrams.
    pub multicast_ttl: u8,
    /// Traffic class (TOS) octet.
    pub tos: u8,
    /// The treatment of datagrams larger than the MTU.
    pub mtu_discover: MtuDiscover,
    /// A socket bound to `::` accepts no IPv4.
    pub v6only: bool,
    /// Flows are spread over all sockets with the same binding and this option (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Size of the datagrams into which a send is split (`UDP_SEGMENT`); 0: it is one datagram.
    pub segment: u16,
    /// A pending error is also an exceptional event (`SO_SELECT_ERR_QUEUE`).
    pub exceptional_errors: bool,
}

shared_layout! { UdpOptions {
    rcvbuf, sndbuf, ttl, own_ttl, multicast_ttl, tos, mtu_discover, v6only, reuse_port, segment,
    exceptional_errors,
} }

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            rcvbuf: 212_992,
            sndbuf: 212_992,
            ttl: 64,
            own_ttl: false,
            multicast_ttl: 1,
            tos: 0,
            mtu_discover: MtuDiscover::Want,
            v6only: false,
            reuse_port: false,
            segment: 0,
            exceptional_errors: false,
        }
    }
}

/// Bits of [`Socket::shut`].
mod shut {
    pub(super) const RECEIVE: u8 = 1;
    pub(super) const SEND: u8 = 2;
}

/// A UDP socket.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Socket {
    /// Chain of the free list.
    link: PoolLink,
    /// First and last datagram of the receive queue: first frames, chained by their `prev`.
    head: PoolLink,
    tail: PoolLink,
    /// Datagrams in the queue, and what they cost of the receive buffer.
    count: u32,
    charged: u32,
    /// Its local address (port 0: not bound) and its peer (port 0: not connected).
    local: Endpoint,
    remote: Endpoint,
    /// The address that the program bound, which a disconnect restores.
    bound: Endpoint,
    /// The outgoing interface to the connected peer; 0 if the host may choose.
    interface: u32,
    /// An error to be reported by the next call.
    pending: u8,
    /// Bits of [`shut`].
    shut: u8,
    /// The path last used; checked against the destination.
    path: u32,
    /// Group memberships.
    groups: PoolLink,
    options: UdpOptions,
}

shared_layout! { Socket {
    link, head, tail, count, charged, local, remote, bound, interface, pending, shut, path, groups,
    options,
} }

impl PoolSlot for Socket {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl Socket {
    fn new(options: UdpOptions) -> Self {
        Self { options, ..Self::new_zeroed() }
    }

    fn take_error(&mut self) -> Option<StackError> {
        let error = pending::error(self.pending);
        self.pending = 0;
        error
    }
}

/// Errors that may be pending on a socket, as a byte (all-zero memory must be a valid socket).
mod pending {
    use crate::error::StackError;

    pub(super) fn code(error: StackError) -> u8 {
        StackError::OF_NETWORK.iter().position(|&e| e == error).map_or(0, |i| i as u8 + 1)
    }

    pub(super) fn error(code: u8) -> Option<StackError> {
        StackError::OF_NETWORK.get(usize::from(code).checked_sub(1)?).copied()
    }
}
