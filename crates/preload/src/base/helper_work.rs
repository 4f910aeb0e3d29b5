//! Whether the helper thread is at work. A fork waits until it sleeps, and so does a thread that
//! needs what the helper has begun.

use crate::base::locked::{Lock, Locked};
use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Held by a helper whenever it does not sleep. Most of its work allocates or frees heap memory.
static WORK: Lock<()> = Lock::new(());
/// Not 0 while a helper has been requested that does not hold [`WORK`] yet.
static UNBORN: AtomicU32 = AtomicU32::new(0);

/// Waits until the helper sleeps, and keeps it asleep for as long as the returned guard lives.
///
/// The child of a fork that the C library does not prepare (`_Fork`) finds the heap as it was. What
/// another thread of the parent was changing stays locked for ever. By POSIX such a child must not
/// allocate, but ours has to, to continue with the lane, and a single-threaded program does not
/// know that there is another thread.
pub(crate) fn asleep() -> Locked<'static, ()> {
    loop {
        let work = WORK.lock();
        if UNBORN.load(Acquire) == 0 {
            return work;
        }
        drop(work);
        sys::wait_while(&UNBORN, 1);
    }
}

/// The helper, which calls this, is at work for as long as the returned guard lives.
pub(crate) fn begin() -> Locked<'static, ()> {
    WORK.lock()
}

/// A helper is about to be started.
pub(crate) fn is_requested() {
    UNBORN.store(1, Release);
}

/// The helper that was requested is at work, or will not be.
pub(crate) fn is_there() {
    UNBORN.store(0, Release);
    sys::wake_all(&UNBORN);
}

/// In a forked child, which has no helper.
pub(crate) fn forget() {
    UNBORN.store(0, Relaxed);
}

/// Whether a helper could begin to work now.
#[cfg(test)]
pub(crate) fn may_begin() -> bool {
    WORK.try_lock().is_some()
}
