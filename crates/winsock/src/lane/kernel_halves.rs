//! Sockets of which the kernel has a half: what it has for them is an event like one of the stack.

use super::Lane;
use crate::real::{self, Handle};
use std::collections::HashSet;
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tickwire_lane_windows::event::WakeEvent;

/// The halves that are watched, and the event that the kernel sets for any of them.
#[derive(Debug)]
pub(super) struct KernelHalves {
    event: WakeEvent,
    watched: Mutex<HashSet<Handle>>,
}

impl KernelHalves {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { event: WakeEvent::new()?, watched: Mutex::default() })
    }

    /// What is signalled when the kernel has something for one of them.
    pub(super) fn event(&self) -> BorrowedHandle<'_> {
        self.event.as_handle()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Handle>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel has something for one of them.
    pub(super) fn all(&self) -> Vec<Handle> {
        self.lock().iter().copied().collect()
    }
}

impl Lane {
    /// From now on what the kernel has for its half of a socket (a datagram, a connection) is
    /// delivered as an event. The kernel's socket does not block any more.
    pub(crate) fn watch_kernel_half(&self, handle: Handle) {
        let is_new = self.kernel_halves.lock().insert(handle);
        if is_new {
            real::signal_arrivals(handle, self.kernel_halves.event());
        }
    }

    /// A request has accepted of the kernel's half. Windows tells of the next connection after a
    /// call of `accept`, and not after `AcceptEx`: so it is asked to tell anew.
    pub(crate) fn has_accepted(&self, listener: Handle) {
        if self.kernel_halves.lock().contains(&listener) {
            real::signal_arrivals(listener, self.kernel_halves.event());
        }
    }

    /// The socket is being closed, or becomes the kernel's. Returns whether it was watched.
    pub(crate) fn forget_kernel_half(&self, handle: Handle) -> bool {
        self.kernel_halves.lock().remove(&handle)
    }
}
