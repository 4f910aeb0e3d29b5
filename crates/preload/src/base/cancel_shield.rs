//! Requests to the service are no cancellation points.

use crate::base::locked::SignalDeferral;
use crate::sys::cancellation;
use core::ffi::c_int;

/// Keeps the thread from being cancelled while it lives: for requests to the service, which pass
/// through the C library. A handler that jumped away meanwhile would leave cancellation disabled,
/// so signals are deferred.
pub(crate) struct Shield {
    before: c_int,
    // Dropped after the state has been put back.
    _holding: SignalDeferral,
}

impl Shield {
    /// Disables cancellation.
    pub(crate) fn new() -> Self {
        let holding = SignalDeferral::new();
        Self { before: cancellation::disable(), _holding: holding }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // A thread that may be cancelled at any instruction has its state changed at the boundary
        // already, and that stays.
        cancellation::restore(self.before);
    }
}
