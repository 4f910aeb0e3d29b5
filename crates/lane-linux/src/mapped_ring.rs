//! The memory of a receive ring ([`tickwire_lane::record_ring`]) on Linux: a BPF ring buffer,
//! filled by divert (`bpf/ring.h`), mapped by the program.
//!
//! The kernel owns the producer position and the data, which are mapped read-only. Of the consumer
//! page it reads the first word, and nothing else.

use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicU32, AtomicU64};
use tickwire_lane::record_ring::{ConsumerPage, RingMemory};
use tickwire_stack::memory::PAGE;

/// The page that the kernel writes.
#[repr(C)]
struct ProducerPage {
    producer: AtomicU64,
}

/// A ring buffer in this process's memory.
#[derive(Debug)]
pub struct MappedRing {
    map: OwnedFd,
    own: Mapping,
    /// The producer page, and behind it the data twice, so that no record wraps.
    kernels: Mapping,
    /// Bytes of data.
    size: u64,
}

impl MappedRing {
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
}

impl RingMemory for MappedRing {
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn consumer_page(&self) -> &ConsumerPage {
        // SAFETY: a page that stays mapped for as long as `self` lives; all atomics, valid for any
        // bytes.
        unsafe { self.own.at::<ConsumerPage>(0, 1).as_ref() }
    }

    #[inline]
    fn producer(&self) -> &AtomicU64 {
        // SAFETY: as above; read only.
        unsafe { &self.kernels.at::<ProducerPage>(0, 1).as_ref().producer }
    }

    #[inline]
    fn readable(&self) -> u64 {
        2 * self.size
    }

    #[inline]
    fn header(&self, at: usize) -> u32 {
        // SAFETY: inside the mapping and aligned (checked by `at`), an atomic, valid for any bytes.
        unsafe { self.kernels.at::<AtomicU32>(PAGE + at, 1).as_ref() }.load(Acquire)
    }

    #[inline]
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
}

impl AsFd for MappedRing {
    /// The ring buffer: readable when something is to be read, while it is armed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
