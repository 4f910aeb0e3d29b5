//! The table of descriptors. Each has the number of a real descriptor (of the null device), because
//! packetdrill itself closes, with the C library's call, those that a script has left open.

use crate::errno::{Errno, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::IntoRawFd;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::epoll_sets::Interest;
use tickwire_stack::tcp::TcpOptions;
use tickwire_stack::time::Span;
use tickwire_stack::{ListenerId, SetId, SocketId, TcpId};

/// A socket in an epoll instance that the stack does not know yet, because the socket is neither
/// connected nor listening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) fd: i32,
    pub(crate) interest: Interest,
    pub(crate) data: u64,
}

/// The current kind of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A socket neither connected nor listening.
    Fresh,
    Connection(TcpId),
    Listener(ListenerId),
    /// An epoll instance.
    Set(SetId),
}

impl Kind {
    /// The stack's socket.
    pub(crate) fn socket(self) -> Option<SocketId> {
        match self {
            Self::Fresh => None,
            Self::Connection(id) => Some(id.into()),
            Self::Listener(id) => Some(id.into()),
            Self::Set(id) => Some(id.into()),
        }
    }
}

/// A descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) kind: Kind,
    /// Of an IPv6 socket.
    pub(crate) v6: bool,
    pub(crate) nonblock: bool,
    /// A connect is in progress, or its result was not reported yet.
    pub(crate) connecting: bool,
    /// Reads report the remaining bytes (`TCP_INQ`).
    pub(crate) tells_left: bool,
    /// Its bound address, while it is fresh.
    pub(crate) bound: Endpoint,
    /// Options set while it was fresh.
    pub(crate) options: TcpOptions,
    pub(crate) receive_timeout: Option<Span>,
    pub(crate) send_timeout: Option<Span>,
    /// Sockets in an epoll instance that the stack does not know yet.
    pub(crate) watched: Vec<Watched>,
}

impl Descriptor {
    pub(crate) fn new(kind: Kind, v6: bool, options: TcpOptions) -> Self {
        Self {
            kind,
            v6,
            nonblock: false,
            connecting: false,
            tells_left: false,
            bound: Endpoint::default(),
            options,
            receive_timeout: None,
            send_timeout: None,
            watched: Vec::new(),
        }
    }
}

/// The descriptors by number.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<i32, Descriptor>);

impl Table {
    /// Adds a descriptor under a new number.
    pub(crate) fn enter(&mut self, descriptor: Descriptor) -> Result<i32> {
        let file = File::open("/dev/null").map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::ENFILE)))?;
        let fd = file.into_raw_fd();
        self.0.insert(fd, descriptor);
        Ok(fd)
    }

    pub(crate) fn get(&mut self, fd: i32) -> Result<&mut Descriptor> {
        self.0.get_mut(&fd).ok_or(Errno(libc::EBADF))
    }

    pub(crate) fn remove(&mut self, fd: i32) -> Result<Descriptor> {
        self.0.remove(&fd).ok_or(Errno(libc::EBADF))
    }

    /// The epoll instances.
    pub(crate) fn sets(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        self.0.values_mut().filter(|d| matches!(d.kind, Kind::Set(_)))
    }
}
