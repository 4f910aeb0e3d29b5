//! Sequence numbers: comparison modulo 2^32 (RFC 9293 §3.4).

use core::ops::{Add, AddAssign, Sub};
use zerocopy::FromZeros;

/// A TCP sequence number. Two numbers are compared by their distance, which must be below 2^31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct Seq(pub u32);

shared_layout! { Seq { 0 } }

impl Seq {
    /// Whether this number lies before `other`.
    #[must_use]
    pub const fn lt(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this number lies before `other` or is the same.
    #[must_use]
    pub const fn le(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// Whether this number lies after `other`.
    #[must_use]
    pub const fn gt(self, other: Self) -> bool {
        other.lt(self)
    }

    /// Whether this number lies after `other` or is the same.
    #[must_use]
    pub const fn ge(self, other: Self) -> bool {
        other.le(self)
    }

    /// The later of two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.lt(other) { other } else { self }
    }

    /// The earlier of two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.lt(other) { self } else { other }
    }

    /// How far this number lies after `earlier`; 0 if it lies before it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        if self.lt(earlier) { 0 } else { self.0.wrapping_sub(earlier.0) }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

/// The distance, modulo 2^32.
impl Sub for Seq {
    type Output = u32;
    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_goes_across_the_wrap() {
        let (before, after) = (Seq(u32::MAX - 1), Seq(5));
        assert!(before.lt(after) && before.le(after) && after.gt(before) && after.ge(before));
        assert!(!after.lt(before) && after.le(after) && !after.lt(after));
        assert_eq!((before.max(after), before.min(after)), (after, before));
        assert_eq!((after - before, after.since(before), before.since(after)), (7, 7, 0));
        assert_eq!((before + 7, after - 7), (after, before));
    }
}
