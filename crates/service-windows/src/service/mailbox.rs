//! What other threads have for a client's thread.

use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tickwire_lane_windows::event::WakeEvent;

/// Wakes a client's thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    event: WakeEvent,
    is_ending: AtomicBool,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { event: WakeEvent::new()?, is_ending: AtomicBool::new(false) })
    }

    /// The connection is to end.
    pub(super) fn end(&self) {
        self.is_ending.store(true, SeqCst);
        self.event.set();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(SeqCst)
    }

    /// Is signalled when there is something.
    pub(super) fn event(&self) -> BorrowedHandle<'_> {
        self.event.as_handle()
    }
}
