//! What a child is given of its parent's sockets: reserved before there is a child, so that nothing
//! closes before it has run its first instruction.

use crate::lane::{self, Access, Lane};
use crate::process::lane_processes;
use crate::socket::{leaving, open};
use crate::sys;
use crate::sys::errno::{Errno, Result};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tickwire_lane::control::Reason;

/// Stands in a slot for a child that is not born yet, with the number of the thread that is about
/// to make it. It never counts as a dead process. A thread makes one child at a time, so its mark
/// is on one slot at most.
const UNBORN: u64 = 1 << 32;

/// Why a child in another process namespace gets no share: neither side could see whether the other
/// lives. Threads of both may have the same number, which identifies the holder of the lane's lock.
pub(crate) const ELSEWHERE: Errno = Errno(libc::EXDEV);

/// Logs once that children do not get the sockets.
pub(crate) fn say_elsewhere() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        sys::say(
            "the program makes its children in another process namespace (unshare, setns): \
             sockets that it shares with other processes do not work in them, and they may open new ones",
        );
    }
}

/// Turns those sockets of this process into kernel sockets that a child inherits which cannot have
/// the lane: parent and child share the kernel socket then, as they would without a lane. Sockets
/// that other processes share stay as they are.
pub(crate) fn leave_to_kernel(lane: &'static Lane, inherited: impl Fn(c_int) -> bool) {
    leaving::each_to_kernel(lane, Reason::Elsewhere, inherited);
}

/// Before the calling thread makes a child that is to have everything this process has.
pub(crate) fn before_child() {
    if let Some(lane) = lane::current().filter(|_| open::any() && sys::children_are_elsewhere()) {
        leave_to_kernel(lane, |_| true);
    }
}

/// By how much the number of the process that forks is shifted in its mark.
const PARENT: u32 = 33;

/// How a child is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// With its parent's connection to the service, until it has its own: if that is closed and the
    /// child has not entered its number, there is no child.
    Fork,
    /// As a new program, which has no connection before it attaches, if it ever does. Only its
    /// parent knows of it before. If the parent is killed in this very moment, the share stays
    /// until the lane ends, because it may belong to a living program.
    Spawn,
}

/// Whether a slot is reserved for a process whose number is not known yet.
pub(crate) fn is_unborn(process: u64) -> bool {
    process & UNBORN != 0
}

/// Whether a slot is reserved for a child that this process was about to fork.
pub(crate) fn is_forked_by(process: u64, parent: u32) -> bool {
    // Zero stands for no parent: of a spawned program, and of a process that the service cannot
    // see.
    parent != 0 && is_unborn(process) && process >> PARENT == u64::from(parent)
}

/// The mark of the child of a process's thread.
fn mark(birth: Birth, parent: u32, thread: u32) -> u64 {
    let parent = if birth == Birth::Fork { u64::from(parent) } else { 0 };
    parent << PARENT | UNBORN | u64::from(thread)
}

/// The share of a child that the calling thread is about to make.
#[derive(Clone, Copy)]
pub(crate) struct ForkShare {
    lane: &'static Lane,
    slot: usize,
    mark: u64,
}

impl ForkShare {
    /// Takes a slot; `give` sets its bit in everything that the child is to hold.
    ///
    /// # Errors
    /// `ENOBUFS` if too many processes have the lane; [`ELSEWHERE`]; `ENETDOWN` if the lane has
    /// ended.
    pub(crate) fn take(lane: &'static Lane, birth: Birth, give: impl FnOnce(&mut Access<'_>, u64)) -> Result<Self> {
        if sys::children_are_elsewhere() {
            return Err(ELSEWHERE);
        }
        Self::marked(lane, mark(birth, sys::process(), sys::thread()), give)
    }

    fn marked(lane: &'static Lane, mark: u64, give: impl FnOnce(&mut Access<'_>, u64)) -> Result<Self> {
        let slot = lane.with(|access| {
            let slot = access.descriptions().take_process(mark).ok_or(Errno(libc::ENOBUFS))?;
            give(access, 1 << slot);
            Ok(slot)
        })?;
        lane.set_company(lane.company() + 1);
        Ok(Self { lane, slot, mark })
    }

    /// Its slot.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }

    /// Whether it is a share of this lane.
    pub(crate) fn is_of(&self, lane: &Lane) -> bool {
        core::ptr::eq(self.lane, lane)
    }

    /// In the parent: the child is this process, or could not be made. (It may have ended by now,
    /// and the slot may be another's. If the lane has ended meanwhile, the share does not matter.)
    pub(crate) fn settle(self, child: Option<u32>) {
        let Self { lane, slot, mark } = self;
        match child {
            Some(child) => lane_processes::enter_number(lane, slot, child, |process| process == mark),
            None => lane_processes::drop_process(lane, slot, mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fd::TABLE;
    use crate::testing;

    #[test]
    fn a_share_is_its_childs_only_until_another_has_the_slot() {
        let lane = testing::lane();
        let fd = testing::connected(7);
        let index = TABLE.get(fd).description().unwrap();
        let give = move |access: &mut Access<'_>, holder| *access.descriptions().get(index).holders() |= holder;
        let process = |slot| lane.with(|access| Ok(*access.descriptions().process(slot))).unwrap();
        let holders = || lane.with(|access| Ok(access.descriptions().get(index).holders().count_ones())).unwrap();

        let failed = ForkShare::take(lane, Birth::Fork, give).unwrap();
        assert!(is_unborn(process(failed.slot)) && holders() == 2);
        failed.settle(None);
        assert_eq!((process(failed.slot), holders()), (0, 1));

        // Its child has started and ended before the parent learned its number, and another thread
        // makes one.
        let late = ForkShare::take(lane, Birth::Fork, give).unwrap();
        lane_processes::enter_number(lane, late.slot, 1, is_unborn);
        lane_processes::drop_process(lane, late.slot, 1);
        let next = std::thread::spawn(move || ForkShare::take(lane, Birth::Fork, give).unwrap()).join().unwrap();
        assert_eq!(next.slot, late.slot);
        late.settle(Some(1));
        assert_eq!(process(next.slot), next.mark);
        late.settle(None);
        assert_eq!((process(next.slot), holders()), (next.mark, 2));
        next.settle(None);
        testing::close(fd);
    }

    #[test]
    fn what_was_set_aside_for_a_fork_goes_with_its_parent() {
        const KILLED: u32 = i32::MAX as u32;
        let lane = testing::lane();
        let fd = testing::connected(7);
        let index = TABLE.get(fd).description().unwrap();
        let take = |birth| {
            let give = |access: &mut Access<'_>, holder| *access.descriptions().get(index).holders() |= holder;
            ForkShare::marked(lane, mark(birth, KILLED, 7), give).unwrap()
        };
        let has = |share: ForkShare| {
            let look = |access: &mut crate::lane::Access<'_>| {
                let mut descriptions = access.descriptions();
                let holds = *descriptions.get(index).holders() & 1 << share.slot != 0;
                Ok((*descriptions.process(share.slot) == share.mark, holds))
            };
            lane.with(look).unwrap()
        };
        let (forked, spawned) = (take(Birth::Fork), take(Birth::Spawn));
        lane_processes::gone(lane, KILLED - 1);
        assert_eq!((has(forked), has(spawned)), ((true, true), (true, true)), "another's");
        lane_processes::gone(lane, KILLED);
        assert_eq!((has(forked), has(spawned)), ((false, false), (true, true)), "a new program may yet attach");
        spawned.settle(None);
        assert_eq!(has(spawned), (false, false));
        testing::close(fd);
    }
}
