//! Ranges of addresses that begin with the same bits.

use tickwire_stack::addr::{Address, Family};

/// Bits before an IPv4 address in its mapped form.
const MAPPED: u8 = 96;

/// All addresses of one family that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpPrefix {
    first: Address,
    length: u8,
}

impl IpPrefix {
    /// The range around an address. The length is in bits of its family (0 to 32, 0 to 128);
    /// `None` if it is greater.
    #[must_use]
    pub fn new(address: Address, length: u8) -> Option<Self> {
        if length > family_bits(address.family()) {
            return None;
        }
        let first = u128::from_be_bytes(address.0) & mask(address.family(), length);
        Some(Self { first: Address(first.to_be_bytes()), length })
    }

    /// The first address of the range.
    #[must_use]
    pub const fn first(&self) -> Address {
        self.first
    }

    /// How many bits its addresses have in common, counted in the family's own form.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Whether an address lies in the range.
    #[must_use]
    pub fn contains(&self, address: Address) -> bool {
        let family = self.first.family();
        address.family() == family
            && u128::from_be_bytes(address.0) & mask(family, self.length) == u128::from_be_bytes(self.first.0)
    }
}

/// How many bits two addresses have in common from the first on, in their family's own form; 0 if
/// their families differ.
#[must_use]
pub(crate) fn common_bits(one: Address, other: Address) -> u8 {
    if one.family() != other.family() {
        return 0;
    }
    let same = (u128::from_be_bytes(one.0) ^ u128::from_be_bytes(other.0)).leading_zeros() as u8;
    match one.family() {
        Family::V4 => same.saturating_sub(MAPPED),
        Family::V6 => same,
    }
}

/// The length of an address, in bits.
pub(crate) const fn family_bits(family: Family) -> u8 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

/// The bits that are the same, in the mapped form. The length is at most that of the family.
fn mask(family: Family, length: u8) -> u128 {
    let free = family_bits(family).saturating_sub(length);
    u128::MAX.checked_shl(free.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::address;

    fn prefix(text: &str, length: u8) -> IpPrefix {
        IpPrefix::new(address(text), length).unwrap()
    }

    #[test]
    fn a_prefix_contains_the_addresses_that_begin_with_it() {
        for (range, length, inside, outside) in [
            ("10.1.2.3", 8, "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3", 32, "10.1.2.3", "10.1.2.2"),
            ("10.1.2.3", 31, "10.1.2.2", "10.1.2.4"),
            ("0.0.0.0", 0, "203.0.113.9", "2001:db8::1"),
            ("::", 0, "2001:db8::1", "10.0.0.1"),
            ("2001:db8::1", 32, "2001:db8:ffff::", "2001:db9::"),
            ("fe80::1", 128, "fe80::1", "fe80::2"),
        ] {
            let range = prefix(range, length);
            assert!(range.contains(address(inside)), "{range:?} {inside}");
            assert!(!range.contains(address(outside)), "{range:?} {outside}");
        }
    }

    #[test]
    fn bits_beyond_the_length_do_not_matter() {
        assert_eq!(prefix("10.1.2.3", 16), prefix("10.1.0.0", 16));
        assert_eq!(prefix("10.1.2.3", 16).first(), address("10.1.0.0"));
    }

    #[test]
    fn a_length_beyond_the_family_is_refused() {
        assert_eq!(IpPrefix::new(address("10.0.0.1"), 33), None);
        assert_eq!(IpPrefix::new(address("::1"), 129), None);
    }

    #[test]
    fn common_bits_are_counted_in_the_own_form_of_the_family() {
        assert_eq!(common_bits(address("10.0.0.1"), address("10.0.0.1")), 32);
        assert_eq!(common_bits(address("10.0.0.1"), address("10.0.1.1")), 23);
        assert_eq!(common_bits(address("10.0.0.1"), address("192.168.0.1")), 0);
        assert_eq!(common_bits(address("2001:db8::1"), address("2001:db8:8000::1")), 32);
        assert_eq!(common_bits(address("::"), address("10.0.0.1")), 0);
    }
}
