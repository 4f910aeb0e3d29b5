//! Bytes of a fuzzer or a corpus as a source of decisions, for hostile networks and hostile
//! programs.

/// Bytes that are consumed in order; zeros follow when they are used up.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Reads from these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all bytes are used up.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// The next two bytes, big-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    /// The element of `choice`, which must not be empty, that the next byte selects.
    pub fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[usize::from(self.u8()) % choice.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_gives_zeros() {
        let mut input = Input::new(&[1, 2, 3, 5, 9]);
        assert_eq!((input.u8(), input.u16(), input.of(b"abc")), (1, 0x203, b'c'));
        assert_eq!((input.take(3), input.is_empty()), (&[9][..], true));
        assert_eq!((input.u8(), input.u16(), input.of(b"abc")), (0, 0, b'a'));
    }
}
