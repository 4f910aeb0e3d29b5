//! Allocating and freeing sockets: pool slot, generation, row and demultiplexer entry together.

use crate::error::{Result, StackError};
use crate::ids::{SocketId, SocketKind};
use crate::pool::PoolLink;
use crate::table::{SocketRow, kind};
use crate::{Ready, Stack};
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

    /// The kind and index that [`Stack::slot`] maps to `slot`.
    pub(crate) fn socket_of_slot(&self, slot: usize) -> (SocketKind, u32) {
        let (tcp, listeners, udp) = (self.mem.tcp.len(), self.mem.listeners.len(), self.mem.udp.len());
        if slot < tcp {
            (SocketKind::Tcp, slot as u32)
        } else if slot < tcp + listeners {
            (SocketKind::Listener, (slot - tcp) as u32)
        } else if slot < tcp + listeners + udp {
            (SocketKind::Udp, (slot - tcp - listeners) as u32)
        } else {
            (SocketKind::Set, (slot - tcp - listeners - udp) as u32)
        }
    }

    /// The row of a TCP connection, a listener or a UDP socket.
    pub(crate) fn row(&self, kind: SocketKind, index: u32) -> &SocketRow {
        let slot = self.slot(kind, index).unwrap_or_default();
        &self.mem.rows[slot]
    }

    /// Allocates a slot of the kind's pool. Its content is that of the previous user, except for
    /// its row, which is cleared and carries its kind.
    pub(crate) fn open(&mut self, kind: SocketKind) -> Result<SocketId> {
        let core = &mut *self.mem.core;
        let index = match kind {
            SocketKind::None => return Err(StackError::Invalid),
            SocketKind::Tcp => core.free_tcp.take(self.mem.tcp),
            SocketKind::Listener => core.free_listeners.take(self.mem.listeners),
            SocketKind::Udp => core.free_udp.take(self.mem.udp),
            SocketKind::Set => core.free_sets.take(self.mem.sets),
        }
        .ok_or(StackError::NoBuffers)?;
        let slot = self.slot(kind, index).ok_or(StackError::Invalid)?;
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(1) | 1;
        let generation = handle.generation;
        if kind != SocketKind::Set {
            let row = &self.mem.rows[slot];
            row.clear();
            row.kind.set(match kind {
                SocketKind::Tcp => kind::TCP,
                SocketKind::Listener => kind::LISTENER,
                _ => kind::UDP,
            });
        }
        Ok(SocketId { kind, index, generation })
    }

    /// Makes the program's handle stale and removes the items that watch it. The stack keeps the
    /// socket (a closed connection in FIN-WAIT).
    pub(crate) fn orphan(&mut self, kind: SocketKind, index: u32) {
        let Some(slot) = self.slot(kind, index) else { return };
        self.unwatch_all(slot);
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(2);
    }

    /// Frees a slot: removes it from the demultiplexer, its timers and all sets, clears its row,
    /// and makes every handle to it stale.
    pub(crate) fn release(&mut self, kind: SocketKind, index: u32) {
        let Some(slot) = self.slot(kind, index) else { return };
        self.unwatch_all(slot);
        let handle = &mut self.mem.handles[slot];
        handle.generation = handle.generation.wrapping_add(1) & !1;
        if kind != SocketKind::Set {
            self.demux_remove(kind, index);
            self.mem.rows[slot].clear();
        }
        if kind == SocketKind::Tcp {
            self.disarm(index);
        }
        let core = &mut *self.mem.core;
        match kind {
            SocketKind::None => {}
            SocketKind::Tcp => core.free_tcp.give(self.mem.tcp, index),
            SocketKind::Listener => core.free_listeners.give(self.mem.listeners, index),
            SocketKind::Udp => core.free_udp.give(self.mem.udp, index),
            SocketKind::Set => core.free_sets.give(self.mem.sets, index),
        }
    }

    /// Whether a slot of a pool is in use.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn is_open(&self, kind: SocketKind, index: u32) -> bool {
        self.slot(kind, index).is_some_and(|slot| self.mem.handles[slot].generation & 1 == 1)
    }

    /// Checks that the allocated slots of a pool are exactly those in use, with a valid or an
    /// orphaned handle.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn check_handles(&self, kind: SocketKind, slots: usize, taken: &crate::pool::invariants::Taken) {
        for index in 0..slots as u32 {
            assert_eq!(taken.has(index), self.is_open(kind, index), "{kind:?} {index}: taken, and open");
        }
    }

    /// The pool index if the handle is valid, [`StackError::Stale`] if not.
    pub(crate) fn check(&self, id: SocketId) -> Result<usize> {
        let slot = self.slot(id.kind, id.index).ok_or(StackError::Stale)?;
        if self.mem.handles[slot].generation == id.generation && id.generation & 1 == 1 {
            Ok(id.index as usize)
        } else {
            Err(StackError::Stale)
        }
    }

    /// The handle that is now valid for a slot.
    pub(crate) fn id_of(&self, kind: SocketKind, index: u32) -> SocketId {
        let generation = self.slot(kind, index).map_or(0, |slot| self.mem.handles[slot].generation);
        SocketId { kind, index, generation }
    }

    /// The present readiness of a socket.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn readiness(&self, id: SocketId) -> Result<Ready> {
        self.check(id)?;
        Ok(self.ready_now(id.kind, id.index))
    }

    /// The public row of a socket, for the caller to fill in process and descriptor.
    ///
    /// # Errors
    /// [`StackError::Stale`]; [`StackError::Invalid`] for a set, which has no row.
    pub fn socket_row(&self, id: SocketId) -> Result<&SocketRow> {
        self.check(id)?;
        if id.kind == SocketKind::Set { Err(StackError::Invalid) } else { Ok(self.row(id.kind, id.index)) }
    }

    /// The rows of sockets that stay on the kernel; the caller manages them.
    #[must_use]
    pub fn kernel_rows(&self) -> &[SocketRow] {
        let sockets = self.mem.tcp.len() + self.mem.listeners.len() + self.mem.udp.len();
        &self.mem.rows[sockets..]
    }
}
