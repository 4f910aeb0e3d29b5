//! Packets that a thread takes out of the stack to send once it has released the lane's lock: the
//! system calls that send take longer than all else that a call does.
//!
//! Packets that are not of streams are copied into the batch, so the stack is done with them at
//! once. Packets of streams stay in their frames, which the stack leaves unchanged until it is told
//! that they have been sent.

use crate::bulk;
use std::cell::UnsafeCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use tickwire_lane::train::{self, HEADER, VIRTIO};
use tickwire_stack::frame::{FRAME_SIZE, MOST_PIECES};
use tickwire_stack::{Stack, Transmit};

/// Room for copies, in bytes: the largest packet always fits into an empty batch.
const ROOM: usize = MOST_PIECES * FRAME_SIZE;

/// The most packets that are copied into a batch.
const COPIES: usize = 64;

/// The most frames of streams in a batch: some trains. With fewer, acknowledgements are received in
/// between, each releases its two segments, and trains get short: with 64 a message of 640 KB took
/// a sixth longer.
const FRAMES: usize = 128;

/// A train has two frames at least.
const TRAINS: usize = FRAMES / 2;

/// The most parts that the batch's packets have: each copy has one, each frame one and perhaps a
/// header.
const PARTS: usize = COPIES + 2 * FRAMES;

/// Batches of a process: more than the threads that are likely to send at the same time.
const BATCHES: usize = u64::BITS as usize;

/// The last one is for the thread that has the lane's lock, which finds no other free. It sends
/// before it releases the lock.
const RESERVED: usize = BATCHES - 1;

/// Precedes a packet that goes through the bulk device as it is: nothing is left to the device.
static PLAIN: [u8; VIRTIO] = [0; VIRTIO];

/// One system call: to which device, with how many parts, and for how many packets.
#[derive(Clone, Copy)]
#[repr(C)]
struct Write {
    bulk: bool,
    parts: u16,
    packets: u16,
}

/// A batch's memory. All-zero is a valid value.
#[repr(C)]
struct Memory {
    copies: [u8; ROOM],
    headers: [[u8; HEADER]; TRAINS],
    parts: [libc::iovec; PARTS],
    writes: [Write; COPIES + FRAMES],
    frames: [Transmit; FRAMES],
}

/// The batches of a process.
pub(crate) struct TxBatches {
    /// A bit for each that is in use.
    used: AtomicU64,
    /// Packets that a device did not take, and that are not reported to the stack yet.
    failed: AtomicU64,
    memory: Box<[UnsafeCell<Memory>]>,
}

// SAFETY: each batch's memory is used only by the thread that has set its bit. The pointers in it
// are used by none but the kernel.
unsafe impl Send for TxBatches {}
// SAFETY: as above.
unsafe impl Sync for TxBatches {}

impl TxBatches {
    /// Takes no memory until it is used.
    pub(crate) fn new() -> Self {
        let layout = std::alloc::Layout::new::<[UnsafeCell<Memory>; BATCHES]>();
        // SAFETY: the layout is not of size 0; the memory is zero, a valid value of the type,
        // allocated as `Box` does, and owned by nothing else.
        let memory = unsafe {
            let at = std::alloc::alloc_zeroed(layout).cast::<UnsafeCell<Memory>>();
            if at.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, BATCHES))
        };
        Self { used: AtomicU64::new(0), failed: AtomicU64::new(0), memory }
    }

    /// A free batch, empty. `None` if all are in use; the reserved one is only for the thread that
    /// has the lane's lock.
    pub(crate) fn take(&self) -> Option<TxBatch<'_>> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let place = used.trailing_ones() as usize;
            if place >= BATCHES {
                return None;
            }
            match self.used.compare_exchange_weak(used, used | 1 << place, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: the bit was free, so no other thread uses this memory until the batch
                    // is dropped.
                    let memory = unsafe { &mut *self.memory[place].get() };
                    return Some(TxBatch {
                        pool: self,
                        place,
                        memory,
                        copies: 0,
                        headers: 0,
                        parts: 0,
                        writes: 0,
                        frames: 0,
                    });
                }
                Err(now) => used = now,
            }
        }
    }

    /// Reports packets to the stack that a device did not take.
    pub(crate) fn count_failed(&self, stack: &Stack<'_>) {
        if self.failed.load(Ordering::Relaxed) > 0 {
            stack.counters().tx_failed.add(self.failed.swap(0, Ordering::Relaxed));
        }
    }

    /// In a forked child, which has none of its parent's other threads: their batches are free, and
    /// what failed is counted by the parent.
    pub(crate) fn forget_threads(&self) {
        self.used.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for TxBatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxBatches({:b})", self.used.load(Ordering::Relaxed))
    }
}

/// Packets on their way out.
pub struct TxBatch<'p> {
    pool: &'p TxBatches,
    place: usize,
    memory: &'p mut Memory,
    /// Bytes of the copies.
    copies: usize,
    headers: usize,
    parts: usize,
    writes: usize,
    frames: usize,
}

impl TxBatch<'_> {
    /// Whether it is to be sent before the lane's lock is released.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.place == RESERVED
    }

    /// Whether it has nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes == 0
    }

    /// The frames of streams that it has, or had.
    pub(crate) fn frames(&self) -> &[Transmit] {
        &self.memory.frames[..self.frames]
    }

    /// Whether there is room for a copy of a packet that begins so.
    pub(crate) fn has_room(&self, first: &Transmit) -> bool {
        let most = if first.more { ROOM } else { usize::from(first.len) };
        self.copies + most <= ROOM && self.writes < COPIES
    }

    /// Copies a packet, given in its pieces, which there is room for.
    pub(crate) fn copy(&mut self, stack: &Stack<'_>, pieces: &[Transmit]) {
        let begin = self.copies;
        for &piece in pieces {
            let bytes = train::bytes(stack, piece);
            let Some(room) = self.memory.copies.get_mut(self.copies..self.copies + bytes.len()) else { return };
            room.copy_from_slice(bytes);
            self.copies += bytes.len();
        }
        let copy = self.memory.copies[begin..self.copies].as_ptr();
        self.part(copy, self.copies - begin);
        self.write(false, 1, 1);
    }

    /// Takes a frame of a stream; `false` if there is no room for a whole packet.
    pub(crate) fn take_frame(&mut self, frame: Transmit) -> bool {
        let within = self.frames().last().is_some_and(|last| last.more);
        let room = self.frames < if within { FRAMES } else { FRAMES - MOST_PIECES };
        if room {
            self.memory.frames[self.frames] = frame;
            self.frames += 1;
        }
        room
    }

    /// Sends the frames one packet at a time.
    pub(crate) fn write_packets(&mut self, stack: &Stack<'_>) {
        let mut parts = 0;
        for at in 0..self.frames {
            let frame = self.memory.frames[at];
            self.frame_part(stack, frame, 0);
            parts += 1;
            if !frame.more {
                self.write(false, core::mem::take(&mut parts), 1);
            }
        }
    }

    /// Sends the frames by the bulk device, those together that can go as a train.
    pub(crate) fn write_trains(&mut self, stack: &Stack<'_>) {
        let mut done = 0;
        while done < self.frames {
            let (frames, train) = train::together(stack, &self.memory.frames[done..self.frames]);
            let from = match train {
                Some(train) if frames > 1 => {
                    let header = &mut self.memory.headers[self.headers];
                    let len = train.write_header(train::bytes(stack, self.memory.frames[done]), header);
                    let header = header.as_ptr();
                    self.headers += 1;
                    self.part(header, len);
                    train.headers()
                }
                _ => {
                    self.part(PLAIN.as_ptr(), VIRTIO);
                    0
                }
            };
            for at in done..done + frames {
                let frame = self.memory.frames[at];
                self.frame_part(stack, frame, from);
            }
            let packets = self.memory.frames[done..done + frames].iter().filter(|frame| !frame.more).count();
            self.write(true, 1 + frames, packets);
            done += frames;
        }
    }

    /// A part of the next packet: what is in a frame from some byte on.
    fn frame_part(&mut self, stack: &Stack<'_>, frame: Transmit, from: usize) {
        let bytes = train::bytes(stack, frame).get(from..).unwrap_or_default();
        self.part(bytes.as_ptr(), bytes.len());
    }

    fn part(&mut self, at: *const u8, len: usize) {
        self.memory.parts[self.parts] = libc::iovec { iov_base: at.cast_mut().cast(), iov_len: len };
        self.parts += 1;
    }

    fn write(&mut self, bulk: bool, parts: usize, packets: usize) {
        self.memory.writes[self.writes] = Write { bulk, parts: parts as u16, packets: packets as u16 };
        self.writes += 1;
    }

    /// Makes the system calls, in order; then the batch has nothing to send. What the guard or a
    /// device refuses is lost, as on a wire; what a device refuses is counted.
    pub(crate) fn send(&mut self, tap: BorrowedFd<'_>, bulk: Option<BorrowedFd<'_>>) {
        let mut parts = &self.memory.parts[..self.parts];
        for write in &self.memory.writes[..self.writes] {
            let (packet, rest) = parts.split_at(usize::from(write.parts));
            parts = rest;
            let device = if write.bulk { bulk } else { Some(tap) };
            // SAFETY: the parts are in this batch's own memory, in a constant, or in frames that
            // stay as they are until the stack is told otherwise.
            let sent = device.is_some_and(|device| unsafe { bulk::write(device, packet) }.is_ok());
            if !sent {
                self.pool.failed.fetch_add(write.packets.into(), Ordering::Relaxed);
            }
        }
        (self.copies, self.headers, self.parts, self.writes) = (0, 0, 0, 0);
    }
}

impl Drop for TxBatch<'_> {
    fn drop(&mut self) {
        self.pool.used.fetch_and(!(1 << self.place), Ordering::Release);
    }
}

impl fmt::Debug for TxBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxBatch({} packets, {} frames)", self.writes, self.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_used_once_at_a_time_and_the_last_is_reserved() {
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
