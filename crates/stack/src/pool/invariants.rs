//! Invariants of lists, chains and free lists; those of every pool and table build on them: see
//! [`crate::Stack::check_invariants`].

use super::{FreeList, PoolLink, PoolSlot, SlotIndex, SlotLink, Slots};

impl<T: PoolSlot> FreeList<T> {
    /// The allocated slots according to the free list; `next` is the link of a slot. Checks that
    /// the list ends, and contains each free slot once.
    pub(crate) fn taken(&self, what: &str, slots: &[T], next: impl Fn(&T) -> PoolLink) -> Taken {
        assert!(self.fresh as usize <= slots.len(), "{what}: more were used than there are");
        let mut taken = vec![true; self.fresh as usize];
        walk(self.head, taken.len(), |index| {
            let is_first = taken.get_mut(index as usize).is_some_and(core::mem::take);
            assert!(is_first, "{what}: {index} is on the free list twice, or was never used");
            next(&slots[index as usize])
        });
        let taken = Taken(taken);
        assert_eq!(
            taken.all().count(),
            self.used(),
            "{what}: those that are not on the free list, and those that are taken"
        );
        taken
    }
}

/// The allocated slots of a pool. The time to create it is proportional to the slots that were ever
/// used, not to the size of the pool.
pub(crate) struct Taken(Vec<bool>);

impl Taken {
    /// Whether this slot is allocated.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    /// All allocated slots.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).filter_map(|(index, &taken)| taken.then_some(index))
    }

    /// The same with typed indices.
    pub(crate) fn indices<T>(&self, slots: &Slots<'_, T>) -> impl Iterator<Item = SlotIndex<T>> {
        self.all().filter_map(|number| slots.index_of(number))
    }
}

/// A link of a list.
pub(crate) trait Link: Copy {
    /// What it points to.
    type Index;
    /// The index, if there is one.
    fn target(self) -> Option<Self::Index>;
}

impl Link for PoolLink {
    type Index = u32;
    fn target(self) -> Option<u32> {
        self.get()
    }
}

impl<T> Link for SlotLink<T> {
    type Index = SlotIndex<T>;
    fn target(self) -> Option<SlotIndex<T>> {
        self.get()
    }
}

/// Follows every chain of a hash table, with at most `most` entries each; `next` gets each entry
/// and its chain's index. Returns the number of entries.
#[track_caller]
pub(crate) fn chains(table: &[PoolLink], most: usize, mut next: impl FnMut(u32, usize) -> PoolLink) -> usize {
    table.iter().enumerate().map(|(chain, &first)| walk(first, most, |index| next(index, chain))).sum()
}

/// Follows a list of at most `most` entries; returns their number.
#[track_caller]
pub(crate) fn walk<L: Link>(mut at: L, most: usize, mut next: impl FnMut(L::Index) -> L) -> usize {
    let mut count = 0;
    while let Some(index) = at.target() {
        count += 1;
        assert!(count <= most, "a list is longer than it can be");
        at = next(index);
    }
    count
}
