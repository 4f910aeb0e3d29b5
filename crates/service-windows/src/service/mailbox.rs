//! What other threads have for a client's thread.

use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use tickwire_lane::control::{Claim, Reason};
use tickwire_lane_windows::event::WakeEvent;

/// Wakes a client's thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    event: WakeEvent,
    is_ending: AtomicBool,
    lost: Mutex<Vec<(Claim, Reason)>>,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { event: WakeEvent::new()?, is_ending: AtomicBool::new(false), lost: Mutex::default() })
    }

    /// The connection is to end.
    pub(super) fn end(&self) {
        self.is_ending.store(true, SeqCst);
        self.event.set();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(SeqCst)
    }

    /// A claim has ended: the program is to be told.
    pub(super) fn lose(&self, claim: Claim, reason: Reason) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push((claim, reason));
        self.event.set();
    }

    /// The claims that have ended since the last call.
    pub(super) fn take_lost(&self) -> Vec<(Claim, Reason)> {
        std::mem::take(&mut self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Is signalled when there is something.
    pub(super) fn event(&self) -> BorrowedHandle<'_> {
        self.event.as_handle()
    }
}
