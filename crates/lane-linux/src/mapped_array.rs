//! A BPF array in this process's memory, so that changing it needs no system call.

use crate::mapping::Mapping;
use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use tickwire_stack::memory::PAGE;

/// The words of an array that was made with `BPF_F_MMAPABLE`.
#[derive(Debug)]
pub struct MappedArray {
    mapping: Mapping,
    len: u32,
}

impl MappedArray {
    /// Maps an array of so many 64-bit words.
    ///
    /// # Errors
    /// If it is none, or shorter; the kernel's error.
    pub fn map(array: BorrowedFd<'_>, len: u32) -> io::Result<Self> {
        let bytes = (len as usize * size_of::<u64>()).next_multiple_of(PAGE);
        let mapping = Mapping::new(array, 0, bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        Ok(Self { mapping, len })
    }

    fn word(&self, index: u32) -> Option<&AtomicU64> {
        // SAFETY: inside the mapping, which lives as long as `self`; an atomic, valid for any
        // bytes, that the kernel's programs read and no other process writes.
        (index < self.len)
            .then(|| unsafe { self.mapping.at::<AtomicU64>(index as usize * size_of::<u64>(), 1).as_ref() })
    }

    /// Flips bits of a word; nothing happens if there is no such word.
    pub fn flip(&self, index: u32, bits: u64) {
        if let Some(word) = self.word(index) {
            word.fetch_xor(bits, SeqCst);
        }
    }
}
