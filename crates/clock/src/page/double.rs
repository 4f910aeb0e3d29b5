//! Two buffers and a sequence number: a reader never waits, and never takes a torn value for a
//! whole one.
//!
//! The number is 2k while buffer k mod 2 holds the newest values, and 2k + 1 while the writer fills
//! the other one. A reader that found 2k or 2k + 1 uses buffer k mod 2; what it read is whole
//! unless the writer has begun to fill that very buffer meanwhile, at 2k + 3. So a writer that dies
//! in the middle leaves its readers the values before, for ever, and a reader tries again only
//! after two publications within one read.
//!
//! The orderings are those of a sequence lock (Boehm, "Can seqlocks get along with programming
//! language memory models?", 2012).

use core::sync::atomic::{AtomicU64, Ordering};

/// Shared words, as the protocol sees them; a model checker has its own.
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

/// Where the parts lie, in words.
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
        // One that died in the middle left an odd number: its buffer is filled again.
        let filling = words.load(self.sequence, Ordering::Relaxed) | 1;
        // Release, too: a reader may find this number first, and then it takes the values that were
        // published before it.
        words.store(self.sequence, filling, Ordering::Release);
        W::fence(Ordering::Release);
        let next = filling.wrapping_add(1);
        let base = self.buffer(next);
        for (i, value) in values.iter().enumerate() {
            words.store(base + i, *value, Ordering::Relaxed);
        }
        words.store(self.sequence, next, Ordering::Release);
    }

    /// Reads the newest values, and `with` between their first and their last look. `None` if the
    /// writer published twice meanwhile, `tries` times in a row.
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
        // One of two constants rather than an index, so that the compiler sees that no load is out
        // of bounds.
        if sequence & 2 == 0 { self.buffers[0] } else { self.buffers[1] }
    }
}
