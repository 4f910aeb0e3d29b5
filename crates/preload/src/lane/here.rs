//! Which lane is this process's.

use crate::c::{shared, sys};
use crate::lane::Lane;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// The lane of this process, on a page of its own, which the kernel empties in every child. So a child of which we did not hear (made by a direct
/// system call) has no lane, and cannot close its parent's sockets or take the lock in its parent's name.
#[repr(align(4096))]
struct Wiped(AtomicPtr<Lane>);
static CURRENT: Wiped = Wiped(AtomicPtr::new(core::ptr::null_mut()));
/// The same, in memory that a child inherits.
static INHERITED: AtomicPtr<Lane> = AtomicPtr::new(core::ptr::null_mut());

/// The lane of this process, if it has one that lives.
#[inline]
pub(crate) fn current() -> Option<&'static Lane> {
    shared::leaked(&CURRENT.0)
}

/// The lane of the process of which this one is a child without a lane, until it is forgotten.
pub(crate) fn of_parent() -> Option<&'static Lane> {
    if current().is_some() { None } else { shared::leaked(&INHERITED) }
}

/// Makes `lane` the one of this process, for good or until it ends.
pub(crate) fn install(lane: Lane) -> &'static Lane {
    let lane = Box::leak(Box::new(lane));
    crate::socket::pending::make_room(lane.handover().limits.tcp);
    sys::wipe_in_children(&CURRENT);
    INHERITED.store(lane, Release);
    CURRENT.0.store(lane, Release);
    lane
}

/// In a child that knows that it is one: its parent's lane, which is its own from now on, until it forgets it.
pub(crate) fn inherit() -> Option<&'static Lane> {
    let lane = shared::leaked(&INHERITED)?;
    CURRENT.0.store(core::ptr::from_ref(lane).cast_mut(), Release);
    Some(lane)
}

/// It is this process's no more.
pub(super) fn uninstall(lane: &Lane) {
    let this = core::ptr::from_ref(lane).cast_mut();
    for place in [&INHERITED, &CURRENT.0] {
        let _ = place.compare_exchange(this, core::ptr::null_mut(), AcqRel, Relaxed);
    }
}
