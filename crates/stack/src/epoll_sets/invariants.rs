//! Invariants of epoll sets and their items: see [`Stack::check_invariants`].

use super::Set;
use super::list::Which;
use crate::Stack;
use crate::pool::PoolLink;
use crate::pool::invariants::{Taken, walk};

impl Stack<'_> {
    /// Follows a list of items in both directions; returns their number and the last one.
    fn check_items(
        &self,
        which: Which,
        head: PoolLink,
        taken: &Taken,
        is_mine: impl Fn(u32) -> bool,
    ) -> (usize, PoolLink) {
        let mut before = PoolLink::NONE;
        let count = walk(head, self.mem.items.len(), |index| {
            assert!(taken.has(index) && is_mine(index), "item {index} is on the list of another owner: {which:?}");
            let ends = self.mem.items[index as usize].ends[which as usize];
            assert_eq!(ends.previous, before, "the list of item {index}, backwards: {which:?}");
            before = PoolLink::to(index);
            ends.next
        });
        (count, before)
    }

    pub(crate) fn check_sets(&self) {
        let mem = &self.mem;
        let sets = mem.sets.taken("sets", &mem.core.free_sets, |set| set.link);
        self.check_handles::<Set>(&sets);
        let items = mem.core.free_items.taken("items", mem.items, |item| item.link);
        let mut members = 0;
        for set in sets.indices(&mem.sets) {
            let item = |index: u32| &mem.items[index as usize];
            let this = &mem.sets[set];
            members += self.check_items(Which::Members, this.members, &items, |index| item(index).set == set).0;
            let mine = |index| item(index).set == set && item(index).queued;
            let queued = self.check_items(Which::Ready, this.ready_head, &items, mine);
            assert_eq!(queued, (this.queued as usize, this.ready_tail), "what is ready in set {set}");
        }
        let mut watchers = 0;
        for (slot, handle) in mem.handles.iter().enumerate().filter(|(_, handle)| !handle.watchers.is_none()) {
            assert_eq!(handle.generation & 1, 1, "{:?} is watched, and not open", self.socket_of_slot(slot));
            let mine = |index: u32| mem.items[index as usize].slot as usize == slot;
            watchers += self.check_items(Which::Watchers, handle.watchers, &items, mine).0;
        }
        let used = mem.core.free_items.used();
        assert_eq!((members, watchers), (used, used), "items of sets, and items that watch");
    }
}
