//! The real-time priority that the service has granted to this process (`[groups]` in its
//! settings).
//!
//! A thread takes it up when it first waits on the lane. From then on it runs as soon as what it
//! waits for is there, however busy other programs keep the processors. It sleeps at once, as all
//! real-time threads do (`wait::budget`). Threads that have a policy of their own keep it.

use crate::base::config::{Spin, settings};
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The priority, 0 if there is none.
static GRANTED: AtomicU32 = AtomicU32::new(0);
/// Whether the failure to get it has been logged.
static FAILED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The priority that the calling thread has taken up.
    static TAKEN_UP: Cell<u32> = const { Cell::new(0) };
}

/// The service grants it. A thread that polls for ever (`--spin always`) does not take it: it would
/// keep the kernel's own threads off its processor.
pub(crate) fn granted(priority: u32) {
    let settings = settings();
    if settings.realtime && settings.spin != Spin::Always && (1..=99).contains(&priority) {
        GRANTED.store(priority, Relaxed);
    }
}

/// Before an exec: the new program starts with the ordinary policy. A thread that has chosen
/// another meanwhile keeps it.
pub(crate) fn lay_down() {
    if TAKEN_UP.get() != 0 && sys::is_granted_real_time() && sys::become_ordinary().is_ok() {
        TAKEN_UP.set(0);
    }
}

/// In a forked child, which has an ordinary policy again and is notified of its own grant.
pub(crate) fn forget() {
    GRANTED.store(0, Relaxed);
    TAKEN_UP.set(0);
}

/// Before a wait: the calling thread has the priority from now on.
#[inline]
pub(crate) fn take_up() {
    let priority = GRANTED.load(Relaxed);
    if priority != TAKEN_UP.get() {
        raise(priority);
    }
}

#[cold]
fn raise(priority: u32) {
    TAKEN_UP.set(priority);
    if sys::is_ordinary()
        && let Err(error) = sys::become_real_time(priority)
        && !FAILED.swap(true, Relaxed)
    {
        sys::say(&format!(
            "threads do not get the real-time priority {priority} that the service grants: {}",
            std::io::Error::from_raw_os_error(error.0)
        ));
    }
}
