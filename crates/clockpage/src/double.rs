//! Two buffers and a sequence number: a reader never blocks and never accepts a torn value.
//!
//! The number is 2k while buffer k mod 2 holds the newest values, and 2k + 1 while the writer fills
//! the other one. A reader that loads 2k or 2k + 1 uses buffer k mod 2. Its copy is consistent
//! unless the writer has meanwhile begun to fill that same buffer, at 2k + 3. So a writer that dies
//! in the middle leaves the previous values to its readers, and a reader retries only after two
//! publications within one read.
//!
//! The memory orderings are those of a sequence lock (Boehm, "Can seqlocks get along with
//! programming language memory models?", 2012).

use core::sync::atomic::{AtomicU64, Ordering};

/// The shared words of the protocol. The model checker implements them with its own atomics.
pub trait Words {
    /// Loads a word.
    fn load(&self, index: usize, ordering: Ordering) -> u64;
    /// Stores a word.
    fn store(&self, index: usize, value: u64, ordering: Ordering);
    /// A fence.
    fn fence(ordering: Ordering);
}

impl<const N: usize> Words for [AtomicU64; N] {
    #[inline]
    fn load(&self, index: usize, ordering: Ordering) -> u64 {
        self[index].load(ordering)
    }

    #[inline]
    fn store(&self, index: usize, value: u64, ordering: Ordering) {
        self[index].store(value, ordering);
    }

    #[inline]
    fn fence(ordering: Ordering) {
        core::sync::atomic::fence(ordering);
    }
}

/// Offsets of the parts, in words.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The sequence number.
    pub sequence: usize,
    /// The two buffers.
    pub buffers: [usize; 2],
}

impl Places {
    /// Publishes values. There must be one writer only.
    pub fn publish<W: Words + ?Sized, const N: usize>(self, words: &W, values: &[u64; N]) {
        // A writer that died in the middle left an odd number: its buffer is filled again.
        let filling = words.load(self.sequence, Ordering::Relaxed) | 1;
        // Release as well: a reader may load this number first and then reads the values published
        // before it.
        words.store(self.sequence, filling, Ordering::Release);
        W::fence(Ordering::Release);
        let next = filling.wrapping_add(1);
        let base = self.buffer(next);
        for (i, value) in values.iter().enumerate() {
            words.store(base + i, *value, Ordering::Relaxed);
        }
        words.store(self.sequence, next, Ordering::Release);
    }

    /// Reads the newest values, and calls `with` between the first and the last load of the
    /// sequence number. `None` if the writer published twice meanwhile, `tries` times in a row.
    #[inline]
    pub fn read<W: Words + ?Sized, T, const N: usize>(
        self,
        words: &W,
        tries: u32,
        mut with: impl FnMut() -> T,
    ) -> Option<([u64; N], T)> {
        for _ in 0..tries {
            let before = words.load(self.sequence, Ordering::Acquire) & !1;
            let base = self.buffer(before);
            let values = core::array::from_fn(|i| words.load(base + i, Ordering::Relaxed));
            let beside = with();
            W::fence(Ordering::Acquire);
            let after = words.load(self.sequence, Ordering::Relaxed);
            if after.wrapping_sub(before) <= 2 {
                return Some((values, beside));
            }
        }
        None
    }

    #[inline]
    const fn buffer(self, sequence: u64) -> usize {
        // One of two constants instead of an index, so that the compiler can drop the bounds
        // checks.
        if sequence & 2 == 0 { self.buffers[0] } else { self.buffers[1] }
    }
}
