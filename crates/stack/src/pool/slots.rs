//! Typed access to a pool: an index, a link and a slice of slots of one type. An index into one
//! pool cannot be used for another one, nor be made of any number.

use super::{FreeList, PoolLink, PoolSlot};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};
use zerocopy::FromZeros;

/// The index of a slot in the pool of `T`. It comes from the pool itself ([`Slots`]) or from the
/// shared memory, which other processes may damage: so access by it is bounds-checked.
#[derive(FromZeros)]
#[repr(transparent)]
pub(crate) struct SlotIndex<T>(u32, PhantomData<fn() -> T>);

shared_layout! { SlotIndex<T> { 0, 1 } }

impl<T> SlotIndex<T> {
    const fn new(number: u32) -> Self {
        Self(number, PhantomData)
    }

    /// The index as a number, for handles and messages.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The index as a number, for a table with one entry per slot.
    pub(crate) const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// The slot with this index, for tests that know which slots they use.
#[cfg(test)]
pub(crate) const fn slot<T>(number: u32) -> SlotIndex<T> {
    SlotIndex::new(number)
}

// Derived implementations would demand the same of `T`.
impl<T> Clone for SlotIndex<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotIndex<T> {}

impl<T> PartialEq for SlotIndex<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for SlotIndex<T> {}

impl<T> PartialOrd for SlotIndex<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for SlotIndex<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for SlotIndex<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for SlotIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<T> fmt::Display for SlotIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A [`PoolLink`] into the pool of `T`.
#[derive(FromZeros)]
#[repr(transparent)]
pub struct SlotLink<T>(PoolLink, PhantomData<fn() -> T>);

shared_layout! { SlotLink<T> { 0, 1 } }

impl<T> SlotLink<T> {
    /// No slot.
    pub(crate) const NONE: Self = Self(PoolLink::NONE, PhantomData);

    /// The slot with this index.
    pub(crate) const fn to(index: SlotIndex<T>) -> Self {
        Self(PoolLink::to(index.0), PhantomData)
    }

    /// The index, if there is one.
    pub(crate) const fn get(self) -> Option<SlotIndex<T>> {
        match self.0.get() {
            Some(number) => Some(SlotIndex::new(number)),
            None => None,
        }
    }

    /// Whether there is no slot.
    pub(crate) const fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// The same link as a number.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) const fn as_pool_link(self) -> PoolLink {
        self.0
    }

    /// The same link for the free list, see [`PoolSlot::link`].
    pub(crate) const fn untyped(&mut self) -> &mut PoolLink {
        &mut self.0
    }
}

impl<T> Clone for SlotLink<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotLink<T> {}

impl<T> Default for SlotLink<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> PartialEq for SlotLink<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for SlotLink<T> {}

impl<T> fmt::Debug for SlotLink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The slots of a pool, accessible by [`SlotIndex`] only.
pub(crate) struct Slots<'a, T>(&'a mut [T]);

impl<'a, T> From<&'a mut [T]> for Slots<'a, T> {
    fn from(slots: &'a mut [T]) -> Self {
        Self(slots)
    }
}

impl<T> Slots<'_, T> {
    /// The number of slots, used or not.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The index of the slot with this number; `None` if there is no such slot.
    pub(crate) fn index_of(&self, number: u32) -> Option<SlotIndex<T>> {
        ((number as usize) < self.0.len()).then_some(SlotIndex::new(number))
    }

    /// The slot with this index; `None` if the memory was damaged.
    pub(crate) fn get(&self, index: SlotIndex<T>) -> Option<&T> {
        self.0.get(index.as_usize())
    }

    /// The slot with this index; `None` if the memory was damaged.
    pub(crate) fn get_mut(&mut self, index: SlotIndex<T>) -> Option<&mut T> {
        self.0.get_mut(index.as_usize())
    }

    /// Every slot, used or not.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Every slot, used or not.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Every slot with its index.
    pub(crate) fn enumerate(&self) -> impl Iterator<Item = (SlotIndex<T>, &T)> {
        self.indices().zip(self.0.iter())
    }

    /// The indices of all slots; the pool is not borrowed meanwhile.
    pub(crate) fn indices(&self) -> impl Iterator<Item = SlotIndex<T>> + use<T> {
        (0..self.0.len() as u32).map(SlotIndex::new)
    }
}

impl<T: FromZeros> Slots<'_, T> {
    /// Clears every slot.
    pub(crate) fn zero(&mut self) {
        self.0.zero();
    }
}

impl<T: PoolSlot> Slots<'_, T> {
    /// Allocates a slot: [`FreeList::take`].
    pub(crate) fn take(&mut self, free: &mut FreeList<T>) -> Option<SlotIndex<T>> {
        free.take(self.0).map(SlotIndex::new)
    }

    /// Frees a slot: [`FreeList::give`].
    pub(crate) fn give(&mut self, free: &mut FreeList<T>, index: SlotIndex<T>) {
        free.give(self.0, index.0);
    }

    /// The allocated slots according to the free list: [`FreeList::taken`].
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn taken(
        &self,
        what: &str,
        free: &FreeList<T>,
        next: impl Fn(&T) -> PoolLink,
    ) -> super::invariants::Taken {
        free.taken(what, self.0, next)
    }
}

impl<T> Index<SlotIndex<T>> for Slots<'_, T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: SlotIndex<T>) -> &T {
        &self.0[index.as_usize()]
    }
}

impl<T> IndexMut<SlotIndex<T>> for Slots<'_, T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, index: SlotIndex<T>) -> &mut T {
        &mut self.0[index.as_usize()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_numbers_of_slots_become_indices_and_damaged_ones_lead_nowhere() {
        let mut numbers = [10u8, 20];
        let mut slots = Slots::from(numbers.as_mut_slice());
        let second = slots.index_of(1).unwrap();
        slots[second] += 1;
        assert_eq!((slots[second], slots.index_of(2)), (21, None));
        assert!(slots.indices().eq([slot(0), slot(1)]));
        let damaged = SlotLink::to(slot(2)).get().unwrap();
        assert!(slots.get(damaged).is_none() && slots.get_mut(damaged).is_none());
    }
}
