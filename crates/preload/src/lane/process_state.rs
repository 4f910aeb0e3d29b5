//! Which lane is this process's, and other state of this process alone.

use crate::lane::Lane;
use crate::lane::observer::observer;
use crate::sys;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

/// On a separate page, which the kernel clears in every child. So a child whose creation the
/// library did not see (made by a direct system call) has no lane. It cannot close its parent's
/// sockets or take the lock in its parent's name, and it does not wait for a thread that only its
/// parent has.
#[repr(align(4096))]
struct ProcessState {
    lane: AtomicPtr<Lane>,
    /// See `teardown`.
    ending: AtomicU32,
    /// The library has seen this process start.
    known: AtomicBool,
    /// Its process number, 0 if that has not been read since it started.
    process: AtomicU32,
}
static HERE: ProcessState = ProcessState {
    lane: AtomicPtr::new(core::ptr::null_mut()),
    ending: AtomicU32::new(0),
    known: AtomicBool::new(false),
    process: AtomicU32::new(0),
};
/// The lane, in memory that a child inherits.
static INHERITED: AtomicPtr<Lane> = AtomicPtr::new(core::ptr::null_mut());
/// The page is cleared in children.
static EMPTIED: AtomicBool = AtomicBool::new(false);

/// The lane of this process, if it has a live one.
#[inline]
pub(crate) fn current() -> Option<&'static Lane> {
    sys::leaked(&HERE.lane)
}

/// The number of this process, or of one that shares its memory.
#[inline]
pub(crate) fn process() -> u32 {
    let known = HERE.process.load(Relaxed);
    if known != 0 {
        return known;
    }
    let process = sys::process();
    if EMPTIED.load(Relaxed) {
        HERE.process.store(process, Relaxed);
    }
    process
}

/// The thread that ends a lane of this process, 0 if none does.
pub(super) fn ending() -> &'static AtomicU32 {
    &HERE.ending
}

/// Whether this process is a child whose creation the library did not see. It has none of its
/// parent's threads, so a lock of the library may be held for ever.
pub(crate) fn is_stray() -> bool {
    EMPTIED.load(Relaxed) && !HERE.known.load(Relaxed)
}

/// In a child that knows that it is one, and before whose fork no thread held a lock.
pub(crate) fn heard_of() {
    HERE.known.store(true, Relaxed);
}

/// Makes `lane` the one of this process, for good or until it ends.
pub(crate) fn install(lane: Lane) -> &'static Lane {
    let lane = Box::leak(Box::new(lane));
    (observer().begins)(lane);
    sys::wipe_in_children(&HERE);
    heard_of();
    EMPTIED.store(true, Relaxed);
    INHERITED.store(lane, Release);
    HERE.lane.store(lane, Release);
    lane
}

/// In a child that knows that it is one: its parent's lane becomes its own, until the child gives
/// it up.
pub(crate) fn inherit() -> Option<&'static Lane> {
    let lane = sys::leaked(&INHERITED)?;
    HERE.lane.store(core::ptr::from_ref(lane).cast_mut(), Release);
    Some(lane)
}

/// In a process that has no share in its parent's lane: it is not this process's any more. Nothing
/// is reported.
pub(crate) fn disinherit() {
    if let Some(lane) = sys::leaked(&INHERITED) {
        lane.forsake();
    }
}

/// It is not this process's any more.
pub(super) fn uninstall(lane: &Lane) {
    let this = core::ptr::from_ref(lane).cast_mut();
    for place in [&INHERITED, &HERE.lane] {
        let _ = place.compare_exchange(this, core::ptr::null_mut(), AcqRel, Relaxed);
    }
}
