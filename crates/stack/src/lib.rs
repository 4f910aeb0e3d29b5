//! The user-mode network stack: TCP, UDP, IPv4, IPv6, ICMP errors and readiness. Its input and
//! output are frames.
//!
//! The crate is deterministic: it does no I/O, reads no clock, allocates no memory and knows
//! nothing of an operating system. Calls that depend on time take it as an argument
//! ([`time::Instant`]), and the caller lends the memory ([`memory::Memory`]). Frames enter by
//! [`Stack::receive`] and leave by [`Stack::egress`]. What only the host can know (routes,
//! neighbours) is requested from it and entered by [`Stack::path_set`]. So the same code runs in a
//! lane, in simulation, under a fuzzer and on any operating system.
//!
//! It may depend on `core` and on crates of the same kind; no `std` outside of tests and the
//! `owned` feature.
//!
//! Not here on purpose, because the host does it: ARP and neighbour discovery, routing, DHCP, IGMP
//! and MLD, echo replies and every other ICMP answer. Not here yet: ICMP errors do not reach
//! unconnected UDP sockets (`IP_RECVERR`), flow labels are zero.
//!
//! | module | content |
//! |---|---|
//! | [`tcp`], [`udp`], [`ip`] | the protocols; each folder begins with a table of its files |
//! | `queue`, `writing` | the transmit queues, and what the sending thread takes |
//! | `receive_reserve` | free frames reserved for received packets |
//! | [`frame`], [`pool`], [`memory`] | frames, fixed pools, and the memory that the caller lends |
//! | `globals`, `invariants` | the state that all sockets share; checks of it all for tests |
//! | `socket_alloc`, [`ids`], `demux` | slots of sockets, their handles, the lookup by address |
//! | [`path`], `path_cache`, `path_request` | paths: the host's answers, the cache, the requests |
//! | [`epoll_sets`], `wakeups` | readiness, epoll sets, and the threads to be woken |
//! | `timers`, `deadline`, [`time`] | the timer heap, the next deadline, time as a value |
//! | `periodic` | prediction of periodic messages |
//! | [`table`] | counters, and the rows that the service reads |
//! | [`addr`], [`checksum`], [`error`] | addresses, checksums, errors |
//!
//! A call that makes a socket ready on which another thread sleeps records a wakeup:
//! [`Stack::take_wakeups`].
#![cfg_attr(not(any(test, feature = "owned")), no_std)]
#![forbid(unsafe_code)]

#[macro_use]
mod shared_layout;

pub mod addr;
pub mod checksum;
mod deadline;
mod demux;
pub mod epoll_sets;
pub mod error;
pub mod frame;
mod globals;
pub mod ids;
#[cfg(any(test, feature = "owned"))]
mod invariants;
pub mod ip;
pub mod memory;
pub mod path;
mod path_cache;
mod path_request;
mod periodic;
pub mod pool;
mod queue;
mod receive_reserve;
mod socket_alloc;
pub mod table;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod time;
mod timers;
pub mod udp;
mod wakeups;
mod writing;

#[doc(inline)]
pub use error::{Result, StackError};
pub use globals::StackConfig;
pub use ids::{ListenerId, Ready, SendSource, SetId, Sink, SocketId, SocketKind, TcpId, UdpId};
#[cfg(any(test, feature = "owned"))]
pub use invariants::InUse;
pub use ip::{Checksum, ReceiveMetadata};
#[cfg(any(test, feature = "owned"))]
pub use memory::OwnedMemory;
pub use memory::{Limits, Memory};
pub use periodic::Expected;
pub use queue::{Class, TransmitDescriptor};
pub(crate) use socket_alloc::{ConnectionIndex, ListenerIndex, SetIndex, SocketIndex, UdpIndex};
pub use wakeups::{WaiterId, WakeTarget, Wakeups};

/// A user-mode stack over memory that the caller lends. It has no state outside of that memory. A
/// value of this type is a view, and may be created anew (in another process, too), as long as only
/// one is used at a time.
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
