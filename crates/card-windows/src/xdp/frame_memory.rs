//! The memory of frames, which the service shares with the driver: chunks of one size.
//!
//! The driver may write it at any time, so it is read and written word by word, and what is read is
//! looked at as a copy only.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of a page.
const PAGE_WORDS: usize = 512;

/// Bytes of a page.
const PAGE: usize = PAGE_WORDS * 8;

/// The driver locks whole pages, so nothing else is to be in them.
#[repr(C, align(4096))]
struct Page([AtomicU64; PAGE_WORDS]);

impl Page {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; PAGE_WORDS])
    }
}

/// So many chunks, each so long.
pub struct FrameMemory {
    pages: Box<[Page]>,
    chunk: u32,
    chunks: u32,
}

impl std::fmt::Debug for FrameMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameMemory").field("chunk", &self.chunk).field("chunks", &self.chunks).finish()
    }
}

/// Bytes of the chunks that frames of a network card need, of which the longest packet is known.
#[must_use]
pub fn chunk_for(mtu: u32) -> u32 {
    // With room for an Ethernet header and a tag. One byte more: a full chunk is a frame that was
    // cut off.
    mtu.saturating_add(14 + 4 + 1).clamp(2048, 65_536).next_power_of_two()
}

impl FrameMemory {
    /// Memory for so many chunks (at least one) of so many bytes, which are a power of two, 2048 to
    /// 65,536.
    #[must_use]
    pub fn new(chunk: u32, chunks: u32) -> Self {
        debug_assert!(chunk.is_power_of_two() && (2048..=65_536).contains(&chunk));
        let pages = (chunk as usize * chunks as usize).div_ceil(PAGE);
        Self { pages: (0..pages).map(|_| Page::new()).collect(), chunk, chunks }
    }

    /// Where it begins. It does not move.
    #[must_use]
    pub fn address(&self) -> *const u8 {
        self.pages.as_ptr().cast()
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.chunk) * u64::from(self.chunks)
    }

    /// Bytes of a chunk.
    #[must_use]
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// How many there are.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The address of a chunk in this memory, as rings have it.
    #[must_use]
    pub fn address_of(&self, chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(self.chunk)
    }

    /// The chunk that begins at an address; `None`: none does.
    #[must_use]
    pub fn chunk_at(&self, address: u64) -> Option<u32> {
        let is_begin = address.is_multiple_of(self.chunk.into()) && address < self.size();
        is_begin.then(|| (address / u64::from(self.chunk)) as u32)
    }

    fn words(&self, chunk: u32, bytes: usize) -> Option<impl Iterator<Item = &AtomicU64>> {
        if chunk >= self.chunks || bytes > self.chunk as usize {
            return None;
        }
        // A chunk lies in one page, or is a number of whole ones.
        let first = chunk as usize * (self.chunk as usize / 8);
        Some((first..first + bytes.div_ceil(8)).map(|word| &self.pages[word / PAGE_WORDS].0[word % PAGE_WORDS]))
    }

    /// Copies the beginning of a chunk. Returns whether there is such a chunk, which is as long.
    #[must_use]
    pub fn read(&self, chunk: u32, bytes: &mut [u8]) -> bool {
        let Some(words) = self.words(chunk, bytes.len()) else { return false };
        for (part, word) in bytes.chunks_mut(8).zip(words) {
            part.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..part.len()]);
        }
        true
    }

    /// Writes the beginning of a chunk. Returns whether there is such a chunk, which is as long.
    #[must_use]
    pub fn write(&self, chunk: u32, bytes: &[u8]) -> bool {
        let Some(words) = self.words(chunk, bytes.len()) else { return false };
        for (part, word) in bytes.chunks(8).zip(words) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_hold_the_longest_packet() {
        for (mtu, chunk) in [(0, 2048), (1500, 2048), (2029, 2048), (2030, 4096), (9000, 16_384), (u32::MAX, 65_536)] {
            assert_eq!(chunk_for(mtu), chunk, "{mtu}");
        }
    }

    #[test]
    fn it_begins_at_a_page_and_refuses_what_lies_outside() {
        let memory = FrameMemory::new(2048, 3);
        assert!(memory.address().addr().is_multiple_of(PAGE));
        assert_eq!((memory.size(), memory.chunk(), memory.chunks()), (6144, 2048, 3));
        assert_eq!(memory.chunk_at(4096), Some(2));
        for address in [1, 2047, 6144, u64::MAX, u64::MAX - 2047] {
            assert_eq!(memory.chunk_at(address), None);
        }
        assert!(!memory.read(3, &mut [0]) && !memory.write(u32::MAX, &[0]));
        assert!(!memory.read(0, &mut [0; 2049]) && !memory.write(0, &[0; 2049]));
        assert!(memory.read(2, &mut [0; 2048]) && memory.write(2, &[0; 2048]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_other_chunks_stay(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let memory = FrameMemory::new(2048, 3);
            prop_assert!(memory.write(1, &bytes));
            let mut read = vec![0; bytes.len()];
            prop_assert!(memory.read(1, &mut read));
            prop_assert_eq!(read, bytes);
            for other in [0, 2] {
                let mut all = vec![1; 2048];
                prop_assert!(memory.read(other, &mut all));
                prop_assert!(all.iter().all(|byte| *byte == 0));
            }
        }
    }
}
