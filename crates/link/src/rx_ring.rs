//! The receive ring of a lane: a BPF ring buffer, filled by divert (`bpf/ring.h`), mapped by the
//! program.
//!
//! The kernel owns the producer position and the data, which are mapped read-only. The consumer
//! page is the lane's own: the kernel reads the first word of it, the consumer position, and
//! nothing else. The lane's processes keep beside it how far they have read. They use the ring
//! under the lane's lock.
//!
//! **Wakeups.** When a record is committed, sleepers are woken only if the consumer position had
//! reached that record: by a frame that divert sends to the lane's TAP device, or by the ring's own
//! descriptor (`bpf/ring.h`). So while threads poll, the position is held back, and records cost no
//! wakeup. Before a thread sleeps it publishes the true position ([`RxRing::arm`]) and checks the
//! ring once more. It sleeps on both descriptors. The ring's is readable while there is something
//! to read, the device's while wake frames wait there. Wake frames that a sleep leaves behind make
//! the next wakeup spurious, unless they are removed before. So one is sent to sleepers, and no
//! more until one of them arms the ring again. While no thread sleeps so and none polls, the
//! position's lowest bits have the standby thread woken ([`crate::standby_ring`]).
//!
//! Nothing here is trusted: a position that another process of the lane has overwritten yields an
//! empty ring or a skipped record, never an access outside.

use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use tickwire_stack::memory::PAGE;
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, Received};

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

/// Set among the sleepers while the next record is to wake the standby thread.
const STANDBY: u32 = 1 << 31;

/// In the consumer position (`RX_STANDBY`, `RX_POLLED` of `bpf/ring.h`): a record wakes the standby
/// thread, or none.
const WAKES_STANDBY: u64 = 1;
const WAKES_NONE: u64 = 2;

/// The page that the lane's processes write.
#[repr(C)]
struct ConsumerPage {
    /// The consumer position, which the kernel reads.
    consumer: AtomicU64,
    line: [u64; 15],
    /// How far the lane's processes have read, at or ahead of the consumer position.
    read: AtomicU64,
    /// How many threads sleep on the ring, or are about to; and [`STANDBY`].
    sleepers: AtomicU32,
    /// How many of them are of each process of the lane, by its slot: they no longer count when it
    /// has been killed in its sleep.
    sleepers_of: [AtomicU32; PROCESSES],
}

/// Slots for the processes of a lane.
const PROCESSES: usize = 64;

/// The page that the kernel writes.
#[repr(C)]
struct ProducerPage {
    /// Where the next record will begin.
    producer: AtomicU64,
}

/// A lane's receive ring in one process.
#[derive(Debug)]
pub struct RxRing {
    map: OwnedFd,
    own: Mapping,
    /// The producer page, and behind it the data twice, so that no record wraps.
    kernels: Mapping,
    /// Bytes of data.
    size: u64,
}

// SAFETY: the memory is shared with the kernel and other processes anyway. It is accessed by
// atomics, and by copies out of it that any bytes are valid for.
unsafe impl Send for RxRing {}
// SAFETY: as above.
unsafe impl Sync for RxRing {}

/// A record that has been read up to: where its frame lies.
#[derive(Clone, Copy, Debug)]
struct Record {
    packet: Received,
    /// Where the frame begins in the data.
    at: usize,
}

impl RxRing {
    /// Maps the ring buffer `map`, of `size` bytes, a power of two.
    ///
    /// # Errors
    /// If it is none, or of another size; the kernel's error.
    pub fn map(map: OwnedFd, size: u32) -> io::Result<Self> {
        if !size.is_power_of_two() || (size as usize) < PAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (writable, present) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_POPULATE);
        let own = Mapping::new(map.as_fd(), 0, PAGE, writable, present)?;
        let kernels = Mapping::new(map.as_fd(), PAGE, PAGE + 2 * size as usize, libc::PROT_READ, present)?;
        Ok(Self { map, own, kernels, size: size.into() })
    }

    fn own(&self) -> &ConsumerPage {
        // SAFETY: a page that stays mapped for as long as `self` lives; all atomics, valid for any
        // bytes.
        unsafe { self.own.at::<ConsumerPage>(0, 1).as_ref() }
    }

    fn kernels(&self) -> &ProducerPage {
        // SAFETY: as above; read only.
        unsafe { self.kernels.at::<ProducerPage>(0, 1).as_ref() }
    }

    /// Whether nothing waits to be read. A hint without the lock, for polling threads.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.kernels().producer.load(Relaxed) == self.own().read.load(Relaxed)
    }

    /// How many bytes wait, records' headers included.
    fn waiting(&self) -> u64 {
        let waiting = self.kernels().producer.load(Acquire).wrapping_sub(self.own().read.load(Relaxed));
        if waiting > self.size {
            // No reader has been at this position.
            self.own().read.store(self.kernels().producer.load(Acquire), Relaxed);
            return 0;
        }
        waiting
    }

    /// Sets the consumer position, as a hostile program might: to test whether the kernel
    /// withstands that.
    pub fn forge_consumer(&self, position: u64) {
        self.own().consumer.store(position, SeqCst);
    }

    /// Copies bytes out of the data.
    fn copy(&self, at: usize, to: &mut [u8]) {
        let data = 2 * self.size as usize;
        if at > data || to.len() > data - at {
            return;
        }
        // SAFETY: inside the mapping, as was just checked; any bytes are valid. The kernel does not
        // change a record before the consumer position has passed it; a process of the same lane
        // that moves this tears its own packets, which are parsed from the copy only.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.kernels.at::<u8>(PAGE + at, to.len()).as_ptr(),
                to.as_mut_ptr(),
                to.len(),
            )
        };
    }

    /// The record at a position where `waiting` bytes wait, and its length. `None`: it is not
    /// complete yet.
    fn record(&self, position: u64, waiting: u64) -> Option<(Option<Record>, u64)> {
        let at = (position & (self.size - 1)) as usize & !7;
        // SAFETY: in the data, as the mask says, and aligned.
        let header = unsafe { self.kernels.at::<AtomicU32>(PAGE + at, 1).as_ref() }.load(Acquire);
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
        self.copy(at, &mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, s0, s1, f0, f1, n0, n1, n2, n3, ..] = bytes;
        let flags = u16::from_ne_bytes([f0, f1]);
        let checksum = match flags {
            _ if flags & CHECKSUM_GOOD != 0 => Checksum::Good,
            _ if flags & CHECKSUM_MAYBE_PARTIAL != 0 => Checksum::MaybePartial,
            _ => Checksum::Unknown,
        };
        let packet = Received {
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
    pub fn read(&self, most: u32, mut take: impl FnMut(Received, &mut dyn FnMut(usize, &mut [u8]))) -> u32 {
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
                take(packet, &mut |from, to| self.copy(at + from, to));
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

    /// Returns the room of what has been read up to `position` to the kernel; the last record began
    /// at `last`.
    fn publish(&self, last: u64, position: u64) {
        let own = self.own();
        let sleepers = own.sleepers.load(Relaxed);
        if sleepers == STANDBY {
            own.consumer.store(position | WAKES_STANDBY, Release);
        } else if sleepers != 0 {
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
        let own = &self.own().sleepers_of[process % PROCESSES];
        own.store(own.load(Relaxed).wrapping_add(1), Relaxed);
        self.own().sleepers.fetch_add(1, SeqCst);
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
        self.own().sleepers.fetch_or(STANDBY, SeqCst);
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
            own.sleepers.fetch_and(!STANDBY, SeqCst);
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
        self.own().sleepers.load(SeqCst) & STANDBY != 0
    }

    /// Which thread a record wakes, as bits of the consumer position.
    fn wakes(&self) -> u64 {
        if self.own().sleepers.load(SeqCst) == STANDBY { WAKES_STANDBY } else { 0 }
    }

    /// Tells the kernel all that has been read.
    fn catch_up(&self) {
        let own = self.own();
        own.consumer.store(own.read.load(Relaxed) | self.wakes(), SeqCst);
        // Before the producer position is read again: the kernel writes that first, and reads the
        // consumer position then.
        fence(SeqCst);
    }

    /// The thread no longer sleeps. The caller has the lane's lock. The standby thread is disarmed
    /// if something waits to be read ([`RxRing::arm_standby`]).
    pub fn disarm(&self, process: usize) {
        let own = &self.own().sleepers_of[process % PROCESSES];
        if let Some(fewer) = own.load(Relaxed).checked_sub(1) {
            own.store(fewer, Relaxed);
            self.fewer_sleepers(1);
        }
    }

    /// The process with this slot is gone, and its threads with it. The caller has the lane's lock.
    pub fn forget_process(&self, process: usize) {
        match self.own().sleepers_of[process % PROCESSES].swap(0, Relaxed) {
            0 => (),
            gone => self.fewer_sleepers(gone),
        }
    }

    fn fewer_sleepers(&self, by: u32) {
        let fewer = |n: u32| Some((n & STANDBY) | (n & !STANDBY).saturating_sub(by));
        let _ = self.own().sleepers.fetch_update(SeqCst, Relaxed, fewer);
        if self.standby_is_armed() {
            let _ = self.arm_standby();
        }
    }
}

impl AsFd for RxRing {
    /// The ring buffer: readable when something is to be read, while it is armed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
