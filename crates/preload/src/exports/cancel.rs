//! `pthread_cancel` and threads that are in a call of this library.
//!
//! The C library ends a cancelled thread by unwinding from the system call that it sleeps in. That
//! must not happen inside the lane, and cannot pass through a function that catches panics. So the
//! lane's own system calls are no cancellation points. A thread that sleeps there is woken instead,
//! and its call ends. At the boundary, where no lock is held, it is cancelled as in any other call.
//! Threads that may be cancelled at any instruction (`PTHREAD_CANCEL_ASYNCHRONOUS`) have
//! cancellation disabled during a call of this library.

use super::export;
use crate::base::locked::Holding;
use crate::lane;
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use libc::pthread_t;
use std::cell::Cell;

/// The calling thread has been cancelled: a wait returns this, so that the call ends. Never an
/// error number of the system.
pub(crate) const CANCELLED: Errno = Errno(-4);

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const ASYNCHRONOUS: c_int = 1;

/// Threads that were cancelled and have not been seen to act on it, by the kernel's numbers; 0 is a
/// free slot. No lock: fork, or a thread that holds a lock of the C library, must not wait for it.
struct Marked {
    places: [AtomicU32; 64],
    /// The next block, never freed: as many as there ever were threads in this state at a time.
    more: AtomicPtr<Marked>,
}

static MARKED: Marked = Marked::new();
/// How many of these slots are taken, roughly: at 0 there is nothing to check.
static MARKS: AtomicU32 = AtomicU32::new(0);
/// Whether any thread of the program may be cancelled at any instruction.
static ASYNCHRONOUSLY: AtomicBool = AtomicBool::new(false);

impl Marked {
    const fn new() -> Self {
        Self { places: [const { AtomicU32::new(0) }; 64], more: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn all(&'static self) -> impl Iterator<Item = &'static AtomicU32> {
        core::iter::successors(Some(self), |marked| crate::sys::leaked(&marked.more)).flat_map(|marked| &marked.places)
    }

    fn enter(&'static self, thread: u32) {
        while !self.all().any(|place| place.compare_exchange(0, thread, SeqCst, Relaxed).is_ok()) {
            let last =
                core::iter::successors(Some(self), |marked| crate::sys::leaked(&marked.more)).last().unwrap_or(self);
            let new = Box::into_raw(Box::new(Self::new()));
            if last.more.compare_exchange(core::ptr::null_mut(), new, SeqCst, Relaxed).is_err() {
                // SAFETY: made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
        MARKS.fetch_add(1, SeqCst);
    }

    fn leave(place: &AtomicU32, thread: u32) {
        if place.compare_exchange(thread, 0, SeqCst, Relaxed).is_ok() {
            MARKS.fetch_sub(1, SeqCst);
        }
    }

    /// Removes threads that have ended elsewhere: their numbers will be reused.
    fn forget_dead(&'static self) {
        for place in self.all() {
            let thread = place.load(SeqCst);
            if thread != 0 && !crate::sys::thread_lives(thread) {
                Self::leave(place, thread);
            }
        }
    }
}

thread_local! {
    /// The thread's state before its current call of this library, if that had to change it.
    static BEFORE: Cell<c_int> = const { Cell::new(ENABLE) };
}

/// Before a call of this library: the thread's state if it had to be changed.
#[inline]
pub(super) fn begin() -> Option<c_int> {
    ASYNCHRONOUSLY.load(Relaxed).then(|| {
        let before = set_state(DISABLE);
        BEFORE.set(before);
        before
    })
}

/// After the call: restores the state that [`begin`] returned. The thread may end here.
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

/// Keeps the thread from being cancelled while it lives: for requests to the service, which pass
/// through the C library. A handler that jumped away meanwhile would leave cancellation disabled,
/// so signals are deferred.
pub(crate) struct Shield {
    before: c_int,
    // Dropped after the state has been put back.
    _holding: Holding,
}

impl Shield {
    /// Disables cancellation.
    pub(crate) fn new() -> Self {
        let holding = Holding::new();
        Self { before: set_state(DISABLE), _holding: holding }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // A thread that may be cancelled at any instruction has its state changed at the boundary
        // already, and that stays.
        set_state(self.before);
    }
}

/// Checks whether the calling thread has been cancelled.
///
/// # Errors
/// [`CANCELLED`].
#[inline]
pub(crate) fn check() -> Result<()> {
    if MARKS.load(Relaxed) == 0 { Ok(()) } else { look() }
}

#[cold]
fn look() -> Result<()> {
    MARKED.forget_dead();
    let this = crate::sys::thread();
    if MARKED.all().all(|place| place.load(SeqCst) != this) {
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
    let this = crate::sys::thread();
    MARKED.all().for_each(|place| Marked::leave(place, this));
    // SAFETY: no arguments; the frames up to the program's have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// The kernel's number of a thread, computed from its CPU-time clock (`CPUCLOCK_PID` in Linux's
/// `posix-timers.h`).
fn number_of(thread: pthread_t) -> Option<u32> {
    let mut clock = 0;
    // SAFETY: the program's argument, and a valid place.
    let done = unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) };
    (done == 0).then_some(!(clock >> 3) as u32)
}

/// In a forked child, which has none of its parent's other threads, and whose only thread has a new
/// number.
pub(crate) fn forget() {
    MARKED.all().for_each(|place| place.store(0, SeqCst));
    MARKS.store(0, SeqCst);
}

/// A thread has been cancelled: it is woken, if it sleeps in a call of ours.
fn mark(thread: u32) {
    MARKED.forget_dead();
    if MARKED.all().all(|place| place.load(SeqCst) != thread) {
        MARKED.enter(thread);
    }
    if let Some(lane) = lane::current() {
        crate::sys::ring(lane.descriptors().1);
    }
}

export! {
    /// `pthread_cancel(3)`.
    fn pthread_cancel(thread: pthread_t) -> c_int {
        // Before the call, because the thread, and its name with it, may be gone afterwards.
        let number = number_of(thread);
        // SAFETY: the program's argument is passed on unchanged. (A thread that cancels itself ends
        // at its next call.)
        let done = unsafe { real::pthread_cancel(thread) };
        if done == 0 && let Some(number) = number {
            mark(number);
        }
        done
    }

    /// `pthread_setcanceltype(3)`.
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
        if kind == ASYNCHRONOUS {
            ASYNCHRONOUSLY.store(true, SeqCst);
        }
        // SAFETY: the program's arguments are passed on unchanged.
        unsafe { real::pthread_setcanceltype(kind, before) }
    }
}
