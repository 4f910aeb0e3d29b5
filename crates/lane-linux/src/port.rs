//! The program's side of a lane, coupled to a stack: frames in from the receive ring, frames out
//! into the TAP device.
//!
//! Everything but [`Port::quiet`], [`Port::send`] and the taking of wake frames must be called
//! under the lane's lock. A port keeps no state of its own but the batches of threads that are
//! sending (the ring and the stack have it), so a forked child continues with its copy.

use crate::bulk::{self, Bulk};
use crate::mapped_ring::MappedRing;
use crate::tx_batch::{TxBatch, TxBatches};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use tickwire_lane::port;
use tickwire_lane::record_ring::RecordRing;
use tickwire_stack::Stack;
use tickwire_stack::time::Instant;

/// More than the device has room for by default.
const MOST_WAKE_FRAMES: u32 = 512;

/// A lane's ring and TAP device in one process.
#[derive(Debug)]
pub struct Port {
    rx: RecordRing<MappedRing>,
    tap: OwnedFd,
    bulk: OnceLock<Bulk>,
    batches: TxBatches,
}

impl Port {
    /// A port over a lane's receive ring and the TAP device that [`crate::sys_tap::create`] has
    /// made.
    #[must_use]
    pub fn new(rx: RecordRing<MappedRing>, tap: OwnedFd) -> Self {
        Self { rx, tap, bulk: OnceLock::new(), batches: TxBatches::new() }
    }

    /// Sends trains of segments by this device from now on. Only the first call counts.
    pub fn set_bulk(&self, bulk: Bulk) {
        let _ = self.bulk.set(bulk);
    }

    /// Whether a bulk device (for trains of segments) would be of use, and there is none yet.
    #[must_use]
    pub fn wants_bulk(&self, stack: &Stack<'_>) -> bool {
        port::has_trains(stack) && self.bulk.get().is_none()
    }

    /// The receive ring.
    #[must_use]
    pub fn rx(&self) -> &RecordRing<MappedRing> {
        &self.rx
    }

    /// Takes a wake frame off the TAP device: that of the last sleep, before the next one. Needs no
    /// lock.
    ///
    /// More may wait there. They make the device readable when it is polled, but are no reason to
    /// wake up: the ring is empty then ([`Port::take_wake_frames`]).
    pub fn take_wake_frame(&self) {
        bulk::discard(self.tap.as_fd());
    }

    /// Takes all wake frames off. Needs no lock.
    pub fn take_wake_frames(&self) {
        let _ = (0..MOST_WAKE_FRAMES).find(|_| !bulk::discard(self.tap.as_fd()));
    }

    /// Whether nothing has been received. A hint without the lock, for polling threads.
    #[must_use]
    #[inline]
    pub fn quiet(&self) -> bool {
        self.rx.is_empty()
    }

    /// Receives the packets in the ring. Returns how many there were.
    pub fn poll(&self, stack: &mut Stack<'_>, now: Instant) -> u32 {
        port::poll(&self.rx, stack, now)
    }

    /// An empty batch; `None` if no thread may take one now.
    #[must_use]
    pub fn batch(&self) -> Option<TxBatch<'_>> {
        self.batches.take()
    }

    /// Copies packets that are not of streams out of the stack into a batch. Returns whether that
    /// is all: if not, there is no room for more.
    #[must_use]
    pub fn take_prompt(&self, stack: &mut Stack<'_>, batch: &mut TxBatch<'_>) -> bool {
        self.batches.count_failed(stack);
        port::take_prompt(stack, batch.packets())
    }

    /// Takes packets of streams out of the stack into a batch that has none. None before all that
    /// is not of streams. [`Port::streams_gone`] is to follow.
    pub fn take_streams(&self, stack: &mut Stack<'_>, batch: &mut TxBatch<'_>) {
        port::take_streams(stack, batch.packets(), self.bulk.get().is_some());
    }

    /// Sends what a batch has, one system call a packet or train. Needs no lock.
    pub fn send(&self, batch: &mut TxBatch<'_>) {
        batch.send(self.tap.as_fd(), self.bulk.get().map(Bulk::as_fd));
    }

    /// Tells the stack that the packets of streams in this batch have been sent.
    pub fn streams_gone(&self, stack: &mut Stack<'_>, batch: &TxBatch<'_>) {
        self.batches.count_failed(stack);
        stack.stream_end(batch.frames().iter().copied());
    }

    /// In a forked child, which has none of its parent's other threads.
    pub fn forget_threads(&self) {
        self.batches.forget_threads();
    }
}

impl AsFd for Port {
    /// The receive ring: readable when something was received.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rx.memory().as_fd()
    }
}
