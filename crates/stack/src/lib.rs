//! The user-mode network stack: TCP, UDP, IPv4, IPv6, ICMP errors and readiness. Frames go in,
//! frames come out.
//!
//! The crate is deterministic: it does no I/O, reads no clock, takes no memory and knows nothing of
//! an operating system. Every call that may act on time is told the time ([`time::Instant`]),
//! memory is lent by the caller ([`memory::Memory`]), frames are handed in by [`Stack::receive`]
//! and out by [`Stack::egress`], and what only the host can know (routes, neighbours) is asked for
//! and told by [`Stack::path_set`]. So the same code runs in a lane, in simulation, under a fuzzer
//! and on any operating system.
//!
//! It may depend on `core` and on crates of the same kind; no `std` outside tests and the `owned`
//! feature.
//!
//! What is not here on purpose, because the host does it: ARP and neighbour discovery, routing,
//! DHCP, IGMP and MLD, echo replies and every other ICMP answer. What is not here yet: ICMP errors
//! do not reach unconnected UDP sockets (`IP_RECVERR`), flow labels are zero.
//!
//! A call that made something ready on which another thread sleeps leaves a note:
//! [`Stack::take_wakeups`].
#![cfg_attr(not(any(test, feature = "owned")), no_std)]
#![forbid(unsafe_code)]

pub mod addr;
#[cfg(any(test, feature = "owned"))]
mod audit;
pub mod checksum;
mod core_state;
mod deadline;
mod demux;
pub mod error;
mod fill;
pub mod frame;
mod handle;
pub mod ids;
pub mod ip;
pub mod memory;
pub mod path;
mod path_ask;
mod path_cache;
mod periodic;
pub mod pool;
mod queue;
pub mod table;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod time;
mod timers;
pub mod udp;
mod wakeups;
pub mod watch;
mod writing;

#[cfg(any(test, feature = "owned"))]
pub use audit::InUse;
pub use core_state::Config;
#[doc(inline)]
pub use error::{Error, Result};
pub use ids::{ListenerId, Ready, SetId, Sink, SocketId, SocketKind, Source, TcpId, UdpId};
pub use ip::{Checksum, Received};
#[cfg(any(test, feature = "owned"))]
pub use memory::OwnedMemory;
pub use memory::{Limits, Memory};
pub use periodic::Expected;
pub use queue::{Class, Transmit};
pub use wakeups::{WaiterId, WakeTarget, Wakeups};

/// A user-mode stack over memory that someone lends. It has no state outside that memory: a value
/// of this type is a view, and may be made afresh (in another process, too) as long as only one is
/// used at a time.
#[derive(Debug)]
pub struct Stack<'a> {
    pub(crate) mem: Memory<'a>,
}

impl<'a> Stack<'a> {
    /// A stack over `memory`. On all-zero memory, [`Stack::init`] must follow once.
    #[must_use]
    pub fn new(memory: Memory<'a>) -> Self {
        Self { mem: memory }
    }

    /// The counters of this stack.
    #[must_use]
    pub fn counters(&self) -> &table::Counters {
        self.mem.counters
    }
}
