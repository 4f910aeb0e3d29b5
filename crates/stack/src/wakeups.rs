//! Wakeups: which threads sleep on which sockets, and which of them are to be woken.
//!
//! A thread that is about to sleep takes a waiter ([`Stack::sleep_on`]). The waiter is queued at
//! each socket and set on which the thread sleeps. An event at one of them moves its waiters to the
//! list of threads to be woken ([`Stack::take_wakeups`]). So the cost of an event depends only on
//! the threads that wait for it, not on how many others sleep in the lane, in whatever process.
//!
//! Threads that poll are not queued. [`Stack::take_changes`] shows them that one of their sockets
//! had an event.

use crate::Stack;
use crate::ids::SocketId;
use crate::pool::{PoolLink, PoolSlot};
use zerocopy::FromZeros;

/// Most threads of a lane that can sleep at one time.
pub(crate) const WAITERS: usize = 3072;

/// A thread can be queued at this many sockets. A thread that sleeps on more is woken by any event.
const SOURCES: usize = 4;

/// Wakeups handed out at a time: few, because they are on the caller's stack.
const BATCH: usize = 4;

/// Node of the list of threads that any event wakes.
const ANYTHING: usize = SOURCES;
/// Node of the list of threads to be woken.
const WOKEN: usize = SOURCES + 1;
const NODES: usize = SOURCES + 2;

/// How a sleeping thread is woken. The stack keeps this for the caller and reads only the priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub struct WakeTarget {
    /// The thread's process, by its slot.
    pub process: u32,
    /// Its wakeup descriptor in that process, -1 for none.
    pub descriptor: i32,
    /// How other processes reach it, 0 if they cannot.
    pub address: u64,
    /// Its real-time priority, 0 for an ordinary thread.
    pub priority: u32,
    /// Unused.
    pub reserved: u32,
}

shared_layout! { WakeTarget { process, descriptor, address, priority, reserved } }

/// The waiter of a sleeping thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaiterId(u32);

impl WaiterId {
    /// A number that is never 0, for words that are read without the lock.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 + 1
    }

    /// The waiter with this number.
    #[must_use]
    pub const fn of_number(number: u32) -> Option<Self> {
        match number.checked_sub(1) {
            Some(index) => Some(Self(index)),
            None => None,
        }
    }
}

/// Threads to be woken.
#[derive(Clone, Copy, Debug)]
pub struct Wakeups {
    targets: [WakeTarget; BATCH],
    waiters: [WaiterId; BATCH],
    len: usize,
    /// All threads of the lane are to be woken.
    pub everybody: bool,
    /// The next call returns more.
    pub more: bool,
}

impl Wakeups {
    /// How to wake the threads.
    #[must_use]
    pub fn targets(&self) -> &[WakeTarget] {
        &self.targets[..self.len]
    }

    /// Their waiters.
    #[must_use]
    pub fn waiters(&self) -> &[WaiterId] {
        &self.waiters[..self.len]
    }
}

/// A waiter's membership in one list: its neighbours as node numbers plus one, and the list.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
struct Node {
    next: u32,
    previous: u32,
    /// 0 for none. For the list of a socket: its slot plus one.
    list: u32,
}

shared_layout! { Node { next, previous, list } }

/// A sleeping thread.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub(crate) struct Waiter {
    target: WakeTarget,
    nodes: [Node; NODES],
    link: PoolLink,
    taken: u32,
    /// It was responsible for polling and did not poll: not chosen again.
    passed_over: u32,
    padding: u32,
}

shared_layout! { Waiter { target, nodes, link, taken, passed_over, padding } }

impl PoolSlot for Waiter {
    fn link(&mut self) -> &mut PoolLink {
        &mut self.link
    }
}

/// The wakeup state of the stack.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct WakeState {
    /// First node of the threads that any event wakes.
    anything: u32,
    /// First node of the threads to be woken.
    woken: u32,
    everybody: u32,
    /// No waiter from here on was ever taken.
    used: u32,
    /// Bits of sockets with an event, see [`Stack::change_mask`].
    pub(crate) changes: u64,
}

shared_layout! { WakeState { anything, woken, everybody, used, changes } }

impl Stack<'_> {
    /// The calling thread is about to sleep until an event at one of these sockets or sets; until
    /// any event, if there are none, more than four, or one is stale. `None` if too many threads
    /// sleep: then nothing wakes this one.
    pub fn sleep_on(&mut self, sources: impl IntoIterator<Item = SocketId>, target: WakeTarget) -> Option<WaiterId> {
        let index = self.mem.core.free_waiters.take(self.mem.waiters)?;
        let wakeups = &mut self.mem.core.wakeups;
        wakeups.used = wakeups.used.max(index + 1);
        self.mem.waiters[index as usize] = Waiter { target, taken: 1, ..Waiter::default() };
        let mut slots = [0; SOURCES];
        let mut len = 0;
        let mut by_name = true;
        for source in sources {
            match (slots.get_mut(len), self.source_slot(source)) {
                (Some(place), Ok(slot)) => *place = slot as u32 + 1,
                _ => by_name = false,
            }
            len += 1;
        }
        if by_name && len > 0 {
            for (node, slot) in slots.into_iter().take(len).enumerate() {
                self.waiter_link(index, node, slot);
            }
        } else {
            self.waiter_link(index, ANYTHING, u32::MAX);
        }
        Some(WaiterId(index))
    }

    /// The thread is awake, and must not be woken any more. Does nothing if the waiter belongs to
    /// another process by now.
    pub fn awake(&mut self, id: WaiterId, process: u32) {
        let waiter = self.mem.waiters.get(id.0 as usize);
        if waiter.is_some_and(|waiter| waiter.taken != 0 && waiter.target.process == process) {
            self.waiter_release(id.0);
        }
    }

    /// A process has ended: removes its waiters. Returns how many there were.
    pub fn forget_waiters(&mut self, process: u32) -> u32 {
        let mut forgotten = 0;
        for index in 0..self.mem.core.wakeups.used {
            let waiter = &self.mem.waiters[index as usize];
            if waiter.taken != 0 && waiter.target.process == process {
                self.waiter_release(index);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// The sleeping thread of the highest priority that has a wakeup descriptor and was not passed
    /// over.
    #[must_use]
    pub fn first_waiter(&self) -> Option<(WaiterId, WakeTarget)> {
        let used = self.mem.core.wakeups.used as usize;
        let able = |waiter: &Waiter| waiter.taken != 0 && waiter.target.descriptor >= 0 && waiter.passed_over == 0;
        let waiters = (0u32..).zip(&*self.mem.waiters).take(used).filter(|(_, waiter)| able(waiter));
        // Of equal priorities the first.
        let best =
            waiters.reduce(|best, other| if other.1.target.priority > best.1.target.priority { other } else { best });
        best.map(|(index, waiter)| (WaiterId(index), waiter.target))
    }

    /// How this thread is woken, if it sleeps.
    #[must_use]
    pub fn waiter(&self, id: WaiterId) -> Option<WakeTarget> {
        self.mem.waiters.get(id.0 as usize).filter(|waiter| waiter.taken != 0).map(|waiter| waiter.target)
    }

    /// [`Stack::first_waiter`] does not choose this thread again while it sleeps.
    pub fn pass_over(&mut self, id: WaiterId) {
        if let Some(waiter) = self.mem.waiters.get_mut(id.0 as usize) {
            waiter.passed_over = 1;
        }
    }

    /// The threads with an event since the last call; `None` if there are none.
    pub fn take_wakeups(&mut self) -> Option<Wakeups> {
        let everybody = core::mem::take(&mut self.mem.core.wakeups.everybody) != 0;
        if self.mem.core.wakeups.woken == 0 && !everybody {
            return None;
        }
        let (targets, waiters) = ([WakeTarget::default(); BATCH], [WaiterId(0); BATCH]);
        let mut wakeups = Wakeups { targets, waiters, len: 0, everybody, more: false };
        while let Some(index) = self.waiter_of_node(self.mem.core.wakeups.woken) {
            let Some(place) = wakeups.targets.get_mut(wakeups.len) else {
                wakeups.more = true;
                break;
            };
            *place = self.mem.waiters[index as usize].target;
            wakeups.waiters[wakeups.len] = WaiterId(index);
            wakeups.len += 1;
            self.waiter_unlink(index, WOKEN);
        }
        Some(wakeups)
    }

    /// The sockets and sets with an event since the last call, as bits of [`Stack::change_mask`].
    #[inline]
    pub fn take_changes(&mut self) -> u64 {
        core::mem::take(&mut self.mem.core.wakeups.changes)
    }

    /// The bits of these sockets and sets. Several share a bit. All bits if there are none, or one
    /// is stale.
    pub fn change_mask(&self, sources: impl IntoIterator<Item = SocketId>) -> u64 {
        let mut mask = 0;
        for source in sources {
            match self.source_slot(source) {
                Ok(slot) => mask |= change_bit(slot),
                Err(_) => return u64::MAX,
            }
        }
        if mask == 0 { u64::MAX } else { mask }
    }

    /// All threads are to be woken.
    pub(crate) fn wake_all(&mut self) {
        self.mem.core.wakeups.everybody = 1;
        self.mem.core.wakeups.changes = u64::MAX;
    }
}

fn change_bit(slot: usize) -> u64 {
    1 << (slot % 64)
}

impl Stack<'_> {
    /// An event at the socket or set of this slot.
    pub(crate) fn wake(&mut self, slot: usize) {
        self.mem.core.wakeups.changes |= change_bit(slot);
        while let Some(index) = self.waiter_of_node(self.mem.handles[slot].waiters) {
            self.waiter_wake(index);
        }
        while let Some(index) = self.waiter_of_node(self.mem.core.wakeups.anything) {
            self.waiter_wake(index);
        }
    }

    /// The waiter to which a node (plus one) belongs.
    fn waiter_of_node(&self, node: u32) -> Option<u32> {
        node.checked_sub(1).map(|node| node / NODES as u32)
    }

    fn waiter_wake(&mut self, index: u32) {
        for node in 0..WOKEN {
            self.waiter_unlink(index, node);
        }
        self.waiter_link(index, WOKEN, u32::MAX);
    }

    fn waiter_release(&mut self, index: u32) {
        for node in 0..NODES {
            self.waiter_unlink(index, node);
        }
        self.mem.waiters[index as usize].taken = 0;
        self.mem.core.free_waiters.give(self.mem.waiters, index);
    }

    /// The first node of the list to which a waiter's node belongs.
    fn waiter_head(&mut self, node: usize, list: u32) -> &mut u32 {
        match node {
            ANYTHING => &mut self.mem.core.wakeups.anything,
            WOKEN => &mut self.mem.core.wakeups.woken,
            _ => &mut self.mem.handles[list as usize - 1].waiters,
        }
    }

    fn waiter_node(&mut self, number: u32) -> Option<&mut Node> {
        let number = number.checked_sub(1)? as usize;
        self.mem.waiters.get_mut(number / NODES)?.nodes.get_mut(number % NODES)
    }

    fn waiter_link(&mut self, index: u32, node: usize, list: u32) {
        let own = index * NODES as u32 + node as u32 + 1;
        let next = core::mem::replace(self.waiter_head(node, list), own);
        if let Some(next) = self.waiter_node(next) {
            next.previous = own;
        }
        self.mem.waiters[index as usize].nodes[node] = Node { next, previous: 0, list };
    }

    fn waiter_unlink(&mut self, index: u32, node: usize) {
        let Node { next, previous, list } = core::mem::take(&mut self.mem.waiters[index as usize].nodes[node]);
        if list == 0 {
            return;
        }
        if let Some(next) = self.waiter_node(next) {
            next.previous = previous;
        }
        match self.waiter_node(previous) {
            Some(previous) => previous.next = next,
            None => *self.waiter_head(node, list) = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll_sets::Interest;
    use crate::ids::{Ready, UdpId};
    use crate::memory::{Limits, OwnedMemory};
    use crate::udp::UdpOptions;
    use crate::{StackConfig, StackError};

    const COUNT: usize = BATCH + 2;

    fn memory() -> OwnedMemory {
        let limits = Limits { frames: 128, udp: 64, watch_items: 16, watch_sets: 8, ..Limits::DEFAULT };
        let mut memory = OwnedMemory::new(&limits);
        memory.stack().init(&StackConfig::default());
        memory
    }

    fn sockets(stack: &mut Stack<'_>) -> [UdpId; COUNT] {
        [(); COUNT].map(|()| stack.udp_open(UdpOptions::default()).unwrap())
    }

    /// An event at the socket.
    fn happens(stack: &mut Stack<'_>, id: UdpId) {
        stack.udp_keep_error(id, StackError::Refused).unwrap();
    }

    fn target(descriptor: i32) -> WakeTarget {
        WakeTarget { descriptor, ..WakeTarget::default() }
    }

    /// The descriptors of the threads to be woken.
    fn woken(stack: &mut Stack<'_>) -> Vec<i32> {
        let mut all = Vec::new();
        while let Some(wakeups) = stack.take_wakeups() {
            all.extend(wakeups.targets().iter().map(|target| target.descriptor));
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_thread_is_woken_once_and_for_its_own_socket() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        happens(&mut stack, a);
        assert!(stack.take_wakeups().is_none(), "no thread sleeps");
        let first = stack.sleep_on([a.into()], target(1)).unwrap();
        let second = stack.sleep_on([b.into()], target(2)).unwrap();
        happens(&mut stack, a);
        assert_eq!(woken(&mut stack), [1]);
        happens(&mut stack, a);
        assert!(woken(&mut stack).is_empty(), "it is on its way");
        stack.awake(second, 7);
        happens(&mut stack, b);
        assert_eq!(woken(&mut stack), [2], "another process cannot take it off");
        stack.awake(first, 0);
        stack.awake(second, 0);
        stack.awake(second, 0);
        let ids = [(); 3].map(|()| stack.sleep_on([a.into()], target(3)).unwrap());
        assert!(ids[0] != ids[1] && ids[1] != ids[2], "none is given out twice");
    }

    #[test]
    fn a_thread_that_wakes_up_by_itself_is_woken_no_more() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        let ids = [1, 2, 3].map(|fd| stack.sleep_on([a.into(), b.into()], target(fd)).unwrap());
        stack.awake(ids[1], 0);
        happens(&mut stack, b);
        stack.awake(ids[2], 0);
        assert_eq!(woken(&mut stack), [1]);
    }

    #[test]
    fn a_thread_that_sleeps_on_several_is_woken_for_each_and_one_that_sleeps_on_many_for_everything() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let all = sockets(&mut stack);
        let ids = |n: usize| all[..n].iter().map(|&id| SocketId::from(id)).collect::<Vec<_>>();
        let few = stack.sleep_on(ids(SOURCES), target(1)).unwrap();
        happens(&mut stack, all[SOURCES]);
        assert!(woken(&mut stack).is_empty());
        happens(&mut stack, all[SOURCES - 1]);
        assert_eq!(woken(&mut stack), [1]);
        stack.awake(few, 0);
        for many in [ids(SOURCES + 1), Vec::new()] {
            let id = stack.sleep_on(many, target(4)).unwrap();
            happens(&mut stack, all[SOURCES + 1]);
            assert_eq!(woken(&mut stack), [4]);
            stack.awake(id, 0);
        }
        happens(&mut stack, all[SOURCES + 1]);
        assert!(woken(&mut stack).is_empty());
    }

    #[test]
    fn a_thread_that_sleeps_on_a_set_is_woken_for_what_is_in_it() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, _, b, ..] = sockets(&mut stack);
        let (inner, outer) = (stack.set_create().unwrap(), stack.set_create().unwrap());
        stack.item_add(inner, a.into(), 0, Interest::edge(Ready::ERR), 7).unwrap();
        stack.item_add(outer, inner.into(), 0, Interest::level(Ready::IN), 8).unwrap();
        stack.sleep_on([outer.into()], target(1)).unwrap();
        let mask = stack.change_mask([outer.into()]);
        stack.take_changes();
        happens(&mut stack, b);
        assert!(woken(&mut stack).is_empty() && stack.take_changes() & mask == 0);
        happens(&mut stack, a);
        assert!(woken(&mut stack) == [1] && stack.take_changes() & mask != 0);
    }

    #[test]
    fn a_thread_whose_socket_ends_is_woken() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        let id = stack.sleep_on([a.into(), b.into()], target(1)).unwrap();
        stack.udp_close(b).unwrap();
        assert_eq!(woken(&mut stack), [1]);
        stack.awake(id, 0);
        stack.sleep_on([b.into()], target(2)).unwrap();
        happens(&mut stack, a);
        assert_eq!(woken(&mut stack), [2], "a stale socket is none to sleep on");
        assert_eq!(stack.change_mask([b.into()]), u64::MAX);
        stack.restart(&StackConfig::default());
        assert!(stack.take_wakeups().is_some_and(|wakeups| wakeups.everybody));
        assert_eq!(stack.take_changes(), u64::MAX);
    }

    #[test]
    fn no_thread_is_forgotten_when_much_happens_at_once() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let all = sockets(&mut stack);
        for (fd, id) in (0..).zip(all) {
            stack.sleep_on([id.into()], target(fd)).unwrap();
            stack.sleep_on([id.into()], target(fd)).unwrap();
        }
        all.into_iter().for_each(|id| happens(&mut stack, id));
        let first = stack.take_wakeups().unwrap();
        assert!(first.targets().len() == BATCH && first.more);
        assert_eq!(woken(&mut stack).len(), 2 * COUNT - BATCH);
    }

    #[test]
    fn as_many_threads_as_there_are_waiters_sleep_and_those_of_a_dead_process_are_forgotten() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, ..] = sockets(&mut stack);
        for n in 0..WAITERS as i32 {
            let target = WakeTarget { process: n as u32 % 2, descriptor: n, ..WakeTarget::default() };
            assert!(stack.sleep_on([a.into()], target).is_some());
        }
        assert_eq!(stack.sleep_on([a.into()], target(0)), None);
        assert_eq!(stack.forget_waiters(1), WAITERS as u32 / 2);
        happens(&mut stack, a);
        assert!(woken(&mut stack).iter().eq((0..WAITERS as i32).step_by(2).collect::<Vec<_>>().iter()));
        assert!(stack.sleep_on([a.into()], target(0)).is_some());
    }

    #[test]
    fn the_thread_of_the_highest_priority_comes_first() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, ..] = sockets(&mut stack);
        assert_eq!(stack.first_waiter(), None);
        let mut sleeps = |descriptor, priority| {
            let target = WakeTarget { descriptor, priority, ..WakeTarget::default() };
            stack.sleep_on([a.into()], target).unwrap()
        };
        let [_deaf, _ordinary, high, _equal] = [(-1, 99), (1, 0), (2, 10), (3, 10)].map(|(fd, p)| sleeps(fd, p));
        assert_eq!(stack.first_waiter().map(|(id, _)| id), Some(high));
        stack.pass_over(high);
        assert_eq!(stack.first_waiter().map(|(_, target)| target.descriptor), Some(3));
        assert_eq!(WaiterId::of_number(high.number()), Some(high));
    }
}
