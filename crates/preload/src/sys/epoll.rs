//! The kernel's epoll instances.

use super::{KERNEL_SIGNALS, called, check};
use crate::sys::errno::Result;
use crate::sys::real;
use core::ffi::c_int;
use libc::{epoll_event, sigset_t};

/// A new epoll instance.
pub(crate) fn epoll_create(flags: c_int) -> Result<c_int> {
    // SAFETY: a plain number.
    check(unsafe { real::epoll_create1(flags) })
}

/// Changes a kernel epoll instance.
pub(crate) fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, events: u32, data: u64) -> Result<()> {
    let mut event = epoll_event { events, u64: data };
    // SAFETY: the event is ours.
    check(unsafe { real::epoll_ctl(epfd, op, fd, &raw mut event) }).map(drop)
}

/// The ready events of a kernel epoll instance.
pub(crate) fn epoll_take(epfd: c_int, events: &mut [epoll_event]) -> Result<usize> {
    if events.is_empty() {
        return Ok(0);
    }
    let no_mask = core::ptr::null::<sigset_t>();
    // SAFETY: the slice is as long as said.
    called(unsafe {
        libc::syscall(libc::SYS_epoll_pwait, epfd, events.as_mut_ptr(), events.len(), 0, no_mask, KERNEL_SIGNALS)
    })
}
