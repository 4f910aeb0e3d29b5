//! Threads that were cancelled (`pthread_cancel`), and whether the calling thread may be.
//! `exports::cancel` has the idea.

use crate::sys;
use crate::sys::errno::{CANCELLED, Result};
use crate::sys::real;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use libc::pthread_t;
use std::cell::Cell;

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
        core::iter::successors(Some(self), |marked| sys::leaked(&marked.more)).flat_map(|marked| &marked.places)
    }

    fn enter(&'static self, thread: u32) {
        while !self.all().any(|place| place.compare_exchange(0, thread, SeqCst, Relaxed).is_ok()) {
            let last = core::iter::successors(Some(self), |marked| sys::leaked(&marked.more)).last().unwrap_or(self);
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
            if thread != 0 && !sys::thread_lives(thread) {
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
pub(crate) fn begin() -> Option<c_int> {
    ASYNCHRONOUSLY.load(Relaxed).then(|| {
        let before = set_state(DISABLE);
        BEFORE.set(before);
        before
    })
}

/// After the call: restores the state that [`begin`] returned. The thread may end here.
#[inline]
pub(crate) fn end(before: Option<c_int>) {
    if let Some(before) = before {
        set_state(before);
    }
}

/// Sets the thread's state and returns the previous one.
fn set_state(state: c_int) -> c_int {
    let mut before = ENABLE;
    // SAFETY: a valid place.
    unsafe { real::pthread_setcancelstate(state, &raw mut before) };
    before
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
    let this = sys::thread();
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
pub(crate) fn act() {
    let this = sys::thread();
    MARKED.all().for_each(|place| Marked::leave(place, this));
    // SAFETY: no arguments; the frames up to the program's have nothing to drop.
    unsafe { pthread_testcancel() };
}

/// The kernel's number of a thread, computed from its CPU-time clock (`CPUCLOCK_PID` in Linux's
/// `posix-timers.h`).
pub(crate) fn number_of(thread: pthread_t) -> Option<u32> {
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

/// A thread has been cancelled.
pub(crate) fn mark(thread: u32) {
    MARKED.forget_dead();
    if MARKED.all().all(|place| place.load(SeqCst) != thread) {
        MARKED.enter(thread);
    }
}

/// The calling thread sets how it may be cancelled.
pub(crate) fn note_type(kind: c_int) {
    if kind == ASYNCHRONOUS {
        ASYNCHRONOUSLY.store(true, SeqCst);
    }
}

/// Disables cancellation of the calling thread; returns its previous state.
pub(crate) fn disable() -> c_int {
    set_state(DISABLE)
}

/// Sets the state that [`disable`] returned.
pub(crate) fn restore(state: c_int) {
    set_state(state);
}
