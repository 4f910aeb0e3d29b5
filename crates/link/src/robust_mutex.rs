//! A process-shared mutex of the C library that reports its holder's death: a lane's lock and its
//! stream turn consist of one each.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The mutex as it lies in the region.
#[repr(transparent)]
pub(crate) struct RobustMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a process-shared mutex is made to be used by many threads at a time.
unsafe impl Sync for RobustMutex {}

impl RobustMutex {
    /// Prepares the mutex in place. `protocol`: `PTHREAD_PRIO_NONE` or `PTHREAD_PRIO_INHERIT`.
    ///
    /// # Safety
    /// `at` must be valid for writing, and no other thread may use the mutex yet.
    pub(crate) unsafe fn init(at: *mut Self, protocol: libc::c_int) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are initialised before they are used and destroyed after; `at` is
        // writable by the caller's promise. None of these calls can fail with these arguments.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), protocol);
            libc::pthread_mutex_init((&raw mut (*at).0).cast(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }

    /// The mutex for the C library's functions.
    pub(crate) fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }

    /// `pthread_mutex_trylock`: its return value.
    pub(crate) fn try_lock(&self) -> libc::c_int {
        // SAFETY: the mutex was initialised when the region was made.
        unsafe { libc::pthread_mutex_trylock(self.as_ptr()) }
    }

    /// The calling thread, which was told that the holder died and holds the mutex now, has
    /// repaired what it protects.
    pub(crate) fn make_consistent(&self) {
        // SAFETY: the mutex is initialised; if the calling thread does not hold it so, the call
        // does nothing.
        unsafe { libc::pthread_mutex_consistent(self.as_ptr()) };
    }

    /// Releases it. Does nothing if the calling thread does not hold it.
    pub(crate) fn unlock(&self) {
        // SAFETY: the mutex is initialised, and of the type that checks which thread releases it.
        unsafe { libc::pthread_mutex_unlock(self.as_ptr()) };
    }
}
