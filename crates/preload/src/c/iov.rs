//! The program's buffers: scatter-gather lists as the stack's [`Source`] and [`Sink`].

use crate::base::errno::{Errno, Result};
use core::marker::PhantomData;
use libc::{iovec, size_t};
use tickwire_stack::{Sink, Source};

/// The most buffers of one call, as in Linux (`UIO_MAXIOV`).
pub(crate) const MAX_BUFFERS: usize = 1024;

/// A cursor over the program's buffers. The bytes may be changed by other threads of the program at any time, so they are never
/// seen as slices, only copied.
pub(crate) struct Buffers<'a> {
    iov: *const iovec,
    count: usize,
    at: usize,
    offset: usize,
    left: usize,
    total: usize,
    program: PhantomData<&'a iovec>,
}

impl<'a> Buffers<'a> {
    /// The buffers of a vector call.
    ///
    /// # Errors
    /// `EINVAL` if there are too many, or they are longer than a length can say.
    ///
    /// # Safety
    /// `iov` points to `count` entries, and each entry to as many bytes as it says, all valid (and writable, to receive) for `'a`.
    pub(crate) unsafe fn new(iov: *const iovec, count: usize) -> Result<Self> {
        if count > MAX_BUFFERS || (iov.is_null() && count > 0) {
            return Err(Errno(if iov.is_null() { libc::EFAULT } else { libc::EINVAL }));
        }
        let mut total = 0usize;
        for i in 0..count {
            // SAFETY: in bounds by the caller's promise.
            let entry = unsafe { &*iov.add(i) };
            total =
                total.checked_add(entry.iov_len).filter(|&t| t <= isize::MAX as usize).ok_or(Errno(libc::EINVAL))?;
            if entry.iov_base.is_null() && entry.iov_len > 0 {
                return Err(Errno(libc::EFAULT));
            }
        }
        Ok(Self { iov, count, at: 0, offset: 0, left: total, total, program: PhantomData })
    }

    /// The list, for the kernel's own call.
    pub(crate) fn raw(&self) -> (*const iovec, usize) {
        (self.iov, self.count)
    }

    /// Bytes of all buffers together.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Bytes passed so far.
    pub(crate) fn done(&self) -> usize {
        self.total - self.left
    }

    /// Back to the first byte.
    pub(crate) fn rewind(&mut self) {
        (self.at, self.offset, self.left) = (0, 0, self.total);
    }

    /// Walks over up to `len` bytes, piece by piece: `copy(piece, done_before)`.
    fn walk(&mut self, len: usize, mut copy: impl FnMut(*mut u8, usize, usize)) -> usize {
        let len = len.min(self.left);
        let mut done = 0;
        while done < len {
            // SAFETY: `left` counts the bytes behind the cursor, so `at` is in bounds while it is not zero.
            let entry = unsafe { &*self.iov.add(self.at) };
            let n = (entry.iov_len - self.offset).min(len - done);
            if n > 0 {
                copy(entry.iov_base.cast::<u8>().wrapping_add(self.offset), n, done);
            }
            done += n;
            self.offset += n;
            if self.offset == entry.iov_len {
                self.at += 1;
                self.offset = 0;
            }
        }
        self.left -= done;
        done
    }
}

impl Source for Buffers<'_> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        let room = into.len();
        let to = into.as_mut_ptr();
        self.walk(room, |piece, n, done| {
            // SAFETY: `piece` holds `n` readable bytes by the promise of `new`, and `into` has room for `done + n`.
            unsafe { core::ptr::copy(piece, to.add(done), n) };
        })
    }
}

impl Sink for Buffers<'_> {
    fn room(&self) -> usize {
        self.left
    }

    fn write(&mut self, from: &[u8]) -> usize {
        let bytes = from.as_ptr();
        self.walk(from.len(), |piece, n, done| {
            // SAFETY: `piece` has room for `n` bytes by the promise of `new`, and `from` holds `done + n`.
            unsafe { core::ptr::copy(bytes.add(done), piece, n) };
        })
    }
}

/// One buffer as a list of one.
pub(crate) fn one(buffer: *const libc::c_void, len: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cross_the_borders_of_buffers_and_empty_ones_are_skipped() {
        let mut a = [0u8; 3];
        let mut b = [0u8; 0];
        let mut c = [0u8; 4];
        let iov =
            [one(a.as_mut_ptr().cast(), 3)[0], one(b.as_mut_ptr().cast(), 0)[0], one(c.as_mut_ptr().cast(), 4)[0]];
        // SAFETY: the buffers live as long as the cursor.
        let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 3) }.unwrap();
        assert_eq!(buffers.write(b"abcde"), 5);
        assert_eq!(buffers.write(b"fgh"), 2);
        assert_eq!((buffers.done(), buffers.room()), (7, 0));
        buffers.rewind();
        let mut all = [0u8; 7];
        assert_eq!(buffers.read(&mut all), 7);
        assert_eq!(&all, b"abcdefg");
    }
}
