//! The memory of batches ([`tickwire_lane::tx_batch`]), and the system calls that send them.

use crate::bulk::{self, IoPart};
use std::cell::UnsafeCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use tickwire_lane::tx_batch::{BATCHES, Batch, BatchMemory, BatchPool};
use tickwire_stack::{Stack, TransmitDescriptor};

/// The batches of a process.
pub(crate) struct TxBatches {
    pool: BatchPool,
    memory: Box<[UnsafeCell<BatchMemory<IoPart>>]>,
}

// SAFETY: each batch's memory is used only by the thread that has taken it from the pool. The
// pointers in it are used by none but the kernel.
unsafe impl Send for TxBatches {}
// SAFETY: as above.
unsafe impl Sync for TxBatches {}

impl TxBatches {
    /// Takes no memory until it is used.
    pub(crate) fn new() -> Self {
        let layout = std::alloc::Layout::new::<[UnsafeCell<BatchMemory<IoPart>>; BATCHES]>();
        // SAFETY: the layout is not of size 0; the memory is zero, a valid value of the type,
        // allocated as `Box` does, and owned by nothing else.
        let memory = unsafe {
            let at = std::alloc::alloc_zeroed(layout).cast::<UnsafeCell<BatchMemory<IoPart>>>();
            if at.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, BATCHES))
        };
        Self { pool: BatchPool::default(), memory }
    }

    /// A free batch, empty. `None` if all are in use; the reserved one is only for the thread that
    /// has the lane's lock.
    pub(crate) fn take(&self) -> Option<TxBatch<'_>> {
        let place = self.pool.take()?;
        // SAFETY: the pool gives this place to no other thread until the batch is dropped.
        let memory = unsafe { &mut *self.memory[place].get() };
        Some(TxBatch { pool: &self.pool, place, batch: Batch::new(memory) })
    }

    /// Reports packets to the stack that a device did not take.
    pub(crate) fn count_failed(&self, stack: &Stack<'_>) {
        self.pool.count_failed(stack);
    }

    /// In a forked child, which has none of its parent's other threads.
    pub(crate) fn forget_threads(&self) {
        self.pool.forget_threads();
    }
}

impl fmt::Debug for TxBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxBatches({:?})", self.pool)
    }
}

/// Packets on their way out.
pub struct TxBatch<'p> {
    pool: &'p BatchPool,
    place: usize,
    batch: Batch<'p, IoPart>,
}

impl<'p> TxBatch<'p> {
    /// Whether it is to be sent before the lane's lock is released.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        BatchPool::is_reserved(self.place)
    }

    /// Whether it has nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The frames of streams that it has, or had.
    pub(crate) fn frames(&self) -> &[TransmitDescriptor] {
        self.batch.frames()
    }

    /// The packets themselves, to add some.
    pub(crate) fn packets(&mut self) -> &mut Batch<'p, IoPart> {
        &mut self.batch
    }

    /// Makes the system calls, in order; then the batch has nothing to send. What the guard or a
    /// device refuses is lost, as on a wire; what a device refuses is counted.
    pub(crate) fn send(&mut self, tap: BorrowedFd<'_>, bulk: Option<BorrowedFd<'_>>) {
        for (write, parts) in self.batch.writes() {
            let device = if write.bulk { bulk } else { Some(tap) };
            // SAFETY: the parts are in this batch's own memory, in a constant, or in frames that
            // stay as they are until the stack is told otherwise (`Batch::writes`).
            let sent = device.is_some_and(|device| unsafe { bulk::write(device, parts) }.is_ok());
            if !sent {
                self.pool.note_failed(write.packets);
            }
        }
        self.batch.clear();
    }
}

impl Drop for TxBatch<'_> {
    fn drop(&mut self) {
        self.pool.give_back(self.place);
    }
}

impl fmt::Debug for TxBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxBatch({} packets, {} frames)", self.batch.len(), self.frames().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_free_again_when_it_is_dropped_and_all_are_in_a_child() {
        let pool = TxBatches::new();
        let mut taken: Vec<_> = (0..BATCHES).map(|_| pool.take().unwrap()).collect();
        assert!(pool.take().is_none());
        assert!(taken.pop().unwrap().is_reserved() && taken.iter().all(|batch| !batch.is_reserved()));
        taken.remove(7);
        assert_eq!(pool.take().unwrap().place, 7);
        std::mem::forget(taken);
        pool.forget_threads();
        assert_eq!(pool.take().unwrap().place, 0);
    }
}
