//! One timer per TCP connection, in a heap.
//!
//! The most frequent operation is to move a deadline (every acknowledgement postpones the
//! retransmission). It costs nothing if the deadline moves to later: the heap keeps the old key and
//! corrects it when that key reaches the top.
//!
//! With thousands of connections the heap operations are the additional cost of a packet. So an
//! entry has four children, which share a cache line and contain their keys. That halves the levels
//! of a binary heap, and comparisons do not access the timers.

use crate::pool::PoolLink;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};
use zerocopy::FromZeros;

/// The timer of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Timer {
    /// When it fires; never if disarmed.
    due: Instant,
    /// Its key in the heap: never later than `due`, unless that is never.
    key: Instant,
    /// Its position in the heap.
    place: PoolLink,
}

shared_layout! { Timer { due, key, place } }

/// An entry of the heap.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Entry {
    /// The key of its timer.
    key: Instant,
    /// The connection of the timer.
    tcp: ConnectionIndex,
}

shared_layout! { Entry { key, tcp } }

/// Children of an entry.
const CHILDREN: usize = 4;

impl Stack<'_> {
    /// Sets the timer of a connection to `at`, whatever it was before.
    pub(crate) fn arm(&mut self, tcp: ConnectionIndex, at: Instant) {
        let Some(timer) = self.mem.timers.get_mut(tcp.as_usize()) else { return };
        timer.due = at;
        match timer.place.get() {
            Some(_) if at >= timer.key => {}
            Some(place) => {
                timer.key = at;
                self.heap().up(place as usize, Entry { key: at, tcp });
            }
            None => {
                timer.key = at;
                let place = self.mem.core.heap_len;
                self.mem.core.heap_len += 1;
                self.heap().up(place as usize, Entry { key: at, tcp });
            }
        }
    }

    /// Stops the timer of a connection.
    pub(crate) fn disarm(&mut self, tcp: ConnectionIndex) {
        if let Some(timer) = self.mem.timers.get_mut(tcp.as_usize()) {
            timer.due = Instant::NEVER;
        }
    }

    /// The next connection whose timer is due; disarms the timer.
    pub(crate) fn timer_due(&mut self, now: Instant) -> Option<ConnectionIndex> {
        self.timer_next().filter(|&(due, _)| due <= now)?;
        let tcp = self.heap().pop()?;
        self.mem.timers[tcp.as_usize()].due = Instant::NEVER;
        Some(tcp)
    }

    /// The earliest deadline and its connection.
    pub(crate) fn timer_next(&mut self) -> Option<(Instant, ConnectionIndex)> {
        loop {
            let mut heap = self.heap();
            let Entry { key, tcp } = *heap.entries.first()?;
            let timer = &mut heap.timers[tcp.as_usize()];
            let due = timer.due;
            if due.is_never() {
                heap.pop();
            } else if due > key {
                timer.key = due;
                heap.down(0, Entry { key: due, tcp });
            } else {
                return Some((due, tcp));
            }
        }
    }

    /// The deadline of a connection's timer; never if it has none. Checks its entry in the heap.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn check_timer(&self, tcp: ConnectionIndex) -> Instant {
        let Timer { due, key, place } = self.mem.timers[tcp.as_usize()];
        let Some(place) = place.get() else {
            assert!(due.is_never(), "timer {tcp} is armed and not in the heap");
            return due;
        };
        let entry = self.mem.heap[place as usize];
        assert!(place < self.mem.core.heap_len && entry.tcp == tcp && entry.key == key, "place of timer {tcp}");
        assert!(due.is_never() || key <= due, "timer {tcp} would fire late");
        if place > 0 {
            let parent = self.mem.heap[(place as usize - 1) / CHILDREN].key;
            assert!(parent <= key, "the heap's order at {place}");
        }
        due
    }

    /// Checks that each entry of the heap belongs to one timer.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn check_heap(&self) {
        for (place, entry) in (0..).zip(&self.mem.heap[..self.mem.core.heap_len as usize]) {
            let held = self.mem.timers.get(entry.tcp.as_usize()).map(|timer| timer.place);
            assert_eq!(held, Some(PoolLink::to(place)), "whose timer is at {place}");
        }
    }

    fn heap(&mut self) -> Heap<'_> {
        let len = self.mem.core.heap_len as usize;
        Heap { len: &mut self.mem.core.heap_len, entries: &mut self.mem.heap[..len], timers: self.mem.timers }
    }
}

struct Heap<'a> {
    len: &'a mut u32,
    entries: &'a mut [Entry],
    timers: &'a mut [Timer],
}

impl Heap<'_> {
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.timers[entry.tcp.as_usize()].place = PoolLink::to(place as u32);
    }

    /// Inserts an entry at `place` or above it; the former entry there is overwritten.
    fn up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let above = (place - 1) / CHILDREN;
            let parent = self.entries[above];
            if parent.key <= entry.key {
                break;
            }
            self.put(place, parent);
            place = above;
        }
        self.put(place, entry);
    }

    /// Inserts an entry at `place` or below it; the former entry there is overwritten.
    fn down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = CHILDREN * place + 1;
            let children = self.entries.iter().skip(first).take(CHILDREN).enumerate();
            let Some((nth, &least)) = children.min_by_key(|(_, child)| child.key) else { break };
            if entry.key <= least.key {
                break;
            }
            self.put(place, least);
            place = first + nth;
        }
        self.put(place, entry);
    }

    fn pop(&mut self) -> Option<ConnectionIndex> {
        let last = self.entries.len().checked_sub(1)?;
        let (top, entry) = (self.entries[0].tcp, self.entries[last]);
        self.timers[top.as_usize()].place = PoolLink::NONE;
        *self.len = last as u32;
        let entries = core::mem::take(&mut self.entries);
        self.entries = &mut entries[..last];
        if last > 0 {
            self.down(0, entry);
        }
        Some(top)
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Limits, OwnedMemory};
    use crate::pool::slot;
    use crate::time::Instant;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Disarm(u32),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..32u32, 1..500u64).prop_map(|(i, at)| Step::Arm(i, at)),
            1 => (0..32u32).prop_map(Step::Disarm),
            2 => (0..100u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #![proptest_config(crate::testing::proptest_config(256))]
        #[test]
        fn timers_fire_once_each_in_order_and_only_when_due(steps in prop::collection::vec(step(), 1..200)) {
            let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 32, ..Limits::DEFAULT });
            let mut stack = memory.stack();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 1;
            for step in steps {
                match step {
                    Step::Arm(i, at) => {
                        stack.arm(slot(i), Instant::from_nanos(now + at));
                        model.insert(i, now + at);
                    }
                    Step::Disarm(i) => {
                        stack.disarm(slot(i));
                        model.remove(&i);
                    }
                    Step::Pass(ns) => {
                        now += ns;
                        let mut last = 0;
                        while let Some(i) = stack.timer_due(Instant::from_nanos(now)) {
                            let at = model.remove(&i.number()).expect("armed");
                            prop_assert!(at <= now && at >= last);
                            last = at;
                        }
                        prop_assert!(model.values().all(|&at| at > now));
                    }
                }
                let next = stack.timer_next().map(|(at, _)| at.as_nanos());
                prop_assert_eq!(next, model.values().copied().min());
            }
        }
    }
}
