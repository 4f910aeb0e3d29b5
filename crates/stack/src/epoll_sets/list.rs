//! The lists of items: doubly linked, so that any item can be removed in constant time.

use super::Item;
use crate::pool::PoolLink;
use zerocopy::FromZeros;

/// Neighbours on a list.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct Ends {
    pub(super) next: PoolLink,
    pub(super) previous: PoolLink,
}

shared_layout! { Ends { next, previous } }

/// The lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All items that watch one socket.
    Watchers = 0,
    /// All items of one set.
    Members = 1,
    /// The items of one set that are ready.
    Ready = 2,
}

/// Inserts an item at the front.
pub(super) fn push_front(items: &mut [Item], which: Which, head: &mut PoolLink, index: u32) {
    let next = core::mem::replace(head, PoolLink::to(index));
    items[index as usize].ends[which as usize] = Ends { next, previous: PoolLink::NONE };
    if let Some(next) = next.get() {
        items[next as usize].ends[which as usize].previous = PoolLink::to(index);
    }
}

/// Appends an item.
pub(super) fn push_back(items: &mut [Item], which: Which, head: &mut PoolLink, tail: &mut PoolLink, index: u32) {
    let previous = core::mem::replace(tail, PoolLink::to(index));
    items[index as usize].ends[which as usize] = Ends { next: PoolLink::NONE, previous };
    match previous.get() {
        Some(previous) => items[previous as usize].ends[which as usize].next = PoolLink::to(index),
        None => *head = PoolLink::to(index),
    }
}

/// Removes an item from a list.
pub(super) fn remove(items: &mut [Item], which: Which, head: &mut PoolLink, tail: Option<&mut PoolLink>, index: u32) {
    let Ends { next, previous } = core::mem::take(&mut items[index as usize].ends[which as usize]);
    match previous.get() {
        Some(previous) => items[previous as usize].ends[which as usize].next = next,
        None => *head = next,
    }
    match next.get() {
        Some(next) => items[next as usize].ends[which as usize].previous = previous,
        None => {
            if let Some(tail) = tail {
                *tail = previous;
            }
        }
    }
}
