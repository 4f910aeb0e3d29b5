//! A list that is on the stack while it is short: `poll` and `select` may be called in a signal
//! handler that has interrupted the allocator.

use core::ops::{Deref, DerefMut};

/// How many elements fit on the stack.
const SHORT: usize = 16;

/// The list.
#[derive(Clone)]
pub(crate) struct SmallVec<T> {
    short: [T; SHORT],
    len: usize,
    /// All elements, once there are more than [`SHORT`].
    long: Vec<T>,
}

impl<T: Copy> SmallVec<T> {
    /// An empty list; the places on the stack are filled with `filler`.
    pub(crate) const fn new(filler: T) -> Self {
        Self { short: [filler; SHORT], len: 0, long: Vec::new() }
    }

    /// Adds one.
    pub(crate) fn push(&mut self, value: T) {
        match self.short.get_mut(self.len) {
            Some(place) => *place = value,
            None => {
                if self.len == SHORT {
                    self.long.extend(self.short);
                }
                self.long.push(value);
            }
        }
        self.len += 1;
    }
}

impl<T> Deref for SmallVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        if self.len <= SHORT { &self.short[..self.len] } else { &self.long }
    }
}

impl<T> DerefMut for SmallVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.len <= SHORT { &mut self.short[..self.len] } else { &mut self.long }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_grow_long() {
        let mut list = SmallVec::new(0);
        for n in 0..3 * SHORT {
            list.push(n);
            list[n] += 1;
            assert!(list.iter().copied().eq(1..=n + 1), "{n}");
        }
    }
}
