//! Which neighbours have changed. Windows announces no changes of its neighbour table, so the table
//! is read again and compared.
//!
//! Only neighbours that are in use are kept: any node of a link can fill the kernel's table.

use crate::neighbour::NeighbourEntry;
use std::collections::BTreeMap;
use tickwire_stack::addr::Address;

/// The most neighbours that one [`NeighbourWatch`] keeps.
pub const MAX_WATCHED: usize = 4096;

/// Neighbours in use, with their entries as last read.
#[derive(Debug, Default)]
pub struct NeighbourWatch {
    known: BTreeMap<(u32, Address), Option<NeighbourEntry>>,
}

/// A difference of a watched neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourChange {
    /// Its entry is new or changed.
    Entry(NeighbourEntry),
    /// The kernel has no entry any more.
    Gone {
        /// The interface's index.
        interface: u32,
        /// The neighbour's address.
        address: Address,
    },
}

impl NeighbourWatch {
    /// Watches a neighbour on an interface. False if [`MAX_WATCHED`] are watched already.
    pub fn watch(&mut self, interface: u32, address: Address) -> bool {
        let key = (interface, address);
        if self.known.len() >= MAX_WATCHED && !self.known.contains_key(&key) {
            return false;
        }
        self.known.entry(key).or_default();
        true
    }

    /// Watches a neighbour no longer.
    pub fn forget(&mut self, interface: u32, address: Address) {
        self.known.remove(&(interface, address));
    }

    /// Whether a neighbour is watched.
    #[must_use]
    pub fn watches(&self, interface: u32, address: Address) -> bool {
        self.known.contains_key(&(interface, address))
    }

    /// How many are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is watched, so that the table need not be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Compares with the kernel's whole table, in any order. Yields what differs from the last
    /// time; for a neighbour that is new here, its entry if there is one.
    pub fn compare(&mut self, table: impl IntoIterator<Item = NeighbourEntry>) -> Vec<NeighbourChange> {
        let mut found = BTreeMap::new();
        for entry in table {
            let key = (entry.interface, entry.address);
            if self.watches(entry.interface, entry.address) {
                found.insert(key, entry);
            }
        }
        let mut changes = Vec::new();
        for (&(interface, address), known) in &mut self.known {
            let now = found.remove(&(interface, address));
            if *known != now {
                let gone = NeighbourChange::Gone { interface, address };
                changes.push(now.map_or(gone, NeighbourChange::Entry));
                *known = now;
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbour::NeighbourState;
    use tickwire_stack::addr::Mac;

    fn neighbour(last: u8, state: NeighbourState) -> NeighbourEntry {
        let address = Address::v4([10, 0, 0, last]);
        NeighbourEntry { interface: 5, address, mac: Some(Mac([2, 0, 0, 0, 0, last])), state }
    }

    #[test]
    fn only_watched_neighbours_are_reported_and_only_once() {
        use NeighbourState::{Reachable, Stale};
        let mut watch = NeighbourWatch::default();
        let (one, other) = (neighbour(1, Reachable), neighbour(2, Reachable));
        assert!(watch.watch(5, one.address));
        assert_eq!(watch.compare([other, one]), [NeighbourChange::Entry(one)]);
        assert_eq!(watch.compare([one, other]), []);
        let stale = neighbour(1, Stale);
        assert_eq!(watch.compare([stale]), [NeighbourChange::Entry(stale)]);
        let gone = NeighbourChange::Gone { interface: 5, address: one.address };
        assert_eq!(watch.compare([other]), [gone]);
        assert_eq!(watch.compare([]), []);
        // The same address on another interface is another neighbour.
        assert_eq!(watch.compare([NeighbourEntry { interface: 6, ..one }]), []);
        watch.forget(5, one.address);
        assert!(watch.is_empty());
        assert_eq!(watch.compare([one]), []);
    }

    #[test]
    fn watching_is_bounded() {
        let mut watch = NeighbourWatch::default();
        let address = |n: usize| Address::v4((n as u32).to_be_bytes());
        assert!((0..MAX_WATCHED).all(|n| watch.watch(5, address(n))));
        assert!(!watch.watch(5, address(MAX_WATCHED)));
        assert!(watch.watch(5, address(0)), "one that is watched already");
        assert_eq!(watch.len(), MAX_WATCHED);
        watch.forget(5, address(0));
        assert!(watch.watch(5, address(MAX_WATCHED)));
    }
}
