//! One timer per TCP connection, in a binary heap.
//!
//! Moving a deadline is what happens most (every acknowledgement pushes the retransmission out), and it costs nothing when it
//! moves to later: the heap keeps the old key and corrects it when that key comes to the top.

use crate::Stack;
use crate::pool::Link;
use crate::time::Instant;
use zerocopy::FromZeros;

/// The timer of one connection.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Timer {
    /// When it fires; never if disarmed.
    due: Instant,
    /// The key under which the heap holds it: never later than `due`, unless that is never.
    key: Instant,
    /// Its place in the heap.
    place: Link,
}

impl Stack<'_> {
    /// Sets the timer of a connection to `at`, whatever it was before.
    pub(crate) fn arm(&mut self, tcp: u32, at: Instant) {
        let Some(timer) = self.mem.timers.get_mut(tcp as usize) else { return };
        timer.due = at;
        match timer.place.get() {
            Some(_) if at >= timer.key => {}
            Some(place) => {
                timer.key = at;
                self.heap().up(place as usize);
            }
            None => {
                timer.key = at;
                let place = self.mem.core.heap_len;
                self.mem.core.heap_len += 1;
                let mut heap = self.heap();
                heap.put(place as usize, tcp);
                heap.up(place as usize);
            }
        }
    }

    /// Stops the timer of a connection.
    pub(crate) fn disarm(&mut self, tcp: u32) {
        if let Some(timer) = self.mem.timers.get_mut(tcp as usize) {
            timer.due = Instant::NEVER;
        }
    }

    /// The next connection whose timer is due; its timer is then disarmed.
    pub(crate) fn timer_due(&mut self, now: Instant) -> Option<u32> {
        self.timer_next().filter(|&(due, _)| due <= now)?;
        let tcp = self.heap().pop()?;
        self.mem.timers[tcp as usize].due = Instant::NEVER;
        Some(tcp)
    }

    /// The earliest deadline and whose it is.
    pub(crate) fn timer_next(&mut self) -> Option<(Instant, u32)> {
        loop {
            let mut heap = self.heap();
            let tcp = *heap.entries.first()?;
            let Timer { due, key, .. } = heap.timers[tcp as usize];
            if due.is_never() {
                heap.pop();
            } else if due > key {
                heap.timers[tcp as usize].key = due;
                heap.down(0);
            } else {
                return Some((due, tcp));
            }
        }
    }

    /// The deadline of a connection's timer; never if it has none. Looks whether the heap holds it.
    #[cfg(any(test, feature = "owned"))]
    pub(crate) fn audit_timer(&self, tcp: u32) -> Instant {
        let Timer { due, key, place } = self.mem.timers[tcp as usize];
        let Some(place) = place.get() else {
            assert!(due.is_never(), "timer {tcp} is armed and not in the heap");
            return due;
        };
        assert!(place < self.mem.core.heap_len && self.mem.heap[place as usize] == tcp, "place of timer {tcp}");
        assert!(due.is_never() || key <= due, "timer {tcp} would fire late");
        if place > 0 {
            let parent = self.mem.timers[self.mem.heap[(place as usize - 1) / 2] as usize].key;
            assert!(parent <= key, "the heap's order at {place}");
        }
        due
    }

    fn heap(&mut self) -> Heap<'_> {
        let len = self.mem.core.heap_len as usize;
        Heap { len: &mut self.mem.core.heap_len, entries: &mut self.mem.heap[..len], timers: self.mem.timers }
    }
}

struct Heap<'a> {
    len: &'a mut u32,
    entries: &'a mut [u32],
    timers: &'a mut [Timer],
}

impl Heap<'_> {
    fn key(&self, place: usize) -> Instant {
        self.timers[self.entries[place] as usize].key
    }

    fn put(&mut self, place: usize, tcp: u32) {
        self.entries[place] = tcp;
        self.timers[tcp as usize].place = Link::to(place as u32);
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (x, y) = (self.entries[a], self.entries[b]);
        self.put(a, y);
        self.put(b, x);
    }

    fn up(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.key(parent) <= self.key(place) {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2].into_iter().filter(|&c| c < self.entries.len());
            let Some(least) = children.min_by_key(|&c| self.key(c)) else { return };
            if self.key(place) <= self.key(least) {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let last = self.entries.len().checked_sub(1)?;
        let tcp = self.entries[0];
        self.swap(0, last);
        self.timers[tcp as usize].place = Link::NONE;
        *self.len = last as u32;
        let entries = core::mem::take(&mut self.entries);
        self.entries = &mut entries[..last];
        self.down(0);
        Some(tcp)
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Limits, OwnedMemory};
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
                        stack.arm(i, Instant::from_nanos(now + at));
                        model.insert(i, now + at);
                    }
                    Step::Disarm(i) => {
                        stack.disarm(i);
                        model.remove(&i);
                    }
                    Step::Pass(ns) => {
                        now += ns;
                        let mut last = 0;
                        while let Some(i) = stack.timer_due(Instant::from_nanos(now)) {
                            let at = model.remove(&i).expect("armed");
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
