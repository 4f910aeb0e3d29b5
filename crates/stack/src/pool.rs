//! Fixed pools addressed by index: all memory is allocated once, and an index means the same in
//! every process that shares the region.

#[cfg(any(test, feature = "owned"))]
pub(crate) mod invariants;
mod slots;

#[cfg(test)]
pub(crate) use slots::slot;
pub(crate) use slots::{SlotIndex, SlotLink, Slots};

use core::marker::PhantomData;
use zerocopy::FromZeros;

/// An optional index into a pool. All-zero memory is "none", so a fresh region needs no set-up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Hash, FromZeros)]
#[repr(transparent)]
pub struct PoolLink(u32);

shared_layout! { PoolLink { 0 } }

impl PoolLink {
    /// No slot.
    pub const NONE: Self = Self(0);

    /// The slot with this index.
    #[must_use]
    pub const fn to(index: u32) -> Self {
        Self(index + 1)
    }

    /// The index, if there is one.
    #[must_use]
    pub const fn get(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// Whether there is no slot.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// A slot of a pool. While the slot is free, its link chains the free list.
pub trait PoolSlot {
    /// The link that the free list may use while the slot is free.
    fn link(&mut self) -> &mut PoolLink;
}

/// The free list of a pool of `T`; the slots themselves are in a slice beside it.
///
/// Slots that were never used are handed out in order, so a fresh pool needs no chaining.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub struct FreeList<T> {
    head: PoolLink,
    /// Slots below this index have been used at least once.
    fresh: u32,
    used: u32,
    of: PhantomData<T>,
}

shared_layout! { FreeList<T> { head, fresh, used, of } }

impl<T: PoolSlot> FreeList<T> {
    /// Allocates a slot. Its content is that of the previous user; the caller resets it.
    pub fn take(&mut self, slots: &mut [T]) -> Option<u32> {
        let index = match self.head.get() {
            Some(index) => {
                self.head = core::mem::take(slots.get_mut(index as usize)?.link());
                index
            }
            None if (self.fresh as usize) < slots.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.used += 1;
        Some(index)
    }

    /// Frees a slot.
    pub fn give(&mut self, slots: &mut [T], index: u32) {
        *slots[index as usize].link() = self.head;
        self.head = PoolLink::to(index);
        self.used -= 1;
    }

    /// The number of allocated slots.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Item(PoolLink);
    impl PoolSlot for Item {
        fn link(&mut self) -> &mut PoolLink {
            &mut self.0
        }
    }

    #[test]
    fn every_slot_is_handed_out_once_and_again_after_it_was_given_back() {
        let mut slots: Vec<Item> = (0..4).map(|_| Item::default()).collect();
        let mut free: FreeList<Item> = FreeList { head: PoolLink::NONE, fresh: 0, used: 0, of: PhantomData };
        let taken: Vec<_> = (0..4).map(|_| free.take(&mut slots).unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(free.take(&mut slots), None);
        free.give(&mut slots, 2);
        free.give(&mut slots, 0);
        assert_eq!((free.take(&mut slots), free.take(&mut slots)), (Some(0), Some(2)));
        assert_eq!(free.used(), 4);
    }
}
