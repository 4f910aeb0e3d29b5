//! Allocating and freeing sockets: pool slot, generation, row and demultiplexer entry together.

use crate::epoll_sets::Set;
use crate::error::{Result, StackError};
use crate::ids::{ListenerId, SetId, SocketId, SocketKind, TcpId, UdpId};
use crate::pool::{FreeList, PoolLink, PoolSlot, SlotIndex, Slots};
use crate::table::{SocketRow, kind};
use crate::{Memory, Ready, Stack, tcp, udp};
use zerocopy::FromZeros;

/// What every socket and set has, whatever its kind.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Handle {
    /// Odd while the slot is in use. A program's handle is valid while it carries this generation.
    pub(crate) generation: u32,
    /// The items of epoll sets that watch it.
    pub(crate) watchers: PoolLink,
    /// First node of the threads that sleep until an event at it, see `wakeups`.
    pub(crate) waiters: u32,
}

shared_layout! { Handle { generation, watchers, waiters } }

/// An entry of a pool of sockets or sets.
pub(crate) trait SocketSlot: PoolSlot + Sized + 'static {
    /// The index, with the kind of the pool.
    fn socket(index: SlotIndex<Self>) -> SocketIndex;
    /// The pool.
    fn slots<'m, 'a>(memory: &'m Memory<'a>) -> &'m Slots<'a, Self>;
    /// The pool and its free list.
    fn pool<'m, 'a>(memory: &'m mut Memory<'a>) -> (&'m mut Slots<'a, Self>, &'m mut FreeList<Self>);
}

/// A handle whose type determines the pool.
pub(crate) trait TypedId: Into<SocketId> {
    /// The entries of the pool.
    type Slot: SocketSlot;
}

macro_rules! socket_pools {
    ($($(#[$doc:meta])* $index:ident = $kind:ident: $slot:ty, $id:ty, $pool:ident, $free:ident;)*) => {
        $(
            $(#[$doc])*
            pub(crate) type $index = SlotIndex<$slot>;

            impl SocketSlot for $slot {
                fn socket(index: $index) -> SocketIndex {
                    SocketIndex::$kind(index)
                }

                fn slots<'m, 'a>(memory: &'m Memory<'a>) -> &'m Slots<'a, Self> {
                    &memory.$pool
                }

                fn pool<'m, 'a>(memory: &'m mut Memory<'a>) -> (&'m mut Slots<'a, Self>, &'m mut FreeList<Self>) {
                    (&mut memory.$pool, &mut memory.core.$free)
                }
            }

            impl TypedId for $id {
                type Slot = $slot;
            }
        )*

        /// The index of a socket or set of any kind.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum SocketIndex {
            $( $(#[$doc])* $kind($index), )*
        }

        impl SocketIndex {
            /// The socket or set of a handle, whatever its generation; `None` if its pool has no
            /// such slot.
            fn of(memory: &Memory<'_>, id: SocketId) -> Option<Self> {
                match id.kind {
                    SocketKind::None => None,
                    $( SocketKind::$kind => memory.$pool.index_of(id.index).map(Self::$kind), )*
                }
            }

            /// The kind.
            pub(crate) const fn kind(self) -> SocketKind {
                match self { $( Self::$kind(_) => SocketKind::$kind, )* }
            }

            /// The index in the pool of the kind, as a number.
            pub(crate) const fn number(self) -> u32 {
                match self { $( Self::$kind(index) => index.number(), )* }
            }
        }
    };
}

socket_pools! {
    /// A TCP connection, half-open ones included.
    ConnectionIndex = Tcp: tcp::Socket, TcpId, tcp, free_tcp;
    /// A listening TCP socket.
    ListenerIndex = Listener: tcp::Listener, ListenerId, listeners, free_listeners;
    /// A UDP socket.
    UdpIndex = Udp: udp::Socket, UdpId, udp, free_udp;
    /// An epoll set.
    SetIndex = Set: Set, SetId, sets, free_sets;
}

impl<T: SocketSlot> From<SlotIndex<T>> for SocketIndex {
    fn from(index: SlotIndex<T>) -> Self {
        T::socket(index)
    }
}

impl core::fmt::Debug for SocketIndex {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {}", self.kind(), self.number())
    }
}

impl Stack<'_> {
    /// Index into everything that exists once per socket (handles, nodes, rows). `None` if there is
    /// no such slot.
    pub(crate) fn slot(&self, kind: SocketKind, index: u32) -> Option<usize> {
        let index = index as usize;
        let (tcp, listeners, udp) = (self.mem.tcp.len(), self.mem.listeners.len(), self.mem.udp.len());
        let (base, count) = match kind {
            SocketKind::None => return None,
            SocketKind::Tcp => (0, tcp),
            SocketKind::Listener => (tcp, listeners),
            SocketKind::Udp => (tcp + listeners, udp),
            SocketKind::Set => (tcp + listeners + udp, self.mem.sets.len()),
        };
        (index < count).then_some(base + index)
    }

    /// [`Stack::slot`] of a socket or set.
    pub(crate) fn slot_of(&self, socket: impl Into<SocketIndex>) -> Option<usize> {
        let socket = socket.into();
        self.slot(socket.kind(), socket.number())
    }

    /// The socket or set that [`Stack::slot_of`] maps to `slot`; `None` if the memory was damaged.
    pub(crate) fn socket_of_slot(&self, slot: usize) -> Option<SocketIndex> {
        let mem = &self.mem;
        let number = slot as u32;
        if let Some(index) = mem.tcp.index_of(number) {
            return Some(SocketIndex::Tcp(index));
        }
        let number = number - mem.tcp.len() as u32;
        if let Some(index) = mem.listeners.index_of(number) {
            return Some(SocketIndex::Listener(index));
        }
        let number = number - mem.listeners.len() as u32;
        if let Some(index) = mem.udp.index_of(number) {
            return Some(SocketIndex::Udp(index));
        }
        mem.sets.index_of(number - mem.udp.len() as u32).map(SocketIndex::Set)
    }

    /// The row of a TCP connection, a listener or a UDP socket.
    pub(crate) fn row(&self, socket: impl Into<SocketIndex>) -> &SocketRow {
        let slot = self.slot_of(socket).unwrap_or_default();
        &self.mem.rows[slot]
    }

    /// Allocates a slot of a pool. Its content is that of the previous user, except for its row,
    /// which is cleared and carries its kind.
    pub(crate) fn open<T: SocketSlot>(&mut self) -> Result<SlotIndex<T>> {
        let (slots, free) = T::pool(&mut self.mem);
        let index = slots.take(free).ok_or(StackError::NoBuffers)?;
        let slot = self.slot_of(index).ok_or(StackError::Invalid)?;
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(1) | 1;
        let kind = match T::socket(index) {
            SocketIndex::Tcp(_) => kind::TCP,
            SocketIndex::Listener(_) => kind::LISTENER,
            SocketIndex::Udp(_) => kind::UDP,
            SocketIndex::Set(_) => return Ok(index),
        };
        let row = &self.mem.rows[slot];
        row.clear();
        row.kind.set(kind);
        Ok(index)
    }

    /// Makes the program's handle stale and removes the items that watch it. The stack keeps the
    /// socket (a closed connection in FIN-WAIT).
    pub(crate) fn orphan(&mut self, socket: impl Into<SocketIndex>) {
        let Some(slot) = self.slot_of(socket) else { return };
        self.unwatch_all(slot);
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(2);
    }

    /// Frees a slot: removes it from the demultiplexer, its timers and all sets, clears its row,
    /// and makes every handle to it stale.
    pub(crate) fn release(&mut self, socket: impl Into<SocketIndex>) {
        let socket = socket.into();
        let Some(slot) = self.slot_of(socket) else { return };
        self.unwatch_all(slot);
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(1) & !1;
        if socket.kind() != SocketKind::Set {
            self.demux_remove(socket);
            self.mem.rows[slot].clear();
        }
        if let SocketIndex::Tcp(index) = socket {
            self.disarm(index);
        }
        let core = &mut *self.mem.core;
        match socket {
            SocketIndex::Tcp(index) => self.mem.tcp.give(&mut core.free_tcp, index),
            SocketIndex::Listener(index) => self.mem.listeners.give(&mut core.free_listeners, index),
            SocketIndex::Udp(index) => self.mem.udp.give(&mut core.free_udp, index),
            SocketIndex::Set(index) => self.mem.sets.give(&mut core.free_sets, index),
        }
    }

    /// Whether a slot of a pool is in use.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn is_open(&self, socket: impl Into<SocketIndex>) -> bool {
        self.slot_of(socket).is_some_and(|slot| self.mem.handles[slot].generation & 1 == 1)
    }

    /// Checks that the allocated slots of a pool are exactly those in use, with a valid or an
    /// orphaned handle.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn check_handles<T: SocketSlot>(&self, taken: &crate::pool::invariants::Taken) {
        for index in T::slots(&self.mem).indices() {
            let socket = T::socket(index);
            assert_eq!(taken.has(index.number()), self.is_open(socket), "{socket:?}: taken, and open");
        }
    }

    /// [`Stack::slot`] of a handle if it is valid, [`StackError::Stale`] if not.
    pub(crate) fn valid_slot(&self, id: SocketId) -> Result<usize> {
        let slot = self.slot(id.kind, id.index).ok_or(StackError::Stale)?;
        if self.mem.handles[slot].generation == id.generation && id.generation & 1 == 1 {
            Ok(slot)
        } else {
            Err(StackError::Stale)
        }
    }

    /// The socket or set if the handle is valid, [`StackError::Stale`] if not.
    pub(crate) fn check_any(&self, id: SocketId) -> Result<SocketIndex> {
        self.valid_slot(id)?;
        SocketIndex::of(&self.mem, id).ok_or(StackError::Stale)
    }

    /// The pool index if the handle is valid, [`StackError::Stale`] if not.
    pub(crate) fn check<I: TypedId>(&self, id: I) -> Result<SlotIndex<I::Slot>> {
        let id = id.into();
        self.valid_slot(id)?;
        I::Slot::slots(&self.mem).index_of(id.index).ok_or(StackError::Stale)
    }

    /// The handle that is now valid for a slot.
    pub(crate) fn id_of(&self, socket: impl Into<SocketIndex>) -> SocketId {
        let socket = socket.into();
        let generation = self.slot_of(socket).map_or(0, |slot| self.mem.handles[slot].generation);
        SocketId { kind: socket.kind(), index: socket.number(), generation }
    }

    /// The present readiness of a socket.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn readiness(&self, id: SocketId) -> Result<Ready> {
        Ok(self.ready_now(self.check_any(id)?))
    }

    /// The public row of a socket, for the caller to fill in process and descriptor.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] for a set, which has no row.
    pub fn socket_row(&self, id: SocketId) -> Result<&SocketRow> {
        let socket = self.check_any(id)?;
        if id.kind == SocketKind::Set { Err(StackError::Invalid) } else { Ok(self.row(socket)) }
    }

    /// The rows of sockets that stay on the kernel; the caller manages them.
    #[must_use]
    pub fn kernel_rows(&self) -> &[SocketRow] {
        let sockets = self.mem.tcp.len() + self.mem.listeners.len() + self.mem.udp.len();
        &self.mem.rows[sockets..]
    }
}
