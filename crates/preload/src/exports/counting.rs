//! For tests: counts the allocations and frees of a thread. Functions that are allowed in signal
//! handlers must do neither.

use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static COUNT: Cell<Option<u32>> = const { Cell::new(None) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get().map(|n| n + 1)));
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// How often the calling thread uses the allocator in `call`.
pub(crate) fn uses(call: impl FnOnce()) -> u32 {
    COUNT.set(Some(0));
    call();
    COUNT.take().unwrap_or(0)
}

/// Runs something without counting it: work of the test itself.
pub(crate) fn apart<T>(call: impl FnOnce() -> T) -> T {
    let before = COUNT.take();
    let answer = call();
    COUNT.set(before);
    answer
}
