//! The program's buffers: scatter-gather lists as the stack's [`SendSource`] and [`Sink`].

use super::guarded;
use crate::sys::errno::{Errno, Result};
use core::marker::PhantomData;
use libc::{iovec, size_t};
use tickwire_stack::{SendSource, Sink};

/// The most buffers of one call, as in Linux (`UIO_MAXIOV`).
pub(crate) const MAX_BUFFERS: usize = 1024;

/// A cursor over the program's buffers. Other threads of the program may change the bytes at any
/// time, so they are never used as slices, only copied. They may not be mapped at all, which the
/// copy detects.
pub(crate) struct Buffers<'a> {
    iov: *const iovec,
    count: usize,
    at: usize,
    offset: usize,
    left: usize,
    total: usize,
    failed: bool,
    program: PhantomData<&'a iovec>,
}

impl<'a> Buffers<'a> {
    /// The buffers of a vector call.
    ///
    /// # Errors
    /// `EINVAL` if there are too many, or their total exceeds a length; `EFAULT` if the list is not
    /// accessible.
    ///
    /// # Safety
    /// `iov` points to `count` entries, if it is accessible at all, and stays unchanged for `'a`.
    /// What an entry points to is the program's to give.
    pub(crate) unsafe fn new(iov: *const iovec, count: usize) -> Result<Self> {
        if count > MAX_BUFFERS {
            return Err(Errno(libc::EINVAL));
        }
        if !guarded::can_read(iov, count) {
            return Err(guarded::FAULT);
        }
        let mut total = 0usize;
        for i in 0..count {
            // SAFETY: it is accessible, as checked above.
            let entry = unsafe { &*iov.add(i) };
            total =
                total.checked_add(entry.iov_len).filter(|&t| t <= isize::MAX as usize).ok_or(Errno(libc::EINVAL))?;
        }
        Ok(Self { iov, count, at: 0, offset: 0, left: total, total, failed: false, program: PhantomData })
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
        (self.at, self.offset, self.left, self.failed) = (0, 0, self.total, false);
    }

    /// Walks over up to `len` bytes, piece by piece: `copy(piece, its length, done before)` returns
    /// whether all of it was accessible. If one was not, none counts, nor does any later.
    fn walk(&mut self, len: usize, mut copy: impl FnMut(*mut u8, usize, usize) -> bool) -> usize {
        let len = if self.failed { 0 } else { len.min(self.left) };
        let mut done = 0;
        while done < len {
            // SAFETY: `left` counts the bytes behind the cursor, so `at` is in bounds while it is
            // not zero.
            let entry = unsafe { &*self.iov.add(self.at) };
            let n = (entry.iov_len - self.offset).min(len - done);
            if n > 0 && !copy(entry.iov_base.cast::<u8>().wrapping_add(self.offset), n, done) {
                self.failed = true;
                return 0;
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

impl SendSource for Buffers<'_> {
    fn remaining(&self) -> usize {
        self.left
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        let room = into.len();
        let to = into.as_mut_ptr();
        self.walk(room, |piece, n, done| {
            // SAFETY: `piece` is the program's, and `into` has room for `done + n`.
            unsafe { guarded::copy(piece, to.add(done), n) }
        })
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn is_there(&self) -> bool {
        let mut ahead = Self { ..*self };
        ahead.walk(self.left, |piece, n, _| guarded::can_read(piece, n)) == self.left
    }
}

impl Sink for Buffers<'_> {
    fn room(&self) -> usize {
        self.left
    }

    fn write(&mut self, from: &[u8]) -> usize {
        let bytes = from.as_ptr();
        self.walk(from.len(), |piece, n, done| {
            // SAFETY: `piece` is the program's to give, and `from` holds `done + n`.
            unsafe { guarded::copy(bytes.add(done), piece, n) }
        })
    }

    fn failed(&self) -> bool {
        self.failed
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

    #[test]
    fn nothing_is_passed_where_a_pointer_is_bad_nor_behind_it() {
        crate::exports::signal::guard();
        let mut a = [1u8; 3];
        let mut c = [2u8; 4];
        let iov = [
            one(a.as_mut_ptr().cast(), 3)[0],
            one(core::ptr::null(), 0)[0],
            one(8 as *const libc::c_void, 2)[0],
            one(c.as_mut_ptr().cast(), 4)[0],
        ];
        // SAFETY: the buffers live as long as the cursor.
        let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 4) }.unwrap();
        let mut all = [9u8; 9];
        assert_eq!((buffers.read(&mut all[..2]), SendSource::failed(&buffers)), (2, false));
        assert_eq!((buffers.read(&mut all), SendSource::failed(&buffers)), (0, true));
        assert_eq!((buffers.read(&mut all[..1]), buffers.done()), (0, 2));
        buffers.rewind();
        assert_eq!((buffers.write(&[5; 9]), Sink::failed(&buffers), buffers.done()), (0, true, 0));
        assert_eq!(c, [2; 4]);
        // SAFETY: nothing is there.
        let refused = unsafe { [Buffers::new(core::ptr::null(), 1), Buffers::new(core::ptr::null(), 1025)] };
        assert_eq!(refused.map(|buffers| buffers.err()), [libc::EFAULT, libc::EINVAL].map(|code| Some(Errno(code))));
    }
}
