//! Readiness sets: what epoll needs inside the lane.

use crate::Stack;
use crate::ids::{Ready, SocketId, SocketKind};
use crate::pool::{Link, Slot};
use zerocopy::FromZeros;

/// A socket (or set) in a set.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Item {
    link: Link,
}

/// A set.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Set {
    link: Link,
}

impl Slot for Item {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Slot for Set {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Stack<'_> {
    /// Says that a socket became ready for `what`: whoever watches it or sleeps on it is to know.
    pub(crate) fn notify(&mut self, _id: SocketId, what: Ready) {
        if !what.is_empty() && self.mem.core.sleepers > 0 {
            self.mem.core.doorbell = 1;
        }
    }

    /// What a socket is ready for, for a handle known to be good.
    pub(crate) fn ready_now(&self, kind: SocketKind, index: u32) -> Ready {
        match kind {
            SocketKind::Tcp => self.tcp_readiness(index),
            SocketKind::Listener => self.listener_readiness(index),
            SocketKind::Udp => self.udp_readiness(index),
            _ => Ready::NONE,
        }
    }

    pub(crate) fn unwatch_all(&mut self, slot: usize) {
        self.mem.handles[slot].watchers = Link::NONE;
    }
}
