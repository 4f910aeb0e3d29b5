//! TCP. This is the least that the rest of the stack needs to know of it.

use crate::Stack;
use crate::ids::Ready;
use crate::ip::{IcmpError, Packet};
use crate::pool::{Link, Slot};
use crate::time::Instant;
use zerocopy::FromZeros;

/// Defaults of TCP that the caller may set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {}

/// What TCP has one of.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Shared {}

impl Shared {
    pub(crate) fn init(&mut self, _config: &Config, _now: Instant) {}
}

/// A TCP connection.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Socket {
    link: Link,
}

/// A listening socket.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Listener {
    link: Link,
}

impl Slot for Socket {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Slot for Listener {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Stack<'_> {
    /// A TCP segment came in; its frames are ours now.
    pub(crate) fn tcp_input(&mut self, _now: Instant, packet: &Packet) {
        self.mem.frames.give_chain(packet.frame);
    }

    /// The timer of a connection is due.
    pub(crate) fn tcp_timer(&mut self, _now: Instant, _index: u32) {}

    /// An ICMP error about one of our segments.
    pub(crate) fn tcp_icmp(&mut self, _now: Instant, _error: &IcmpError) {}

    /// A path changed its state, next hop or MTU.
    pub(crate) fn tcp_path_changed(&mut self, _now: Instant, _path: u32) {}

    /// What a connection is ready for.
    pub(crate) fn tcp_readiness(&self, _index: u32) -> Ready {
        Ready::NONE
    }

    /// What a listener is ready for.
    pub(crate) fn listener_readiness(&self, _index: u32) -> Ready {
        Ready::NONE
    }
}
