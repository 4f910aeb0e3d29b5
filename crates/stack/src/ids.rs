//! Handles of sockets, readiness bits, and the program's buffers as the stack sees them.

use core::ops::{BitAnd, BitOr, BitOrAssign, Not};
use zerocopy::FromZeros;

/// The kind of object that a handle refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(u32)]
pub enum SocketKind {
    /// Nothing.
    #[default]
    None = 0,
    /// A TCP connection.
    Tcp = 1,
    /// A listening TCP socket.
    Listener = 2,
    /// A UDP socket.
    Udp = 3,
    /// An epoll set (which another set may watch).
    Set = 4,
}

shared_layout! { enum SocketKind { None, Tcp, Listener, Udp, Set } }

/// A socket or set. The generation distinguishes handles of the slot's earlier users, so a stale
/// handle is an error ([`crate::StackError::Stale`]), never another socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromZeros)]
#[repr(C)]
pub struct SocketId {
    /// Its kind.
    pub kind: SocketKind,
    /// Its index in the pool of its kind.
    pub index: u32,
    /// The generation of the slot.
    pub generation: u32,
}

shared_layout! { SocketId { kind, index, generation } }

impl SocketId {
    /// The handle packed into one word (never zero for a live socket), for tables of atomics.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.kind as u64) << 60 | ((self.index & 0x0fff_ffff) as u64) << 32 | self.generation as u64
    }

    /// The handle from [`SocketId::to_bits`]; any other word gives a handle that is stale at worst.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        let kind = match bits >> 60 {
            1 => SocketKind::Tcp,
            2 => SocketKind::Listener,
            3 => SocketKind::Udp,
            4 => SocketKind::Set,
            _ => SocketKind::None,
        };
        Self { kind, index: (bits >> 32) as u32 & 0x0fff_ffff, generation: bits as u32 }
    }
}

macro_rules! typed {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Its index in the pool of its kind.
            pub index: u32,
            /// The generation of the slot.
            pub generation: u32,
        }

        impl From<$name> for SocketId {
            fn from(id: $name) -> Self {
                Self { kind: SocketKind::$kind, index: id.index, generation: id.generation }
            }
        }

        impl TryFrom<SocketId> for $name {
            type Error = crate::StackError;
            fn try_from(id: SocketId) -> crate::Result<Self> {
                match id.kind {
                    SocketKind::$kind => Ok(Self { index: id.index, generation: id.generation }),
                    _ => Err(crate::StackError::Invalid),
                }
            }
        }
    )*};
}

typed! {
    /// A TCP connection.
    TcpId = Tcp;
    /// A listening TCP socket.
    ListenerId = Listener;
    /// A UDP socket.
    UdpId = Udp;
    /// An epoll set.
    SetId = Set;
}

/// The readiness of a socket: the poll bits, under their own names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
#[repr(transparent)]
pub struct Ready(pub u32);

shared_layout! { Ready { 0 } }

impl Ready {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Data to read (or a connection to accept, or the end of the stream).
    pub const IN: Self = Self(0x001);
    /// Urgent data.
    pub const PRI: Self = Self(0x002);
    /// Room to write.
    pub const OUT: Self = Self(0x004);
    /// An error is pending.
    pub const ERR: Self = Self(0x008);
    /// Both directions are shut.
    pub const HUP: Self = Self(0x010);
    /// Normal data to read: the same as [`Ready::IN`] (see [`Ready::with_classes`]).
    pub const RDNORM: Self = Self(0x040);
    /// Room for normal data: the same as [`Ready::OUT`].
    pub const WRNORM: Self = Self(0x100);
    /// Room for priority data: of UDP, the same as [`Ready::OUT`].
    pub const WRBAND: Self = Self(0x200);
    /// The peer will send no more.
    pub const RDHUP: Self = Self(0x2000);

    /// The readiness of a socket of this kind with the bits for classes of data, as Linux reports
    /// them: `datagram_poll` has priority data, too, `tcp_poll` has normal data only. None has
    /// priority data to read (`POLLRDBAND`).
    #[must_use]
    pub const fn with_classes(self, kind: SocketKind) -> Self {
        let mut bits = self.0;
        if self.contains(Self::IN) {
            bits |= Self::RDNORM.0;
        }
        if self.contains(Self::OUT) {
            bits |= Self::WRNORM.0;
            if matches!(kind, SocketKind::Udp) {
                bits |= Self::WRBAND.0;
            }
        }
        Self(bits)
    }

    /// Whether no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Ready {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Ready {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Ready {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// The source of a send: the program's buffers, possibly scattered.
pub trait SendSource {
    /// How many bytes are left.
    fn remaining(&self) -> usize;
    /// Copies the next bytes into all of `into`, as far as there are any, and returns how many.
    fn read(&mut self, into: &mut [u8]) -> usize;
    /// Whether some of the remaining bytes could not be read. Then only the part of `into` that was
    /// read before is valid.
    fn failed(&self) -> bool {
        false
    }
    /// Whether all remaining bytes can be read now. That touches each of their pages.
    fn is_there(&self) -> bool {
        true
    }
}

/// The destination of a receive: the program's buffers, possibly scattered.
pub trait Sink {
    /// How many more bytes fit.
    fn room(&self) -> usize;
    /// Takes as many of the bytes as fit and returns how many.
    fn write(&mut self, from: &[u8]) -> usize;
    /// Whether some bytes could not be written although [`Sink::room`] promised room.
    fn failed(&self) -> bool {
        false
    }
}

impl SendSource for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        let n = self.len().min(into.len());
        let (head, tail) = self.split_at(n);
        into[..n].copy_from_slice(head);
        *self = tail;
        n
    }
}

impl Sink for &mut [u8] {
    fn room(&self) -> usize {
        self.len()
    }

    fn write(&mut self, from: &[u8]) -> usize {
        let n = self.len().min(from.len());
        let (head, tail) = core::mem::take(self).split_at_mut(n);
        head.copy_from_slice(&from[..n]);
        *self = tail;
        n
    }
}

/// A sink without a limit, for tests and simulation.
#[cfg(any(test, feature = "owned"))]
impl Sink for Vec<u8> {
    fn room(&self) -> usize {
        usize::MAX - self.len()
    }

    fn write(&mut self, from: &[u8]) -> usize {
        self.extend_from_slice(from);
        from.len()
    }
}
