//! What the modules above the lane do when something happens to it. The lane imports none of them:
//! `exports::observer` names their functions when the library is loaded.

use crate::lane::Lane;
use std::sync::OnceLock;
use tickwire_lane::control::Reason;

/// The functions. None of them is called where data is sent or received.
pub(crate) struct Observer {
    /// A lane is being made: from here on a bad pointer of the program is an error.
    pub(crate) guard: fn(),
    /// A lane is about to become this process's.
    pub(crate) begins: fn(&Lane),
    /// A new lane has become this process's.
    pub(crate) begun: fn(&'static Lane),
    /// The process needs its helper thread.
    pub(crate) start_helper: fn(),
    /// In a child whose creation the library did not see: it gives up its parent's lane. False if a
    /// lock is held by a thread that only the parent has.
    pub(crate) abandon: fn() -> bool,
    /// The service reports that a process with this number has left the lane.
    pub(crate) process_gone: fn(&'static Lane, u32),
    /// The service has revoked this claim.
    pub(crate) claim_lost: fn(&'static Lane, u64, Reason),
    /// Another process or thread may have given the socket of this description to the kernel.
    /// Returns whether that is so; the table shows it then.
    pub(crate) is_kernels: fn(&'static Lane, u32) -> bool,
    /// The lane is over: the table is to show what has become of its sockets. Returns how many
    /// descriptors of connections there were.
    pub(crate) ends: fn(&Lane, Reason) -> usize,
    /// The table shows it.
    pub(crate) ended: fn(),
}

/// Before the functions are named, when there is no lane.
static NONE: Observer = Observer {
    guard: || (),
    begins: |_| (),
    begun: |_| (),
    start_helper: || (),
    abandon: || true,
    process_gone: |_, _| (),
    claim_lost: |_, _, _| (),
    is_kernels: |_, _| false,
    ends: |_, _| 0,
    ended: || (),
};

static OBSERVER: OnceLock<&'static Observer> = OnceLock::new();

/// Names the functions, once.
pub(crate) fn observe(by: &'static Observer) {
    let _ = OBSERVER.set(by);
}

/// The functions.
pub(crate) fn observer() -> &'static Observer {
    OBSERVER.get().copied().unwrap_or(&NONE)
}
