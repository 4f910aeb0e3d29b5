//! `pthread_cancel` and threads that are in a call of this library.
//!
//! The C library ends a cancelled thread by unwinding from the system call that it sleeps in. That
//! must not happen inside the lane, and cannot pass through a function that catches panics. So the
//! lane's own system calls are no cancellation points. A thread that sleeps there is woken instead,
//! and its call ends. At the boundary, where no lock is held, it is cancelled as in any other call.
//! Threads that may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`) have
//! cancellation disabled during a call of this library.

use super::export;
use crate::lane;
use crate::sys::cancellation;
use crate::sys::real;
use core::ffi::c_int;
use libc::pthread_t;

/// Wakes the threads that sleep in a call of ours: one of them has been cancelled.
fn wake_all() {
    if let Some(lane) = lane::current() {
        crate::sys::ring(lane.descriptors().1);
    }
}

export! {
    /// `pthread_cancel(3)`.
    fn pthread_cancel(thread: pthread_t) -> c_int {
        // Before the call, because the thread, and its name with it, may be gone afterwards.
        let number = cancellation::number_of(thread);
        // SAFETY: the program's argument is passed on unchanged. (A thread that cancels itself ends
        // at its next call.)
        let done = unsafe { real::pthread_cancel(thread) };
        if done == 0 && let Some(number) = number {
            cancellation::mark(number);
            wake_all();
        }
        done
    }

    /// `pthread_setcanceltype(3)`.
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
        cancellation::note_type(kind);
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { real::pthread_setcanceltype(kind, before) }
    }
}
