//! The memory of a ring within one process, in safe code: for tests and simulations.

use super::{ConsumerPage, ProducerMemory, RingMemory};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A ring's memory. Both sides have it as an [`Arc`].
#[derive(Debug)]
pub struct OwnedRing {
    pub(super) page: ConsumerPage,
    pub(super) producer: AtomicU64,
    words: Vec<AtomicU32>,
}

impl OwnedRing {
    /// The memory of an empty ring of so many bytes of data, a power of two.
    #[must_use]
    pub fn new(size: usize) -> Arc<Self> {
        let words = (0..size / 4).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { page: ConsumerPage::default(), producer: AtomicU64::new(0), words })
    }

    /// Writes bytes at a position, as a hostile program might, into the midst of records.
    pub fn forge(&self, position: u64, bytes: &[u8]) {
        self.set(position, bytes);
    }

    /// Sets the producer position, as a hostile program might.
    pub fn forge_producer(&self, position: u64) {
        self.producer.store(position, SeqCst);
    }

    /// Writes bytes at a position; they wrap where the data ends.
    pub(super) fn set(&self, position: u64, bytes: &[u8]) {
        for (n, &byte) in bytes.iter().enumerate() {
            let at = (position as usize).wrapping_add(n) % (self.words.len() * 4);
            let mut word = self.words[at / 4].load(Relaxed).to_ne_bytes();
            word[at % 4] = byte;
            self.words[at / 4].store(u32::from_ne_bytes(word), Relaxed);
        }
    }
}

impl RingMemory for Arc<OwnedRing> {
    fn size(&self) -> u64 {
        self.words.len() as u64 * 4
    }

    fn consumer_page(&self) -> &ConsumerPage {
        &self.page
    }

    fn producer(&self) -> &AtomicU64 {
        &self.producer
    }

    fn readable(&self) -> u64 {
        2 * RingMemory::size(self)
    }

    fn header(&self, at: usize) -> u32 {
        assert!(at.is_multiple_of(8));
        self.words[at / 4].load(Acquire)
    }

    fn copy(&self, at: usize, to: &mut [u8]) {
        let size = self.words.len() * 4;
        assert!(at + to.len() <= 2 * size);
        for (n, byte) in to.iter_mut().enumerate() {
            let at = (at + n) % size;
            *byte = self.words[at / 4].load(Relaxed).to_ne_bytes()[at % 4];
        }
    }
}

impl ProducerMemory for Arc<OwnedRing> {
    fn size(&self) -> u64 {
        RingMemory::size(self)
    }

    fn consumer(&self) -> u64 {
        self.page.consumer()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.words.len() * 4, "no record wraps");
        self.set(at as u64, bytes);
    }

    fn publish(&self, position: u64) {
        self.producer.store(position, SeqCst);
    }
}
