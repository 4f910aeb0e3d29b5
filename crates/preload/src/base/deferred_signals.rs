//! Signals that are put off while the calling thread is inside the lane or holds a lock of the
//! library. `exports::signal` puts them off; whatever ends such a time delivers them.

use crate::base::{locked, reentrancy};
use crate::sys;
use core::ffi::c_int;
use std::cell::Cell;

thread_local! {
    /// Deferred signals, a bit each.
    static PUT_OFF: Cell<u64> = const { Cell::new(0) };
    /// How many handlers have run in this thread.
    static RAN: Cell<u32> = const { Cell::new(0) };
}

/// How many handlers have run in this thread.
pub(crate) fn ran() -> u32 {
    RAN.get()
}

/// A handler of the program runs in this thread.
pub(crate) fn count_handler() {
    RAN.set(RAN.get().wrapping_add(1));
}

/// Whether signals of the calling thread are to be put off.
pub(crate) fn are_to_wait() -> bool {
    reentrancy::is_inside() || locked::any()
}

/// A signal of the calling thread is blocked, and pending until it is delivered.
pub(crate) fn put_off(signal: c_int) {
    PUT_OFF.set(PUT_OFF.get() | 1 << (signal - 1));
    if reentrancy::is_inside() {
        reentrancy::signal_put_off();
    }
}

/// Delivers the deferred signals, unless it is still too early. Their handlers run before this
/// returns, if it does.
#[cold]
pub(crate) fn deliver() {
    if !are_to_wait() {
        sys::unblock_signals(PUT_OFF.replace(0));
    }
}

/// As [`deliver`], if there are any.
#[inline]
pub(crate) fn deliver_any() {
    if PUT_OFF.get() != 0 {
        deliver();
    }
}

/// Whether any are pending for the calling thread.
pub(crate) fn is_put_off() -> bool {
    PUT_OFF.get() != 0
}
