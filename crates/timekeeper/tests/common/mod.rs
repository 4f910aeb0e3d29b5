//! Helpers shared by the daemon's tests.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends servers and daemon, also when a test fails: the scope waits for the threads.
pub(crate) struct Ending<'a>(
    pub(crate) &'a AtomicBool,
    #[expect(dead_code, reason = "it is closed, which the daemon takes as the end")] pub(crate) OwnedFd,
);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
