//! Short lists in messages.

use super::codec::{Field, MalformedMessage, Reader, Writer};
use std::fmt;

/// A list of at most `N` (which is at most 255) things, so many that they fit into one message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct List<T, const N: usize> {
    list: [T; N],
    len: u8,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// How many fit into one message.
    pub const MAX: usize = N;

    /// As many of `things` as fit.
    #[must_use]
    pub fn new(things: &[T]) -> Self {
        let mut list = [T::default(); N];
        let len = things.len().min(N);
        list[..len].copy_from_slice(&things[..len]);
        Self { list, len: len as u8 }
    }
}

impl<T, const N: usize> List<T, N> {
    /// The things.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.list[..usize::from(self.len)]
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for List<T, N> {
    fn put(&self, writer: &mut Writer<'_>) {
        self.len.put(writer);
        for thing in self.as_slice() {
            thing.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        let len = u8::take(reader)?;
        let mut list = [T::default(); N];
        for place in list.get_mut(..usize::from(len)).ok_or(MalformedMessage::Field("list"))? {
            *place = Field::take(reader)?;
        }
        Ok(Self { list, len })
    }
}
