//! A ring of records: a lane's receive ring, which a producer fills (on Linux the kernel, by
//! divert: `bpf/ring.h`; elsewhere the service, by [`RecordProducer`]) and the lane's processes
//! read. Where a program sends through memory too, its transmit ring is the same with the sides
//! exchanged.
//!
//! The producer owns its position and the data, which are mapped read-only. The consumer page is
//! the reader's own: the producer reads the first word of it, the consumer position, and nothing
//! else. The lane's processes keep beside it how far they have read. They use the ring under the
//! lane's lock.
//!
//! **Wakeups.** When a record is committed, waiters are woken only if the consumer position had
//! reached that record: by a frame that divert sends to the lane's TAP device, or by the ring's own
//! descriptor (`bpf/ring.h`). So while threads poll, the position is held back, and records cost no
//! wakeup. Before a thread sleeps it publishes the true position ([`RecordRing::arm`]) and checks
//! the ring once more. It sleeps on both descriptors. The ring's is readable while there is
//! something to read, the device's while wake frames wait there. Wake frames that a sleep leaves
//! behind make the next wakeup spurious, unless they are removed before. So one is sent to waiters,
//! and no more until one of them arms the ring again. While no thread sleeps so and none polls, the
//! position's lowest bits have the standby thread woken ([`crate::duty`]).
//!
//! Nothing here is trusted: a position that another process of the lane has overwritten yields an
//! empty ring or a skipped record, never an access outside.

#[cfg(any(test, feature = "owned"))]
mod owned;
mod producer;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(any(test, feature = "owned"))]
pub use owned::OwnedRing;
pub use producer::{ProducerMemory, RecordProducer, Wakes};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};

/// Bytes of a lane's ring: a power of two. 2 MiB hold 1300 frames of 1500 bytes, 1.6 ms at 10
/// Gbit/s.
pub const RING_BYTES: u32 = 2 << 20;

/// The kernel's header of a record (`struct bpf_ringbuf_hdr`), in bytes, and two flags in its first
/// word.
const HEADER: u64 = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// `struct rx_record` of `bpf/ring.h`, in bytes, and its flags.
const RECORD: usize = 24;
const CHECKSUM_GOOD: u16 = 1;
const CHECKSUM_MAYBE_PARTIAL: u16 = 2;

/// Set among the waiters while the next record is to wake the standby thread.
const STANDBY: u32 = 1 << 31;

/// In the consumer position (`RX_STANDBY`, `RX_POLLED` of `bpf/ring.h`): a record wakes the standby
/// thread, or none.
const WAKES_STANDBY: u64 = 1;
const WAKES_NONE: u64 = 2;

/// The page that the lane's processes write.
#[derive(Debug)]
#[repr(C)]
pub struct ConsumerPage {
    /// The consumer position, which the producer reads.
    consumer: AtomicU64,
    line: [AtomicU64; 15],
    /// How far the lane's processes have read, at or ahead of the consumer position.
    read: AtomicU64,
    /// How many threads sleep on the ring, or are about to; and [`STANDBY`].
    waiters: AtomicU32,
    /// How many of them are of each process of the lane, by its slot: they no longer count when it
    /// has been killed in its sleep.
    waiters_of: [AtomicU32; PROCESSES],
}

/// Slots for the processes of a lane.
const PROCESSES: usize = 64;

impl Default for ConsumerPage {
    /// Nothing has been read, and no thread sleeps.
    fn default() -> Self {
        Self {
            consumer: AtomicU64::new(0),
            line: Default::default(),
            read: AtomicU64::new(0),
            waiters: AtomicU32::new(0),
            waiters_of: [const { AtomicU32::new(0) }; PROCESSES],
        }
    }
}

impl ConsumerPage {
    /// The consumer position, for a producer.
    #[must_use]
    #[inline]
    pub fn consumer(&self) -> u64 {
        self.consumer.load(SeqCst)
    }
}

/// The memory of a ring in one process. The other side may write what it likes there, at any time.
pub trait RingMemory {
    /// Bytes of data: a power of two.
    fn size(&self) -> u64;

    /// The page that the lane's processes write.
    fn consumer_page(&self) -> &ConsumerPage;

    /// The producer position: where the next record will begin.
    fn producer(&self) -> &AtomicU64;

    /// The first word of the header of the record at this offset in the data, a multiple of 8 below
    /// [`RingMemory::size`]. Loaded before anything else of the record ([`Acquire`]).
    fn header(&self, at: usize) -> u32;

    /// How many bytes lie one behind the other: all of the data, or twice that if it lies there
    /// twice. No record goes beyond.
    fn readable(&self) -> u64;

    /// Copies bytes out of the data. Copies nothing if they are not all inside of what is
    /// [readable](RingMemory::readable).
    fn copy(&self, at: usize, to: &mut [u8]);
}

/// A lane's receive ring in one process.
#[derive(Debug)]
pub struct RecordRing<M> {
    memory: M,
    /// Bytes of data.
    size: u64,
}

/// A record that has been read up to: where its frame lies.
#[derive(Clone, Copy, Debug)]
struct Record {
    packet: ReceiveMetadata,
    /// Where the frame begins in the data.
    at: usize,
}

impl<M: RingMemory> RecordRing<M> {
    /// The ring in this memory.
    ///
    /// # Panics
    /// If its size is no power of two.
    #[must_use]
    pub fn new(memory: M) -> Self {
        let size = memory.size();
        assert!(size.is_power_of_two(), "a ring's size is a power of two");
        Self { memory, size }
    }

    /// Its memory.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    fn own(&self) -> &ConsumerPage {
        self.memory.consumer_page()
    }

    /// Whether nothing waits to be read. A hint without the lock, for polling threads.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.memory.producer().load(Relaxed) == self.own().read.load(Relaxed)
    }

    /// How many bytes wait, records' headers included.
    fn waiting(&self) -> u64 {
        let waiting = self.memory.producer().load(Acquire).wrapping_sub(self.own().read.load(Relaxed));
        if waiting > self.size {
            // No reader has been at this position.
            self.own().read.store(self.memory.producer().load(Acquire), Relaxed);
            return 0;
        }
        waiting
    }

    /// Sets the consumer position, as a hostile program might: to test whether the producer
    /// withstands that.
    pub fn forge_consumer(&self, position: u64) {
        self.own().consumer.store(position, SeqCst);
    }

    /// The record at a position where `waiting` bytes wait, and its length. `None`: it is not
    /// complete yet.
    fn record(&self, position: u64, waiting: u64) -> Option<(Option<Record>, u64)> {
        let at = (position & (self.size - 1)) as usize & !7;
        let header = self.memory.header(at);
        if header & BUSY != 0 {
            return None;
        }
        let len = u64::from(header & !DISCARDED);
        let whole = (len + HEADER + 7) & !7;
        if whole > waiting {
            // No header: another process has moved the position.
            return Some((None, waiting));
        }
        // (Data lies twice, or a producer lets no record wrap.)
        let is_whole = at as u64 + HEADER + len <= self.memory.readable();
        if header & DISCARDED != 0 || len < RECORD as u64 || !is_whole {
            return Some((None, whole));
        }
        let mut bytes = [0; RECORD];
        let at = at + HEADER as usize;
        self.memory.copy(at, &mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, s0, s1, f0, f1, n0, n1, n2, n3, ..] = bytes;
        let flags = u16::from_ne_bytes([f0, f1]);
        let checksum = match flags {
            _ if flags & CHECKSUM_GOOD != 0 => Checksum::Good,
            _ if flags & CHECKSUM_MAYBE_PARTIAL != 0 => Checksum::MaybePartial,
            _ => Checksum::Unknown,
        };
        let packet = ReceiveMetadata {
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            segment: u16::from_ne_bytes([s0, s1]),
            checksum,
            at: Instant::from_nanos(u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7])),
            interface: u32::from_ne_bytes([n0, n1, n2, n3]),
        };
        let fits = u64::from(packet.len) <= len - RECORD as u64;
        Some((fits.then_some(Record { packet, at: at + RECORD }), whole))
    }

    /// Reads so many records at most, each with a function that copies bytes out of it. Returns how
    /// many frames they held. The caller has the lane's lock.
    pub fn read(&self, most: u32, mut take: impl FnMut(ReceiveMetadata, &mut dyn FnMut(usize, &mut [u8]))) -> u32 {
        let mut frames = 0;
        let mut waiting = self.waiting();
        if waiting == 0 {
            return 0;
        }
        let own = self.own();
        let mut position = own.read.load(Relaxed);
        let mut last = position;
        for _ in 0..most {
            if waiting == 0 {
                break;
            }
            let Some((record, whole)) = self.record(position, waiting) else { break };
            if let Some(Record { packet, at }) = record {
                take(packet, &mut |from, to| self.memory.copy(at + from, to));
                frames += 1;
            }
            last = position;
            position = position.wrapping_add(whole);
            waiting -= whole;
            own.read.store(position, Relaxed);
        }
        // (The first record may not be complete yet.)
        if last != position {
            self.publish(last, position);
        }
        frames
    }

    /// Skips all that waits, complete or not: for a producer that does not keep to the rules.
    pub fn skip_all(&self) {
        let own = self.own();
        let position = self.memory.producer().load(Acquire);
        own.read.store(position, Relaxed);
        own.consumer.store(position & !7, Release);
    }

    /// Returns the room of what has been read up to `position` to the producer; the last record
    /// began at `last`.
    fn publish(&self, last: u64, position: u64) {
        let own = self.own();
        let waiters = own.waiters.load(Relaxed);
        if waiters == STANDBY {
            own.consumer.store(position | WAKES_STANDBY, Release);
        } else if waiters != 0 {
            // The first of the records that were read has woken the threads that sleep for packets,
            // or was there when they checked after they had armed the ring. Until one of them arms
            // it again no packet need wake them: each would leave a wake frame, which must be
            // removed.
            own.consumer.store(position | WAKES_NONE, Release);
        } else if last.wrapping_sub(own.consumer.load(Relaxed)) >= self.size / 8 {
            // Never all of it, so that no record finds a consumer that has caught up.
            own.consumer.store(last, Release);
        }
    }

    /// A thread of the process with this slot is about to sleep on the ring's descriptor, which
    /// becomes readable with the next record. The caller has the lane's lock, and must check
    /// [`RecordRing::is_empty`] after this. Until [`RecordRing::disarm`].
    pub fn arm(&self, process: usize) {
        let own = &self.own().waiters_of[process % PROCESSES];
        own.store(own.load(Relaxed).wrapping_add(1), Relaxed);
        self.own().waiters.fetch_add(1, SeqCst);
        self.catch_up();
    }

    /// Records for which no thread sleeps wake the standby thread, of which there is one. The
    /// caller has the lane's lock. Until [`RecordRing::disarm_standby`]; each may be called again.
    ///
    /// False, and it is not armed, if something waits to be read. Only a record that finds the ring
    /// read to its end wakes, so those records would wake no thread, nor would each that follows
    /// them before they are read.
    #[must_use]
    pub fn arm_standby(&self) -> bool {
        self.own().waiters.fetch_or(STANDBY, SeqCst);
        self.catch_up();
        let armed = self.is_empty();
        if !armed {
            self.disarm_standby();
        }
        armed
    }

    /// The standby thread is not to be woken now, because a thread polls. Needs no lock: a thread
    /// that has it may arm the ring meanwhile, so the caller must check whether it has to be armed
    /// again.
    pub fn disarm_standby(&self) {
        let own = self.own();
        loop {
            own.waiters.fetch_and(!STANDBY, SeqCst);
            // At once, not with the next record that is read, which would wake the thread first.
            let position = own.consumer.load(SeqCst);
            if position & WAKES_STANDBY == 0 {
                return;
            }
            let none = position & !WAKES_STANDBY | WAKES_NONE;
            let _ = own.consumer.compare_exchange(position, none, SeqCst, Relaxed);
            if !self.standby_is_armed() {
                return;
            }
            // It was armed in between, and the position no longer says so.
        }
    }

    /// Whether records are to wake the standby thread.
    #[must_use]
    #[inline]
    pub fn standby_is_armed(&self) -> bool {
        self.own().waiters.load(SeqCst) & STANDBY != 0
    }

    /// Which thread a record wakes, as bits of the consumer position.
    fn wakes(&self) -> u64 {
        if self.own().waiters.load(SeqCst) == STANDBY { WAKES_STANDBY } else { 0 }
    }

    /// Tells the producer all that has been read.
    fn catch_up(&self) {
        let own = self.own();
        own.consumer.store(own.read.load(Relaxed) | self.wakes(), SeqCst);
        // Before the producer position is read again: the producer writes that first, and reads the
        // consumer position then.
        fence(SeqCst);
    }

    /// The thread no longer sleeps. The caller has the lane's lock. The standby thread is disarmed
    /// if something waits to be read ([`RecordRing::arm_standby`]).
    pub fn disarm(&self, process: usize) {
        let own = &self.own().waiters_of[process % PROCESSES];
        if let Some(fewer) = own.load(Relaxed).checked_sub(1) {
            own.store(fewer, Relaxed);
            self.fewer_waiters(1);
        }
    }

    /// The process with this slot is gone, and its threads with it. The caller has the lane's lock.
    pub fn forget_process(&self, process: usize) {
        match self.own().waiters_of[process % PROCESSES].swap(0, Relaxed) {
            0 => (),
            gone => self.fewer_waiters(gone),
        }
    }

    fn fewer_waiters(&self, by: u32) {
        let fewer = |n: u32| Some((n & STANDBY) | (n & !STANDBY).saturating_sub(by));
        let _ = self.own().waiters.fetch_update(SeqCst, Relaxed, fewer);
        if self.standby_is_armed() {
            let _ = self.arm_standby();
        }
    }
}
