//! The receive ring of a lane: a ring of records that a producer fills (on Linux the kernel, by
//! divert: `bpf/ring.h`) and the lane's processes read.
//!
//! The producer owns its position and the data, which are mapped read-only. The consumer page is
//! the lane's own: the producer reads the first word of it, the consumer position, and nothing
//! else. The lane's processes keep beside it how far they have read. They use the ring under the
//! lane's lock.
//!
//! **Wakeups.** When a record is committed, waiters are woken only if the consumer position had
//! reached that record: by a frame that divert sends to the lane's TAP device, or by the ring's own
//! descriptor (`bpf/ring.h`). So while threads poll, the position is held back, and records cost no
//! wakeup. Before a thread sleeps it publishes the true position ([`RxRing::arm`]) and checks the
//! ring once more. It sleeps on both descriptors. The ring's is readable while there is something
//! to read, the device's while wake frames wait there. Wake frames that a sleep leaves behind make
//! the next wakeup spurious, unless they are removed before. So one is sent to waiters, and no
//! more until one of them arms the ring again. While no thread sleeps so and none polls, the
//! position's lowest bits have the standby thread woken ([`crate::duty`]).
//!
//! Nothing here is trusted: a position that another process of the lane has overwritten yields an
//! empty ring or a skipped record, never an access outside.

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

    /// Copies bytes out of the data, which lies twice, one behind the other, so that no record
    /// wraps. Copies nothing if they are not inside of it.
    fn copy(&self, at: usize, to: &mut [u8]);
}

/// A lane's receive ring in one process.
#[derive(Debug)]
pub struct RxRing<M> {
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

impl<M: RingMemory> RxRing<M> {
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
        if header & DISCARDED != 0 || len < RECORD as u64 {
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
    /// [`RxRing::is_empty`] after this. Until [`RxRing::disarm`].
    pub fn arm(&self, process: usize) {
        let own = &self.own().waiters_of[process % PROCESSES];
        own.store(own.load(Relaxed).wrapping_add(1), Relaxed);
        self.own().waiters.fetch_add(1, SeqCst);
        self.catch_up();
    }

    /// Records for which no thread sleeps wake the standby thread, of which there is one. The
    /// caller has the lane's lock. Until [`RxRing::disarm_standby`]; each may be called again.
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
    /// if something waits to be read ([`RxRing::arm_standby`]).
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SIZE: u64 = 4096;

    /// A ring whose producer is the test.
    pub(crate) struct Memory {
        page: ConsumerPage,
        producer: AtomicU64,
        words: Vec<AtomicU32>,
    }

    impl RingMemory for Memory {
        fn size(&self) -> u64 {
            SIZE
        }
        fn consumer_page(&self) -> &ConsumerPage {
            &self.page
        }
        fn producer(&self) -> &AtomicU64 {
            &self.producer
        }
        fn header(&self, at: usize) -> u32 {
            assert!(at.is_multiple_of(8));
            self.words[at / 4].load(Acquire)
        }
        fn copy(&self, at: usize, to: &mut [u8]) {
            assert!(at + to.len() <= 2 * SIZE as usize);
            for (n, byte) in to.iter_mut().enumerate() {
                let at = (at + n) % SIZE as usize;
                *byte = self.words[at / 4].load(Relaxed).to_ne_bytes()[at % 4];
            }
        }
    }

    impl Memory {
        fn set(&self, position: u64, bytes: &[u8]) {
            for (n, &byte) in bytes.iter().enumerate() {
                let at = ((position & (SIZE - 1)) as usize + n) % SIZE as usize;
                let mut word = self.words[at / 4].load(Relaxed).to_ne_bytes();
                word[at % 4] = byte;
                self.words[at / 4].store(u32::from_ne_bytes(word), Relaxed);
            }
        }

        /// A record with this first word of its header.
        fn record(&self, header: u32, bytes: &[u8]) {
            let position = self.producer.load(Relaxed);
            self.set(position, &[&header.to_ne_bytes()[..], &[0; 4], bytes].concat());
            self.producer.store(position.wrapping_add((bytes.len() as u64 + HEADER + 7) & !7), Release);
        }

        /// A frame, as divert puts it into the ring. Returns the bits of the consumer position that
        /// say which thread it wakes; `None` if the position has not caught up with it.
        pub(crate) fn put(&self, frame: &[u8]) -> Option<u64> {
            let position = self.producer.load(Relaxed);
            let consumer = self.page.consumer.load(SeqCst);
            let bytes = described(frame.len() as u32, frame);
            self.record(bytes.len() as u32, &bytes);
            (consumer & !7 == position).then_some(consumer & 7)
        }
    }

    /// What lies in a record: a frame's description, and the frame.
    fn described(len: u32, frame: &[u8]) -> Vec<u8> {
        let mut bytes = 5_u64.to_ne_bytes().to_vec();
        bytes.extend(len.to_ne_bytes());
        bytes.extend(100_u16.to_ne_bytes());
        bytes.extend(CHECKSUM_GOOD.to_ne_bytes());
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(frame);
        bytes
    }

    pub(crate) fn ring() -> RxRing<Memory> {
        let words = (0..SIZE / 4).map(|_| AtomicU32::new(0)).collect();
        RxRing::new(Memory { page: ConsumerPage::default(), producer: AtomicU64::new(0), words })
    }

    fn frames(ring: &RxRing<Memory>) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let count = ring.read(64, |packet, read| {
            let mut frame = vec![0; packet.len as usize];
            read(0, &mut frame);
            got.push(frame);
        });
        assert_eq!(count as usize, got.len());
        got
    }

    #[test]
    fn frames_come_out_as_they_were_put_in_and_none_wraps() {
        let ring = ring();
        assert!(ring.is_empty());
        for n in 0..200_u32 {
            let frame: Vec<u8> = (0..60 + n).map(|at| (at + n) as u8).collect();
            ring.memory().put(&frame);
            assert!(!ring.is_empty());
            assert_eq!(frames(&ring), [frame]);
            assert!(ring.is_empty());
        }
        ring.memory().put(&[7; 60]);
        let mut seen = None;
        ring.read(1, |packet, _| seen = Some(packet));
        let at = Instant::from_nanos(5);
        assert_eq!(seen, Some(ReceiveMetadata { len: 60, segment: 100, checksum: Checksum::Good, at, interface: 3 }));
    }

    #[test]
    fn at_most_as_many_records_are_read_as_are_wanted_and_none_before_it_is_complete() {
        let ring = ring();
        for n in 0..3 {
            ring.memory().put(&[n; 60]);
        }
        assert_eq!(ring.read(2, |_, _| ()), 2);
        let position = ring.memory().producer.load(Relaxed);
        ring.memory().record(BUSY | 84, &described(60, &[9; 60]));
        assert_eq!(frames(&ring), [[2_u8; 60]]);
        assert!(frames(&ring).is_empty() && !ring.is_empty());
        ring.memory().set(position, &84_u32.to_ne_bytes());
        assert_eq!(frames(&ring), [[9_u8; 60]]);
    }

    #[test]
    fn what_is_no_frame_is_skipped() {
        let ring = ring();
        ring.memory().record(DISCARDED | 84, &described(60, &[1; 60]));
        ring.memory().record(8, &[0; 8]);
        // More than the record has.
        ring.memory().record(84, &described(61, &[1; 60]));
        ring.memory().put(&[2; 60]);
        assert_eq!(frames(&ring), [[2_u8; 60]]);
        assert!(ring.is_empty());
    }

    #[test]
    fn whatever_is_written_into_the_memory_no_read_goes_outside_and_the_ring_recovers() {
        let ring = ring();
        for read in [1, 7, 8, SIZE - 1, SIZE + 8, 1 << 40, u64::MAX - 7, u64::MAX] {
            for header in [0, 1, 84, SIZE as u32 - 8, SIZE as u32, BUSY - 1, u32::MAX, BUSY, DISCARDED] {
                for behind in [0, 8, 96, SIZE, SIZE + 1, u64::MAX] {
                    ring.memory().page.read.store(read, Relaxed);
                    ring.memory().producer.store(read.wrapping_add(behind), Relaxed);
                    ring.memory().set(read & !7, &header.to_ne_bytes());
                    frames(&ring);
                    ring.forge_consumer(read);
                    ring.arm(read as usize);
                    ring.disarm(read as usize);
                }
            }
            // The producer goes on from where it was.
            ring.memory().producer.store(read & !7, Relaxed);
            frames(&ring);
            ring.memory().page.read.store(read & !7, Relaxed);
            ring.memory().put(&[4; 60]);
            assert_eq!(frames(&ring), [[4_u8; 60]]);
        }
    }

    #[test]
    fn a_record_wakes_waiters_only_while_the_ring_is_armed_and_never_while_threads_poll() {
        let ring = ring();
        assert_eq!(ring.memory().put(&[0; 60]), Some(0), "nothing has been read yet");
        for _ in 0..100 {
            frames(&ring);
            assert_eq!(ring.memory().put(&[0; 60]), None, "a thread polls");
        }
        frames(&ring);
        ring.arm(3);
        assert!(ring.is_empty());
        assert_eq!(ring.memory().put(&[0; 60]), Some(0));
        // Another thread reads it before the woken one is awake.
        frames(&ring);
        assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_NONE));
        frames(&ring);
        ring.disarm(3);
        ring.arm(3);
        assert_eq!(ring.memory().put(&[0; 60]), Some(0));
    }

    #[test]
    fn the_standby_thread_is_woken_while_none_sleeps_for_packets_and_none_polls() {
        let ring = ring();
        assert!(ring.arm_standby() && ring.standby_is_armed());
        assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_STANDBY));
        assert!(!ring.arm_standby(), "something waits to be read");
        frames(&ring);
        assert!(ring.arm_standby());
        ring.arm(1);
        assert_eq!(ring.memory().put(&[0; 60]), Some(0), "one that sleeps for packets");
        frames(&ring);
        // It was killed in its sleep.
        ring.forget_process(1);
        assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_STANDBY));
        frames(&ring);
        ring.disarm_standby();
        assert_eq!(ring.memory().put(&[0; 60]), Some(WAKES_NONE), "a thread polls");
    }
}
