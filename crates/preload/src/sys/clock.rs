//! Time.

use core::mem::MaybeUninit;
use libc::timespec;
use tickwire_stack::time::{Instant, Span};

/// The time of `CLOCK_MONOTONIC`, without a system call on the usual hosts.
#[inline]
pub(crate) fn now() -> Instant {
    let mut at = MaybeUninit::<timespec>::uninit();
    // SAFETY: a valid place; this clock always exists, so it is filled in.
    let at = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, at.as_mut_ptr());
        at.assume_init()
    };
    Instant::from_nanos(at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64)
}

/// A span in the kernel's format.
pub(crate) fn timespec(span: Span) -> timespec {
    let ns = span.as_nanos();
    timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}
