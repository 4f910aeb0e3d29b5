//! Packets that a thread takes out of the stack to send once it has released the lane's lock: the
//! system calls that send take longer than all else that a call does.
//!
//! Packets that are not of streams are copied into the batch, so the stack is done with them at
//! once. Packets of streams stay in their frames, which the stack leaves unchanged until it is told
//! that they have been sent.
//!
//! Which memory batches have, and what sends them, is the operating system's part.

use crate::packet_sink::PacketSink;
use crate::train::{self, HEADER, VIRTIO};
use std::sync::atomic::{AtomicU64, Ordering};
use tickwire_stack::frame::{FRAME_SIZE, MOST_PIECES};
use tickwire_stack::{Stack, TransmitDescriptor};

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
pub const BATCHES: usize = u64::BITS as usize;

/// The last one is for the thread that has the lane's lock, which finds no other free. It sends
/// before it releases the lock.
const RESERVED: usize = BATCHES - 1;

/// Precedes a packet that goes through the bulk device as it is: nothing is left to the device.
static PLAIN: [u8; VIRTIO] = [0; VIRTIO];

/// A part of a packet, as the operating system's write takes it.
pub trait PacketPart: Copy {
    /// These bytes, which stay where and as they are until the packet is sent.
    fn of(bytes: &[u8]) -> Self;
}

/// One write to a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DeviceWrite {
    /// By the bulk device, with a header of [`VIRTIO`] bytes.
    pub bulk: bool,
    parts: u16,
    /// How many packets it sends.
    pub packets: u16,
}

/// A batch's memory. All-zero is a valid value, if it is one of the parts.
#[repr(C)]
pub struct BatchMemory<P> {
    copies: [u8; ROOM],
    headers: [[u8; HEADER]; TRAINS],
    parts: [P; PARTS],
    writes: [DeviceWrite; COPIES + FRAMES],
    frames: [TransmitDescriptor; FRAMES],
}

/// Which batches of a process are in use, and what became of them.
#[derive(Debug, Default)]
pub struct BatchPool {
    /// A bit for each that is in use.
    used: AtomicU64,
    /// Packets that a device did not take, and that are not reported to the stack yet.
    failed: AtomicU64,
}

impl BatchPool {
    /// A free batch, by its number, for the calling thread until [`BatchPool::give_back`]. `None`
    /// if all are in use; a [reserved](BatchPool::is_reserved) one is only for the thread that has
    /// the lane's lock.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<usize> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let place = used.trailing_ones() as usize;
            if place >= BATCHES {
                return None;
            }
            match self.used.compare_exchange_weak(used, used | 1 << place, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(place),
                Err(now) => used = now,
            }
        }
    }

    /// The thread that has taken this batch does not use it any more.
    #[inline]
    pub fn give_back(&self, place: usize) {
        self.used.fetch_and(!(1 << place), Ordering::Release);
    }

    /// Whether this batch is to be sent before the lane's lock is released.
    #[must_use]
    #[inline]
    pub fn is_reserved(place: usize) -> bool {
        place == RESERVED
    }

    /// A device did not take so many packets.
    #[inline]
    pub fn note_failed(&self, packets: u16) {
        self.failed.fetch_add(packets.into(), Ordering::Relaxed);
    }

    /// Reports packets to the stack that a device did not take.
    #[inline]
    pub fn count_failed(&self, stack: &Stack<'_>) {
        if self.failed.load(Ordering::Relaxed) > 0 {
            stack.counters().tx_failed.add(self.failed.swap(0, Ordering::Relaxed));
        }
    }

    /// In a forked child, which has none of its parent's other threads: their batches are free, and
    /// what failed is counted by the parent.
    pub fn forget_threads(&self) {
        self.used.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}

/// Packets on their way out.
pub struct Batch<'m, P> {
    memory: &'m mut BatchMemory<P>,
    /// Bytes of the copies.
    copies: usize,
    headers: usize,
    parts: usize,
    writes: usize,
    frames: usize,
}

impl<'m, P: PacketPart> Batch<'m, P> {
    /// An empty batch. Whatever the memory holds, it is not read.
    #[must_use]
    pub fn new(memory: &'m mut BatchMemory<P>) -> Self {
        Self { memory, copies: 0, headers: 0, parts: 0, writes: 0, frames: 0 }
    }

    /// Whether it has nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes == 0
    }

    /// How many writes it takes to send it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes
    }

    /// The frames of streams that it has, or had.
    #[must_use]
    pub fn frames(&self) -> &[TransmitDescriptor] {
        &self.memory.frames[..self.frames]
    }

    /// The writes that send it, in order, each with its parts. Those lie in the batch's own memory,
    /// in a constant, or in frames of [`Batch::frames`].
    pub fn writes(&self) -> impl Iterator<Item = (DeviceWrite, &[P])> {
        let mut parts = &self.memory.parts[..self.parts];
        self.memory.writes[..self.writes].iter().map(move |&write| {
            let (packet, rest) = parts.split_at(usize::from(write.parts));
            parts = rest;
            (write, packet)
        })
    }

    /// The writes have been made: it has nothing to send. Its frames remain known.
    pub fn clear(&mut self) {
        (self.copies, self.headers, self.parts, self.writes) = (0, 0, 0, 0);
    }

    /// Takes a frame of a stream; `false` if there is no room for a whole packet.
    pub(crate) fn take_frame(&mut self, frame: TransmitDescriptor) -> bool {
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
                    let header = P::of(&header[..len]);
                    self.headers += 1;
                    self.part(header);
                    train.headers()
                }
                _ => {
                    self.part(P::of(&PLAIN));
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
    fn frame_part(&mut self, stack: &Stack<'_>, frame: TransmitDescriptor, from: usize) {
        self.part(P::of(train::bytes(stack, frame).get(from..).unwrap_or_default()));
    }

    fn part(&mut self, part: P) {
        self.memory.parts[self.parts] = part;
        self.parts += 1;
    }

    fn write(&mut self, bulk: bool, parts: usize, packets: usize) {
        self.memory.writes[self.writes] = DeviceWrite { bulk, parts: parts as u16, packets: packets as u16 };
        self.writes += 1;
    }
}

impl<P: PacketPart> PacketSink for Batch<'_, P> {
    fn has_room(&self, first: &TransmitDescriptor) -> bool {
        let most = if first.more { ROOM } else { usize::from(first.len) };
        self.copies + most <= ROOM && self.writes < COPIES
    }

    fn copy(&mut self, stack: &Stack<'_>, pieces: &[TransmitDescriptor]) {
        let begin = self.copies;
        for &piece in pieces {
            let bytes = train::bytes(stack, piece);
            let Some(room) = self.memory.copies.get_mut(self.copies..self.copies + bytes.len()) else { return };
            room.copy_from_slice(bytes);
            self.copies += bytes.len();
        }
        let copy = P::of(&self.memory.copies[begin..self.copies]);
        self.part(copy);
        self.write(false, 1, 1);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    std::thread_local! {
        /// The bytes of all parts.
        static PARTS_MADE: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    /// A part, by where its bytes begin in [`PARTS_MADE`], and their number.
    #[derive(Clone, Copy, Default)]
    pub(crate) struct Copied(usize, usize);

    impl PacketPart for Copied {
        fn of(bytes: &[u8]) -> Self {
            PARTS_MADE.with_borrow_mut(|made| {
                made.extend(bytes);
                Self(made.len() - bytes.len(), bytes.len())
            })
        }
    }

    pub(crate) fn memory() -> Box<BatchMemory<Copied>> {
        Box::new(BatchMemory {
            copies: [0; ROOM],
            headers: [[0; HEADER]; TRAINS],
            parts: [Copied::default(); PARTS],
            writes: [DeviceWrite { bulk: false, parts: 0, packets: 0 }; COPIES + FRAMES],
            frames: [TransmitDescriptor { frame: 0, offset: 0, len: 0, more: false }; FRAMES],
        })
    }

    /// What a batch sends: each write, and its bytes.
    pub(crate) fn sent(batch: &Batch<'_, Copied>) -> Vec<(DeviceWrite, Vec<u8>)> {
        let bytes = |&Copied(at, len): &Copied| PARTS_MADE.with_borrow(|made| made[at..at + len].to_vec());
        batch.writes().map(|(write, parts)| (write, parts.iter().flat_map(bytes).collect())).collect()
    }

    #[test]
    fn each_is_used_once_at_a_time_and_the_last_is_reserved() {
        let pool = BatchPool::default();
        let taken: Vec<_> = (0..BATCHES).map(|_| pool.take().unwrap()).collect();
        assert_eq!(pool.take(), None);
        assert_eq!(taken, Vec::from_iter(0..BATCHES));
        assert_eq!(taken.iter().filter(|&&place| BatchPool::is_reserved(place)).count(), 1);
        assert!(BatchPool::is_reserved(BATCHES - 1));
        pool.give_back(7);
        assert_eq!(pool.take(), Some(7));
        pool.forget_threads();
        assert_eq!(pool.take(), Some(0));
    }
}
