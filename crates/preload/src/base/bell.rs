//! The helper thread's bell: whoever has something for it to do rings, whatever room he is in.

use crate::c::sys;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// An eventfd.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// Its descriptor, -1 if there is none.
pub(crate) fn descriptor() -> c_int {
    BELL.load(Relaxed)
}

/// Hangs up another (-1: none), and gives back the one before.
pub(crate) fn replace(fd: c_int) -> c_int {
    BELL.swap(fd, Relaxed)
}

/// Makes the helper look around.
pub(crate) fn ring() {
    let fd = descriptor();
    if fd >= 0 {
        sys::ring(fd);
    }
}
