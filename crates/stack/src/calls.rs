//! Who is to be woken. A thread that is about to sleep leaves its process's mark with each socket and set on which it sleeps. What then happens to one of them takes
//! the marks away and becomes a call, by which the program finds its threads: however many sleep in a lane, nobody is woken for what happens to others' sockets.

use crate::Stack;
use crate::ids::SocketId;
use crate::memory::Memory;
use zerocopy::FromZeros;

/// On so many sockets a thread may sleep by name; one that sleeps on more sleeps until anything happens.
const MOST: usize = 4;

/// So many calls are kept apart; with more, everybody is called.
const KEPT: usize = 32;

/// Marks of processes: a bit each, chosen by the caller. 0 is nobody.
pub type Marks = u32;

/// On what a thread sleeps, as long as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepsOn {
    /// Slots of handles, plus one; 0 is no place.
    places: [u32; MOST],
}

impl SleepsOn {
    /// Until anything happens to any socket.
    pub const ANYTHING: Self = Self { places: [0; MOST] };

    /// How many words tell it.
    pub const WORDS: usize = MOST;

    /// The words that tell it, for whoever keeps it in memory that others read.
    #[must_use]
    pub const fn words(self) -> [u32; Self::WORDS] {
        self.places
    }

    /// What these words tell.
    #[must_use]
    pub const fn of(words: [u32; Self::WORDS]) -> Self {
        Self { places: words }
    }
}

/// What happened, for the program to wake whom it concerns.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    places: [u32; KEPT],
    len: usize,
    everybody: bool,
    marks: Marks,
}

impl Calls {
    /// The marks of all who are called.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// Whether one who sleeps on `sleeps` is called, if its mark is among [`Calls::marks`].
    #[must_use]
    pub fn concern(&self, sleeps: &SleepsOn) -> bool {
        let called = |place: &u32| *place != 0 && self.places[..self.len].contains(place);
        self.everybody || *sleeps == SleepsOn::ANYTHING || sleeps.places.iter().any(called)
    }
}

/// What the stack keeps of it.
#[derive(Debug, FromZeros)]
#[repr(C)]
pub(crate) struct Board {
    /// Whose threads sleep until anything happens.
    anything: Marks,
    /// Calls that have not been taken: of whom, how many, and for which places. With more than [`KEPT`] everybody is called.
    marks: Marks,
    len: u32,
    places: [u32; KEPT],
}

impl Stack<'_> {
    /// Says that a thread of a process that has these marks is about to sleep until something happens to one of these sockets or sets: from now on
    /// [`Stack::take_calls`] tells others to wake it, once. If there are none, too many, or one is no more, it sleeps until anything happens.
    pub fn sleep_on(&mut self, sources: impl IntoIterator<Item = SocketId>, marks: Marks) -> SleepsOn {
        let mut sleeps = SleepsOn::ANYTHING;
        for (at, source) in sources.into_iter().enumerate() {
            match (sleeps.places.get_mut(at), self.source_slot(source)) {
                (Some(place), Ok(slot)) => *place = slot as u32 + 1,
                _ => {
                    sleeps = SleepsOn::ANYTHING;
                    break;
                }
            }
        }
        if sleeps == SleepsOn::ANYTHING {
            self.mem.core.calls.anything |= marks;
        }
        for place in sleeps.places.into_iter().filter(|&place| place != 0) {
            self.mem.handles[place as usize - 1].asleep |= marks;
        }
        sleeps
    }

    /// What happened since the last call on which threads slept, if anything did: the caller wakes them.
    pub fn take_calls(&mut self) -> Option<Calls> {
        let board = &mut self.mem.core.calls;
        if board.marks == 0 {
            return None;
        }
        let everybody = board.len as usize > KEPT;
        let calls = Calls {
            places: board.places,
            len: if everybody { 0 } else { board.len as usize },
            everybody,
            marks: core::mem::take(&mut board.marks),
        };
        board.len = 0;
        Some(calls)
    }

    /// Calls everybody.
    pub(crate) fn call_all(&mut self) {
        let board = &mut self.mem.core.calls;
        board.marks = Marks::MAX;
        board.len = KEPT as u32 + 1;
    }
}

impl Memory<'_> {
    /// Something happened to the socket or set of this slot.
    pub(crate) fn call(&mut self, slot: usize) {
        let asleep = core::mem::take(&mut self.handles[slot].asleep);
        let board = &mut self.core.calls;
        if asleep | board.anything == 0 {
            return;
        }
        board.marks |= asleep | core::mem::take(&mut board.anything);
        if asleep == 0 {
            return;
        }
        if let Some(place) = board.places.get_mut(board.len as usize) {
            *place = slot as u32 + 1;
        }
        board.len = board.len.saturating_add(1).min(KEPT as u32 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Ready, UdpId};
    use crate::memory::{Limits, OwnedMemory};
    use crate::time::Instant;
    use crate::udp::UdpOptions;
    use crate::watch::Interest;
    use crate::{Config, Error};

    const SOCKETS: usize = KEPT + 2;

    fn memory() -> OwnedMemory {
        let limits = Limits { frames: 128, udp: 64, watch_items: 16, watch_sets: 8, ..Limits::DEFAULT };
        let mut memory = OwnedMemory::new(&limits);
        memory.stack().init(&Config::default(), Instant::from_nanos(1));
        memory
    }

    fn sockets(stack: &mut Stack<'_>) -> [UdpId; SOCKETS] {
        [(); SOCKETS].map(|()| stack.udp_open(UdpOptions::default()).unwrap())
    }

    /// Something happens to it.
    fn happens(stack: &mut Stack<'_>, id: UdpId) {
        stack.udp_keep_error(id, Error::Refused).unwrap();
    }

    fn marks(stack: &mut Stack<'_>) -> Marks {
        stack.take_calls().map_or(0, |calls| calls.marks())
    }

    #[test]
    fn who_sleeps_on_one_is_called_once_and_for_that_one() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        happens(&mut stack, a);
        assert_eq!(marks(&mut stack), 0, "nobody sleeps");
        let (on_a, on_b) = (stack.sleep_on([a.into()], 1), stack.sleep_on([b.into()], 2));
        happens(&mut stack, a);
        let calls = stack.take_calls().unwrap();
        assert!(calls.marks() == 1 && calls.concern(&on_a) && !calls.concern(&on_b));
        happens(&mut stack, a);
        assert_eq!(marks(&mut stack), 0, "it is awake");
        happens(&mut stack, b);
        assert_eq!(marks(&mut stack), 2);
    }

    #[test]
    fn who_sleeps_on_several_is_called_for_each_of_them_and_who_sleeps_on_many_for_everything() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let all = sockets(&mut stack);
        let ids = |n: usize| all[..n].iter().map(|&id| SocketId::from(id)).collect::<Vec<_>>();
        let few = stack.sleep_on(ids(MOST), 1);
        assert_ne!(few, SleepsOn::ANYTHING);
        happens(&mut stack, all[MOST - 1]);
        assert!(stack.take_calls().is_some_and(|calls| calls.concern(&few)));
        happens(&mut stack, all[MOST]);
        assert_eq!(marks(&mut stack), 0);
        for many in [ids(MOST + 1), Vec::new()] {
            assert_eq!(stack.sleep_on(many, 4), SleepsOn::ANYTHING);
            happens(&mut stack, all[MOST + 1]);
            assert!(stack.take_calls().is_some_and(|calls| calls.marks() == 4 && calls.concern(&SleepsOn::ANYTHING)));
        }
        happens(&mut stack, all[MOST + 1]);
        assert_eq!(marks(&mut stack), 0);
    }

    #[test]
    fn who_sleeps_on_a_set_is_called_for_what_is_in_it() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        let (inner, outer) = (stack.set_create().unwrap(), stack.set_create().unwrap());
        stack.item_add(inner, a.into(), 0, Interest::edge(Ready::ERR), 7).unwrap();
        stack.item_add(outer, inner.into(), 0, Interest::level(Ready::IN), 8).unwrap();
        let sleeps = stack.sleep_on([outer.into()], 1);
        happens(&mut stack, b);
        assert_eq!(marks(&mut stack), 0);
        happens(&mut stack, a);
        assert!(stack.take_calls().is_some_and(|calls| calls.concern(&sleeps)));
    }

    #[test]
    fn who_sleeps_on_what_ends_is_called() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let [a, b, ..] = sockets(&mut stack);
        let sleeps = stack.sleep_on([a.into(), b.into()], 1);
        stack.udp_close(b).unwrap();
        assert!(stack.take_calls().is_some_and(|calls| calls.concern(&sleeps)));
        assert_eq!(stack.sleep_on([b.into()], 1), SleepsOn::ANYTHING, "it is no more");
        let sleeps = stack.sleep_on([a.into()], 1);
        stack.restart(&Config::default(), Instant::from_nanos(2));
        assert!(stack.take_calls().is_some_and(|calls| calls.concern(&sleeps)));
    }

    #[test]
    fn nobody_is_forgotten_when_much_happens_at_once() {
        let mut memory = memory();
        let mut stack = memory.stack();
        let all = sockets(&mut stack);
        let sleeps = all.map(|id| stack.sleep_on([id.into()], 1));
        all.into_iter().for_each(|id| happens(&mut stack, id));
        let calls = stack.take_calls().unwrap();
        assert!(sleeps.iter().all(|sleeps| calls.concern(sleeps)));
        assert_eq!(marks(&mut stack), 0);
        // Nor is anybody called for what happened before.
        stack.sleep_on([all[0].into()], 1);
        happens(&mut stack, all[0]);
        let calls = stack.take_calls().unwrap();
        assert!(calls.concern(&sleeps[0]) && !calls.concern(&sleeps[1]));
    }
}
