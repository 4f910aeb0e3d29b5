//! Waiting in the kernel, and waking waiters: futexes, `ppoll`, eventfds.

use super::{KERNEL_SIGNALS, called, check};
use crate::sys::errno::{Errno, Result};
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use libc::{pollfd, sigset_t, timespec};
use tickwire_stack::time::Span;

/// Waits while a word has this value: until it is changed and [`wake_all`] called, or a signal
/// handler has run.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call; no time.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), how, value, core::ptr::null::<timespec>()) };
}

/// Wakes all threads that wait for a word to change.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is only compared with others' addresses.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, c_int::MAX) };
}

/// An empty entry of a descriptor list.
pub(crate) const NO_FD: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

/// An entry that waits for `fd` to become readable.
pub(crate) fn readable(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// `ppoll` on a list of our own; `None` waits without end.
pub(crate) fn ppoll(fds: &mut [pollfd], timeout: Option<Span>, mask: Option<&sigset_t>) -> Result<usize> {
    // The kernel writes the remaining time back, which is not used.
    let mut timeout = timeout.map(super::timespec);
    let (timeout, mask) = (
        timeout.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut),
        mask.map_or(core::ptr::null(), core::ptr::from_ref),
    );
    // SAFETY: the slice is as long as said, the others null or valid.
    called(unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), timeout, mask, KERNEL_SIGNALS) })
}

/// Signals a doorbell (an eventfd).
pub(crate) fn ring(doorbell: c_int) {
    let one = 1u64;
    // SAFETY: eight bytes of our own.
    unsafe { libc::syscall(libc::SYS_write, doorbell, &raw const one, 8usize) };
}

/// Makes an epoll instance that watches this doorbell, edge-triggered, readable once, as if only
/// this instance had seen a signal. It watches nothing else. `EPOLL_CTL_MOD` reports current
/// readiness again, and a doorbell is always writable. Nothing happens if the number is no instance
/// any more.
pub(crate) fn ring_one(instance: c_int, doorbell: c_int) {
    const EDGES: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
    match super::epoll_ctl(instance, libc::EPOLL_CTL_MOD, doorbell, EDGES, 0) {
        Ok(_) | Err(Errno(libc::EBADF | libc::ENOENT | libc::EINVAL)) => {}
        // The program's filter may forbid this call.
        Err(_) => ring(doorbell),
    }
}

/// A new eventfd that does not block.
pub(crate) fn eventfd() -> Result<c_int> {
    // SAFETY: plain numbers.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Resets the count of an eventfd.
pub(crate) fn drain(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: eight bytes of our own.
    unsafe { libc::syscall(libc::SYS_read, fd, &raw mut count, 8usize) };
}
