//! `pthread_cancel` and threads that are in a call of ours.
//!
//! The C library ends a cancelled thread by unwinding from the system call that it sleeps in. That must not happen in the midst of the
//! lane, and cannot pass through a function that catches panics. So the lane's own system calls are none at which a thread can be
//! cancelled; a thread that sleeps there is woken instead, its call ends, and at the edge, where nothing is held, it is cancelled as by
//! any other call. Threads that may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`) cannot be within a call of ours.

use super::{export, real};
use crate::errno::{Errno, Result};
use crate::lane;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use libc::pthread_t;
use std::cell::Cell;

/// The calling thread has been cancelled: what a wait answers, so that the call ends. Never an error number of the system.
pub(crate) const CANCELLED: Errno = Errno(-4);

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const ASYNCHRONOUS: c_int = 1;

/// Threads that were cancelled and have not been seen to act on it; 0 is an empty place.
static MARKED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// How many of these places are taken, roughly: at 0 there is nothing to look for.
static MARKS: AtomicU32 = AtomicU32::new(0);
/// Whether any thread of the program may be cancelled at any instruction.
static ASYNCHRONOUSLY: AtomicBool = AtomicBool::new(false);

fn this() -> pthread_t {
    // SAFETY: asks for the thread's own name.
    unsafe { libc::pthread_self() }
}

thread_local! {
    /// The thread's state before the call of ours that it is in, if that had to change it.
    static BEFORE: Cell<c_int> = const { Cell::new(ENABLE) };
}

/// Before a call of ours: the thread's state if it had to be changed.
#[inline]
pub(super) fn begin() -> Option<c_int> {
    ASYNCHRONOUSLY.load(Relaxed).then(|| {
        let before = set_state(DISABLE);
        BEFORE.set(before);
        before
    })
}

/// After it: the state that [`begin`] gave. The thread may end here.
#[inline]
pub(super) fn end(before: Option<c_int>) {
    if let Some(before) = before {
        set_state(before);
    }
}

fn set_state(state: c_int) -> c_int {
    let mut before = ENABLE;
    // SAFETY: a valid place.
    unsafe { real::pthread_setcancelstate(state, &raw mut before) };
    before
}

/// Keeps the thread from being cancelled while it lives: for requests to the service, which pass through the C library.
pub(crate) struct Shield(c_int);

impl Shield {
    /// Puts it up.
    pub(crate) fn new() -> Self {
        Self(set_state(DISABLE))
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // A thread that may be cancelled at any instruction has its state changed at the edge already, and stays as it is.
        set_state(self.0);
    }
}

/// Looks whether the calling thread has been cancelled.
///
/// # Errors
/// [`CANCELLED`].
#[inline]
pub(crate) fn check() -> Result<()> {
    if MARKS.load(Relaxed) == 0 { Ok(()) } else { look() }
}

#[cold]
fn look() -> Result<()> {
    if MARKED.iter().all(|place| place.load(SeqCst) != this()) {
        return Ok(());
    }
    // It counts only for a thread that can be cancelled at present.
    let state = if ASYNCHRONOUSLY.load(Relaxed) {
        BEFORE.get()
    } else {
        let state = set_state(DISABLE);
        set_state(state);
        state
    };
    if state == ENABLE { Err(CANCELLED) } else { Ok(()) }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Ends the calling thread, if it was cancelled.
#[cold]
pub(super) fn act() {
    for place in &MARKED {
        if place.compare_exchange(this(), 0, SeqCst, Relaxed).is_ok() {
            MARKS.fetch_sub(1, SeqCst);
        }
    }
    // SAFETY: no arguments; the frames up to the program's have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// A thread has been cancelled: it is woken, if it sleeps in a call of ours.
fn mark(thread: pthread_t) {
    let free = MARKED.iter().find(|place| place.compare_exchange(0, thread, SeqCst, Relaxed).is_ok());
    if free.is_some() {
        MARKS.fetch_add(1, SeqCst);
    }
    if let Some(lane) = lane::current() {
        super::sys::ring(lane.descriptors().1);
    }
}

export! {
    /// `pthread_cancel(3)`.
    fn pthread_cancel(thread: pthread_t) -> c_int {
        // SAFETY: the program's argument goes on unchanged. (A thread that cancels itself ends at its next call.)
        let done = unsafe { real::pthread_cancel(thread) };
        if done == 0 && lane::current().is_some() {
            mark(thread);
        }
        done
    }

    /// `pthread_setcanceltype(3)`.
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
        if kind == ASYNCHRONOUS {
            ASYNCHRONOUSLY.store(true, SeqCst);
        }
        // SAFETY: the program's arguments go on unchanged.
        unsafe { real::pthread_setcanceltype(kind, before) }
    }
}
