//! The helper thread's wakeup eventfd. Any module that has work for the helper signals it.

use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// An eventfd.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// The eventfd, -1 if there is none.
pub(crate) fn descriptor() -> c_int {
    BELL.load(Relaxed)
}

/// Installs another eventfd (-1: none) and returns the previous one.
pub(crate) fn replace(fd: c_int) -> c_int {
    BELL.swap(fd, Relaxed)
}

/// Wakes the helper thread.
pub(crate) fn ring() {
    let fd = descriptor();
    if fd >= 0 {
        sys::ring(fd);
    }
}
