//! A word for each thread, that is zero at first.
//!
//! Rust's `thread_local!` allocates here: its slot is taken, and its value is boxed, at the first
//! use on a thread. This word costs neither, and reading it leaves the last error alone.

use super::last_error;
use std::io;
use std::ptr::without_provenance;
use std::sync::atomic::{AtomicU32, Ordering};
use windows_sys::Win32::System::Threading::{TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree, TlsGetValue, TlsSetValue};

/// A slot, which is allocated once for the process. Threads that existed before have it too.
#[derive(Debug)]
pub(super) struct TlsSlot(AtomicU32);

impl TlsSlot {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(TLS_OUT_OF_INDEXES))
    }

    /// Allocates the slot, if that has not been done.
    ///
    /// # Errors
    /// If the process has used up its slots.
    pub(super) fn allocate(&self) -> io::Result<()> {
        if self.index().is_some() {
            return Ok(());
        }
        // SAFETY: no memory is passed.
        let index = unsafe { TlsAlloc() };
        if index == TLS_OUT_OF_INDEXES {
            return Err(io::Error::last_os_error());
        }
        if self.0.compare_exchange(TLS_OUT_OF_INDEXES, index, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was first. SAFETY: this index is known to nothing else.
            unsafe { TlsFree(index) };
        }
        Ok(())
    }

    /// The calling thread's word; 0 as long as there is no slot.
    #[inline]
    pub(super) fn get(&self) -> usize {
        let Some(index) = self.index() else { return 0 };
        // `TlsGetValue` clears the last error.
        let before = last_error::get();
        // SAFETY: an index that was allocated and is never freed.
        let value = unsafe { TlsGetValue(index) };
        last_error::set(before);
        value.addr()
    }

    /// Sets the calling thread's word. Without a slot, or if Windows has no memory for it, the word
    /// stays what it is. Returns whether it was set.
    pub(super) fn set(&self, value: usize) -> bool {
        let Some(index) = self.index() else { return false };
        let before = last_error::get();
        // SAFETY: an index that was allocated and is never freed; the value is only a number.
        let is_set = unsafe { TlsSetValue(index, without_provenance(value)) } != 0;
        last_error::set(before);
        is_set
    }

    #[inline]
    fn index(&self) -> Option<u32> {
        match self.0.load(Ordering::Acquire) {
            TLS_OUT_OF_INDEXES => None,
            index => Some(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn each_thread_has_a_word_of_its_own_even_if_it_is_older_than_the_slot() {
        static SLOT: TlsSlot = TlsSlot::new();
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let older = scope.spawn(|| {
                assert_eq!(SLOT.get(), 0);
                assert!(!SLOT.set(1));
                barrier.wait();
                barrier.wait();
                assert_eq!(SLOT.get(), 0);
                assert!(SLOT.set(2));
                SLOT.get()
            });
            barrier.wait();
            SLOT.allocate().unwrap();
            SLOT.allocate().unwrap();
            assert!(SLOT.set(7));
            barrier.wait();
            assert_eq!(older.join().unwrap(), 2);
            assert_eq!(SLOT.get(), 7);
        });
    }

    #[test]
    fn the_last_error_is_left_alone() {
        static SLOT: TlsSlot = TlsSlot::new();
        SLOT.allocate().unwrap();
        last_error::set(5);
        SLOT.set(1);
        assert_eq!((SLOT.get(), last_error::get()), (1, 5));
    }
}
