//! Readiness sets: the epoll sets of the lane.
//!
//! A set holds items; an item watches one socket (or another set) for some readiness. When a
//! socket's readiness changes, only its items are visited, and interested ones are appended to
//! their set's ready list. A wait on a set visits its ready list only. So the cost of an event does
//! not depend on the number of sockets, nor that of a wait on the number of idle ones.

#[cfg(any(test, feature = "owned"))]
mod invariants;
mod list;
#[cfg(test)]
mod tests;

use crate::ids::{Ready, SetId, SocketId, SocketKind};
use crate::pool::{PoolLink, PoolSlot};
use crate::{SetIndex, SocketIndex, Stack};
use core::fmt;
use list::{Ends, Which};
use zerocopy::FromZeros;

/// How deep sets may be nested, as on Linux.
const MOST_NESTED: u32 = 5;

/// The events that an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The bits of interest, as [`Ready::with_classes`] has them; errors and hang-ups are always of
    /// interest.
    pub ready: Ready,
    /// Report changes only, not the state (`EPOLLET`).
    pub edge: bool,
    /// Report once, then stay disabled until modified (`EPOLLONESHOT`).
    pub oneshot: bool,
}

impl Interest {
    /// Level-triggered interest.
    #[must_use]
    pub const fn level(ready: Ready) -> Self {
        Self { ready, edge: false, oneshot: false }
    }

    /// Edge-triggered interest.
    #[must_use]
    pub const fn edge(ready: Ready) -> Self {
        Self { ready, edge: true, oneshot: false }
    }

    fn mask(self) -> Ready {
        self.ready | Ready::ERR | Ready::HUP
    }
}

/// An event that a wait reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The readiness of the socket, masked by the interest.
    pub ready: Ready,
    /// The user data of the item.
    pub data: u64,
}

/// Why a change of a set was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The set or the socket does not exist any more (`EBADF`).
    Stale,
    /// That socket is already in the set under that key (`EEXIST`).
    Exists,
    /// It is not in the set (`ENOENT`).
    Missing,
    /// Sets would watch each other in a loop or be nested too deep (`ELOOP`).
    Loop,
    /// No room for more sets or items (`ENOSPC`).
    Full,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "no such set or socket",
            Self::Exists => "already in the set",
            Self::Missing => "not in the set",
            Self::Loop => "sets nested in a circle or too deep",
            Self::Full => "no room for more sets or items",
        })
    }
}

impl core::error::Error for WatchError {}

/// A socket (or set) in a set.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Item {
    /// Chain of the free list.
    link: PoolLink,
    /// Links in its lists, by [`Which`].
    ends: [Ends; 3],
    /// The set.
    set: SetIndex,
    /// The handle slot of the watched socket.
    slot: u32,
    /// Distinguishes items on one socket: the descriptor under which it was added.
    key: u64,
    data: u64,
    ready: Ready,
    edge: bool,
    oneshot: bool,
    /// A oneshot item that has reported.
    disabled: bool,
    /// On the ready list.
    queued: bool,
}

shared_layout! { Item { link, ends, set, slot, key, data, ready, edge, oneshot, disabled, queued } }

impl Item {
    fn interest(&self) -> Interest {
        Interest { ready: self.ready, edge: self.edge, oneshot: self.oneshot }
    }
}

/// A set.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Set {
    /// Chain of the free list.
    link: PoolLink,
    members: PoolLink,
    ready_head: PoolLink,
    ready_tail: PoolLink,
    /// Items on the ready list.
    queued: u32,
}

shared_layout! { Set { link, members, ready_head, ready_tail, queued } }

/// The two directions along nested sets: to the sets that are items of one, or to those of which it
/// is an item.
#[derive(Clone, Copy)]
enum Side {
    Inside,
    Around,
}

impl PoolSlot for Item {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl PoolSlot for Set {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

impl Stack<'_> {
    /// Makes an empty set.
    ///
    /// # Errors
    /// [`WatchError::Full`].
    pub fn set_create(&mut self) -> Result<SetId, WatchError> {
        let set = self.open().map_err(|_| WatchError::Full)?;
        self.mem.sets[set] = Set::new_zeroed();
        self.id_of(set).try_into().map_err(|_| WatchError::Full)
    }

    /// Destroys a set; its members are no longer watched.
    ///
    /// # Errors
    /// [`WatchError::Stale`].
    pub fn set_destroy(&mut self, set: SetId) -> Result<(), WatchError> {
        let index = self.set_index(set)?;
        while let Some(item) = self.mem.sets[index].members.get() {
            self.item_remove(item);
        }
        self.release(index);
        Ok(())
    }

    /// Adds a socket, or another set, to a set. `key` distinguishes several items on one socket
    /// (the descriptor); `data` is reported.
    ///
    /// # Errors
    /// Any [`WatchError`] but [`WatchError::Missing`].
    pub fn item_add(
        &mut self,
        set: SetId,
        source: SocketId,
        key: u64,
        interest: Interest,
        data: u64,
    ) -> Result<(), WatchError> {
        let (set, slot) = (self.set_index(set)?, self.source_slot(source)?);
        if self.item_find(set, slot, key).is_some() {
            return Err(WatchError::Exists);
        }
        if let Some(SocketIndex::Set(inner)) = self.socket_of_slot(slot) {
            let below = self.nesting(inner, Side::Inside, set, 0).ok_or(WatchError::Loop)?;
            let above = self.nesting(set, Side::Around, inner, 0).ok_or(WatchError::Loop)?;
            if below + above + 1 >= MOST_NESTED {
                return Err(WatchError::Loop);
            }
        }
        let item = self.mem.core.free_items.take(self.mem.items).ok_or(WatchError::Full)?;
        let Interest { ready, edge, oneshot } = interest;
        self.mem.items[item as usize] =
            Item { set, slot: slot as u32, key, data, ready, edge, oneshot, ..Item::new_zeroed() };
        let members = &mut self.mem.sets[set].members;
        list::push_front(self.mem.items, Which::Members, members, item);
        list::push_front(self.mem.items, Which::Watchers, &mut self.mem.handles[slot].watchers, item);
        self.item_if_ready(item);
        Ok(())
    }

    /// Changes what an item waits for, and rearms it.
    ///
    /// # Errors
    /// [`WatchError::Stale`], [`WatchError::Missing`].
    pub fn item_modify(
        &mut self,
        set: SetId,
        source: SocketId,
        key: u64,
        interest: Interest,
        data: u64,
    ) -> Result<(), WatchError> {
        let (set, slot) = (self.set_index(set)?, self.source_slot(source)?);
        let index = self.item_find(set, slot, key).ok_or(WatchError::Missing)?;
        let item = &mut self.mem.items[index as usize];
        (item.ready, item.edge, item.oneshot) = (interest.ready, interest.edge, interest.oneshot);
        (item.data, item.disabled) = (data, false);
        self.item_if_ready(index);
        Ok(())
    }

    /// Whether an item has reported once, and is disabled until it is modified
    /// ([`Interest::oneshot`]).
    ///
    /// # Errors
    /// [`WatchError::Stale`], [`WatchError::Missing`].
    pub fn item_is_quiet(&self, set: SetId, source: SocketId, key: u64) -> Result<bool, WatchError> {
        let (set, slot) = (self.set_index(set)?, self.source_slot(source)?);
        let item = self.item_find(set, slot, key).ok_or(WatchError::Missing)?;
        Ok(self.mem.items[item as usize].disabled)
    }

    /// Removes an item from a set.
    ///
    /// # Errors
    /// [`WatchError::Stale`], [`WatchError::Missing`].
    pub fn item_delete(&mut self, set: SetId, source: SocketId, key: u64) -> Result<(), WatchError> {
        let (set, slot) = (self.set_index(set)?, self.source_slot(source)?);
        let item = self.item_find(set, slot, key).ok_or(WatchError::Missing)?;
        self.item_remove(item);
        Ok(())
    }

    /// Reports at most `max` ready items, those longest on the ready list first, without waiting.
    /// Returns how many.
    ///
    /// # Errors
    /// [`WatchError::Stale`].
    pub fn set_wait(&mut self, set: SetId, max: usize, mut sink: impl FnMut(Event)) -> Result<usize, WatchError> {
        let set = self.set_index(set)?;
        // Level-triggered items return to the end of the list; each is visited once.
        let mut left = self.mem.sets[set].queued;
        let mut reported = 0;
        while left > 0
            && reported < max
            && let Some(index) = self.ready_pop(set)
        {
            left -= 1;
            let item = &self.mem.items[index as usize];
            let (mask, data) = (item.interest().mask(), item.data);
            let ready = if item.disabled { Ready::NONE } else { self.classes_ready(item.slot, 0) & mask };
            if ready.is_empty() {
                continue;
            }
            sink(Event { ready, data });
            reported += 1;
            let item = &mut self.mem.items[index as usize];
            if item.oneshot {
                item.disabled = true;
            } else if !item.edge {
                self.ready_push(index);
            }
        }
        Ok(reported)
    }

    /// A member became ready for `outside` outside of the stack (a socket may have a kernel side,
    /// too). Returns the event of both sides; `None` if the item is disabled after a oneshot
    /// report.
    ///
    /// # Errors
    /// [`WatchError::Stale`], [`WatchError::Missing`].
    pub fn item_report(
        &mut self,
        set: SetId,
        source: SocketId,
        key: u64,
        outside: Ready,
    ) -> Result<Option<Event>, WatchError> {
        let (set, slot) = (self.set_index(set)?, self.source_slot(source)?);
        let index = self.item_find(set, slot, key).ok_or(WatchError::Missing)?;
        let inside = self.classes_ready(slot as u32, 0);
        let item = &mut self.mem.items[index as usize];
        if item.disabled {
            return Ok(None);
        }
        let event = Event { ready: outside | inside & item.interest().mask(), data: item.data };
        item.disabled = item.oneshot;
        // A level-triggered item stays on the list, and is reported again for as long as it is
        // ready.
        if item.queued && (item.oneshot || item.edge) {
            self.ready_remove(index);
        }
        Ok(Some(event))
    }

    /// A socket became ready for `what`: notifies the items that watch it, and the threads that
    /// sleep on it.
    pub(crate) fn notify(&mut self, id: SocketId, what: Ready) {
        if let Some(slot) = self.slot(id.kind, id.index) {
            self.notify_slot(slot, what.with_classes(id.kind), 0);
        }
    }

    /// The readiness of a socket or set, for a handle known to be valid.
    pub(crate) fn ready_now(&self, socket: SocketIndex) -> Ready {
        self.ready_at_depth(socket, 0)
    }

    fn ready_at_depth(&self, socket: SocketIndex, depth: u32) -> Ready {
        match socket {
            SocketIndex::Tcp(index) => self.tcp_readiness(index),
            SocketIndex::Listener(index) => self.listener_readiness(index),
            SocketIndex::Udp(index) => self.udp_readiness(index),
            SocketIndex::Set(index) => self.set_readiness(index, depth),
        }
    }

    /// The readiness of the socket or set of this slot as items report it: with the classes of
    /// data.
    fn classes_ready(&self, slot: u32, depth: u32) -> Ready {
        let ready = |socket: SocketIndex| self.ready_at_depth(socket, depth).with_classes(socket.kind());
        self.socket_of_slot(slot as usize).map_or(Ready::NONE, ready)
    }

    /// A set is readable while a wait on it would report something.
    fn set_readiness(&self, set: SetIndex, depth: u32) -> Ready {
        let mut at = self.mem.sets[set].ready_head;
        while let Some(index) = at.get()
            && depth <= MOST_NESTED
        {
            let item = &self.mem.items[index as usize];
            let ready = self.classes_ready(item.slot, depth + 1) & item.interest().mask();
            if !item.disabled && !ready.is_empty() {
                return Ready::IN;
            }
            at = item.ends[Which::Ready as usize].next;
        }
        Ready::NONE
    }

    /// Queues an item that was added or changed if its socket is already ready.
    fn item_if_ready(&mut self, index: u32) {
        let item = &self.mem.items[index as usize];
        let mask = item.interest().mask();
        if !(self.classes_ready(item.slot, 0) & mask).is_empty() {
            self.item_queue(index, 0);
        }
    }

    fn set_index(&self, set: SetId) -> Result<SetIndex, WatchError> {
        self.check(set).map_err(|_| WatchError::Stale)
    }

    pub(crate) fn source_slot(&self, source: SocketId) -> Result<usize, WatchError> {
        self.valid_slot(source).map_err(|_| WatchError::Stale)
    }

    /// Removes a socket or set that ends from all sets.
    pub(crate) fn unwatch_all(&mut self, slot: usize) {
        while let Some(item) = self.mem.handles[slot].watchers.get() {
            self.item_remove(item);
        }
        // Threads that sleep on it, or poll for it, must notice that it is gone.
        self.wake(slot);
    }

    /// [`Stack::notify`] for the socket or set of this slot, `depth` sets above the socket where
    /// the event was.
    fn notify_slot(&mut self, slot: usize, what: Ready, depth: u32) {
        self.wake(slot);
        let mut at = self.mem.handles[slot].watchers;
        while let Some(index) = at.get() {
            let item = &self.mem.items[index as usize];
            at = item.ends[Which::Watchers as usize].next;
            if !item.disabled && !(item.interest().mask() & what).is_empty() {
                self.item_queue(index, depth);
            }
        }
    }

    /// Puts an item on its set's ready list, and notifies the items that watch the set, which is
    /// now readable.
    fn item_queue(&mut self, index: u32, depth: u32) {
        let item = &self.mem.items[index as usize];
        let set = item.set;
        if !item.queued {
            self.ready_push(index);
        }
        if depth < MOST_NESTED
            && let Some(slot) = self.slot_of(set)
        {
            self.notify_slot(slot, Ready::IN.with_classes(SocketKind::Set), depth + 1);
        }
    }

    fn ready_push(&mut self, index: u32) {
        let item = &mut self.mem.items[index as usize];
        item.queued = true;
        let set = &mut self.mem.sets[item.set];
        set.queued += 1;
        list::push_back(self.mem.items, Which::Ready, &mut set.ready_head, &mut set.ready_tail, index);
    }

    fn ready_pop(&mut self, set: SetIndex) -> Option<u32> {
        let index = self.mem.sets[set].ready_head.get()?;
        self.ready_remove(index);
        Some(index)
    }

    fn ready_remove(&mut self, index: u32) {
        let item = &mut self.mem.items[index as usize];
        item.queued = false;
        let set = &mut self.mem.sets[item.set];
        set.queued -= 1;
        list::remove(self.mem.items, Which::Ready, &mut set.ready_head, Some(&mut set.ready_tail), index);
    }

    fn item_find(&self, set: SetIndex, slot: usize, key: u64) -> Option<u32> {
        let mut at = self.mem.handles[slot].watchers;
        while let Some(index) = at.get() {
            let item = &self.mem.items[index as usize];
            if item.set == set && item.key == key {
                return Some(index);
            }
            at = item.ends[Which::Watchers as usize].next;
        }
        None
    }

    fn item_remove(&mut self, index: u32) {
        if self.mem.items[index as usize].queued {
            self.ready_remove(index);
        }
        let (set, slot) = (self.mem.items[index as usize].set, self.mem.items[index as usize].slot);
        list::remove(self.mem.items, Which::Members, &mut self.mem.sets[set].members, None, index);
        list::remove(self.mem.items, Which::Watchers, &mut self.mem.handles[slot as usize].watchers, None, index);
        self.mem.core.free_items.give(self.mem.items, index);
    }

    /// How deep sets are nested inside `set`, or around it; `None` if `forbidden` is among them, or
    /// it is too deep.
    fn nesting(&self, set: SetIndex, side: Side, forbidden: SetIndex, depth: u32) -> Option<u32> {
        if set == forbidden || depth > MOST_NESTED {
            return None;
        }
        let (which, mut at) = match side {
            Side::Inside => (Which::Members, self.mem.sets[set].members),
            Side::Around => (Which::Watchers, self.mem.handles[self.slot_of(set)?].watchers),
        };
        let mut deepest = 0;
        while let Some(index) = at.get() {
            let item = &self.mem.items[index as usize];
            let next = match side {
                Side::Inside => self.socket_of_slot(item.slot as usize),
                Side::Around => Some(SocketIndex::Set(item.set)),
            };
            if let Some(SocketIndex::Set(next)) = next {
                deepest = deepest.max(self.nesting(next, side, forbidden, depth + 1)? + 1);
            }
            at = item.ends[which as usize].next;
        }
        Some(deepest)
    }
}
