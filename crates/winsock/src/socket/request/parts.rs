//! The memory of a request: the program's buffers, which are filled or read in order.

use crate::hook::boundary::WinsockError;
use crate::program_memory::{check_readable, check_writable};
use tickwire_stack::{SendSource, Sink};
use windows_sys::Win32::Networking::WinSock::WSABUF;

/// The most buffers of a request.
const MOST_BUFFERS: u32 = 1 << 16;

/// A buffer.
#[derive(Clone, Copy, Debug)]
struct Part {
    data: *mut u8,
    len: usize,
}

/// Buffers, and how far they have been filled or read.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    list: Vec<Part>,
    /// The buffer that is next, and the byte in it.
    part: usize,
    offset: usize,
    done: usize,
}

// SAFETY: the program does not use the memory until the request is complete, and any thread of its
// process can access it.
unsafe impl Send for Parts {}

impl Parts {
    /// The buffers of a call.
    ///
    /// # Safety
    /// There are so many of them. Each is as long as it says, until the request is complete, and
    /// nothing else changes it. For a request that sends, they may be read; else also written.
    pub(crate) unsafe fn new(at: *const WSABUF, count: u32) -> Result<Self, WinsockError> {
        let list = match (at.is_null(), count) {
            (_, 0) => &[][..],
            (true, _) => return Err(WinsockError::FAULT),
            (false, count) if count > MOST_BUFFERS => return Err(WinsockError::INVALID),
            (false, count) => {
                check_readable(at, count as usize * size_of::<WSABUF>())?;
                // SAFETY: as the caller promises.
                unsafe { std::slice::from_raw_parts(at, count as usize) }
            }
        };
        for buffer in list {
            check_readable(buffer.buf, buffer.len as usize)?;
        }
        let list = list.iter().map(|buffer| Part { data: buffer.buf, len: buffer.len as usize }).collect();
        Ok(Self { list, part: 0, offset: 0, done: 0 })
    }

    /// One buffer.
    ///
    /// # Safety
    /// As for [`Parts::new`].
    pub(crate) unsafe fn one(data: *mut u8, len: usize) -> Self {
        let len = if data.is_null() { 0 } else { len };
        Self { list: vec![Part { data, len }], part: 0, offset: 0, done: 0 }
    }

    /// One buffer of a program, for a request that sends.
    ///
    /// # Errors
    /// [`WinsockError::FAULT`] if it cannot be read.
    ///
    /// # Safety
    /// As for [`Parts::new`].
    pub(crate) unsafe fn one_to_send(data: *mut u8, len: u32) -> Result<Self, WinsockError> {
        check_readable(data, len as usize)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { Self::one(data, len as usize) })
    }

    /// # Errors
    /// [`WinsockError::FAULT`] if they cannot be written, all of them.
    pub(crate) fn check_writable(&self) -> Result<(), WinsockError> {
        self.list.iter().try_for_each(|part| check_writable(part.data, part.len))
    }

    /// How many bytes have been filled or read.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        let rest = self.list.get(self.part..).unwrap_or_default();
        rest.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len)) - self.offset
    }

    /// What is left of the next buffer that is not empty.
    fn next(&mut self) -> Option<Part> {
        loop {
            let part = self.list.get(self.part)?;
            if self.offset < part.len {
                // SAFETY: inside of the buffer.
                let data = unsafe { part.data.add(self.offset) };
                return Some(Part { data, len: part.len - self.offset });
            }
            (self.part, self.offset) = (self.part + 1, 0);
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
        self.done += bytes;
    }
}

impl Sink for Parts {
    fn room(&self) -> usize {
        self.left()
    }

    fn write(&mut self, mut from: &[u8]) -> usize {
        let before = self.done;
        while !from.is_empty()
            && let Some(part) = self.next()
        {
            let (now, later) = from.split_at(from.len().min(part.len));
            // SAFETY: `new` demands memory that may be written, and that is no part of the lane.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), part.data, now.len()) };
            self.advance(now.len());
            from = later;
        }
        self.done - before
    }
}

impl SendSource for Parts {
    fn remaining(&self) -> usize {
        self.left()
    }

    fn read(&mut self, mut into: &mut [u8]) -> usize {
        let before = self.done;
        while !into.is_empty()
            && let Some(part) = self.next()
        {
            let (now, later) = into.split_at_mut(into.len().min(part.len));
            // SAFETY: `new` demands memory that may be read, and that is no part of the lane.
            unsafe { std::ptr::copy_nonoverlapping(part.data, now.as_mut_ptr(), now.len()) };
            self.advance(now.len());
            into = later;
        }
        self.done - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_filled_and_read_in_order_in_several_steps() {
        let (mut one, mut two, mut empty) = ([0; 3], [0; 5], [0; 0]);
        let list = [&mut one[..], &mut empty[..], &mut two[..]]
            .map(|buffer| WSABUF { len: buffer.len() as u32, buf: buffer.as_mut_ptr() });
        // SAFETY: buffers of this function.
        let parts = || unsafe { Parts::new(list.as_ptr(), 3) }.unwrap();
        let mut filled = parts();
        assert_eq!((filled.write(b"abcd"), filled.room()), (4, 4));
        assert_eq!((filled.write(b"efghijk"), filled.room(), filled.done()), (4, 0, 8));
        let (mut read, mut all) = (parts(), [0; 8]);
        assert_eq!((read.read(&mut all[..1]), read.remaining()), (1, 7));
        assert_eq!((read.read(&mut all[1..]), read.remaining()), (7, 0));
        assert_eq!(&all, b"abcdefgh");
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        let none = WSABUF { len: 1, buf: std::ptr::null_mut() };
        // SAFETY: nothing is read.
        unsafe {
            assert!(Parts::new(&raw const none, 1).is_err());
            assert!(Parts::new(std::ptr::null(), 1).is_err());
            assert_eq!(Parts::new(std::ptr::null(), 0).unwrap().left(), 0);
            assert!(Parts::new(&raw const none, MOST_BUFFERS + 1).is_err());
            assert_eq!(Parts::one(std::ptr::null_mut(), 5).left(), 0);
            assert!(Parts::one_to_send(std::ptr::null_mut(), 5).is_err());
            assert_eq!(Parts::one_to_send(std::ptr::null_mut(), 0).unwrap().left(), 0);
        }
    }
}
