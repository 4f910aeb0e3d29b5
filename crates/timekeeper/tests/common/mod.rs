//! Helpers shared by the daemon's tests.

use std::sync::atomic::{AtomicBool, Ordering};
use tickwire_timekeeper::Stop;

/// What a daemon waits for, and what ends it when it is dropped.
#[cfg(unix)]
pub(crate) fn stop() -> (std::os::fd::OwnedFd, Stopper) {
    let (stop, stopper) = nix::unistd::pipe().unwrap();
    (stop, Stopper(stopper))
}

#[cfg(unix)]
pub(crate) fn signal(stop: &std::os::fd::OwnedFd) -> Stop<'_> {
    std::os::fd::AsFd::as_fd(stop)
}

/// A descriptor whose other end sees that it is closed.
#[cfg(unix)]
pub(crate) struct Stopper(#[expect(dead_code, reason = "it is closed")] std::os::fd::OwnedFd);

/// What a daemon waits for, and what ends it when it is dropped.
#[cfg(windows)]
pub(crate) fn stop() -> (std::sync::Arc<tickwire_timekeeper::StopEvent>, Stopper) {
    let event = std::sync::Arc::new(tickwire_timekeeper::StopEvent::new().unwrap());
    (event.clone(), Stopper(event))
}

#[cfg(windows)]
pub(crate) fn signal(stop: &tickwire_timekeeper::StopEvent) -> Stop<'_> {
    std::os::windows::io::AsHandle::as_handle(stop)
}

/// An event that is set when this is dropped.
#[cfg(windows)]
pub(crate) struct Stopper(std::sync::Arc<tickwire_timekeeper::StopEvent>);

#[cfg(windows)]
impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Ends servers and daemon, also when a test fails: the scope waits for the threads.
pub(crate) struct Ending<'a>(
    pub(crate) &'a AtomicBool,
    #[expect(dead_code, reason = "it is dropped, which the daemon takes as the end")] pub(crate) Stopper,
);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
