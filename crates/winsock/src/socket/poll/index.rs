//! The numbers of polls by handle.

use crate::real::Handle;
use std::collections::{BTreeSet, HashMap};

/// Numbers by handle, the oldest poll first.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<Handle, BTreeSet<u64>>);

impl Index {
    pub(super) fn insert(&mut self, handle: Handle, number: u64) {
        self.0.entry(handle).or_default().insert(number);
    }

    pub(super) fn remove(&mut self, handle: Handle, number: u64) {
        if let Some(numbers) = self.0.get_mut(&handle) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.0.remove(&handle);
            }
        }
    }

    /// The polls of a handle.
    pub(super) fn of(&self, handle: Handle) -> Vec<u64> {
        self.0.get(&handle).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_found_by_their_handles_in_order() {
        let mut index = Index::default();
        for (handle, number) in [(4, 9), (4, 2), (8, 9), (4, 9)] {
            index.insert(handle, number);
        }
        assert_eq!((index.of(4), index.of(8), index.of(12)), (vec![2, 9], vec![9], Vec::new()));
        index.remove(4, 9);
        index.remove(4, 7);
        index.remove(8, 9);
        assert_eq!((index.of(4), index.of(8), index.0.len()), (vec![2], Vec::new(), 1));
    }
}
