//! Wakes the standby thread of a lane: a small BPF ring buffer, whose descriptor becomes readable
//! when a packet arrives while no thread polls, and none sleeps for packets (`bpf/wake.h`). It
//! carries no data.
//!
//! The receive ring's consumer position tells when that is so ([`tickwire_lane::record_ring`]),
//! without a system call.

use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, SeqCst};
use tickwire_stack::memory::PAGE;

/// Bytes of the ring: the smallest possible.
pub const STANDBY_RING_BYTES: u32 = PAGE as u32;

/// A lane's standby ring in one process.
#[derive(Debug)]
pub struct StandbyRing {
    map: OwnedFd,
    /// The page with the consumer position, which the lane's processes write.
    own: Mapping,
    /// The page with the producer position.
    kernels: Mapping,
}

impl StandbyRing {
    /// Maps the ring buffer `map`.
    ///
    /// # Errors
    /// If it is none; the kernel's error.
    pub fn map(map: OwnedFd) -> io::Result<Self> {
        let own = Mapping::new(map.as_fd(), 0, PAGE, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_POPULATE)?;
        let kernels = Mapping::new(map.as_fd(), PAGE, PAGE, libc::PROT_READ, libc::MAP_POPULATE)?;
        Ok(Self { map, own, kernels })
    }

    /// The standby thread is awake, and about to read packets: the next one that arrives while a
    /// thread stands by wakes again.
    pub fn drain(&self) {
        // SAFETY: pages that stay mapped for as long as `self` lives; atomics, valid for any bytes.
        let (consumer, producer) =
            unsafe { (self.own.at::<AtomicU64>(0, 1).as_ref(), self.kernels.at::<AtomicU64>(0, 1).as_ref()) };
        consumer.store(producer.load(Acquire), SeqCst);
    }
}

impl AsFd for StandbyRing {
    /// The ring buffer: readable from a wakeup until it is drained.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
