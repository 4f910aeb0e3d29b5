//! Selection of the source address (RFC 6724 §5).
//!
//! The candidates are the addresses of the outgoing interface (§4; Windows' strong host model), so
//! rule 5 decides nothing. Rule 1 does not occur: a destination of this host is never sent to.
//! Rule 4 is about Mobile IP, which Windows does not have.

use crate::address::UnicastAddress;
use crate::prefix::{IpPrefix, common_bits};
use tickwire_stack::addr::{Address, Family};

/// The order of candidates, best first. Its fields are rules 2, 3, 6, 7 and 8 in this order, then
/// the address itself: the same choice each time.
type Rank = ((bool, u8), bool, bool, bool, u8, Address);

/// The best of these addresses as the source of packets to a destination; `None` if there is none
/// of its family that may be chosen.
#[must_use]
pub fn choose_source<'a>(
    candidates: impl IntoIterator<Item = &'a UnicastAddress>,
    destination: Address,
) -> Option<Address> {
    let family = destination.family();
    let may_be_chosen = |own: &&UnicastAddress| own.address.family() == family && !own.is_skipped;
    let best = candidates.into_iter().filter(may_be_chosen).min_by_key(|own| rank(own, destination));
    best.map(|own| own.address)
}

fn rank(own: &UnicastAddress, destination: Address) -> Rank {
    // Beyond the prefix the bits do not tell how near an address is.
    let common = common_bits(own.address, destination).min(own.prefix_length);
    (
        scope_rank(scope(own.address), scope(destination)),
        own.is_deprecated,
        label(own.address) != label(destination),
        !own.is_temporary,
        u8::MAX - common,
        own.address,
    )
}

/// Rule 2: the smallest scope that reaches the destination; if none does, the largest.
fn scope_rank(own: u8, destination: u8) -> (bool, u8) {
    if own >= destination { (false, own) } else { (true, u8::MAX - own) }
}

/// The scope of an address (RFC 4291 §2.7 numbers; RFC 6724 §3.1, §3.2).
fn scope(address: Address) -> u8 {
    const LINK_LOCAL: u8 = 2;
    const SITE_LOCAL: u8 = 5;
    const GLOBAL: u8 = 14;
    match (address.family(), address.0) {
        (Family::V6, [0xff, flags, ..]) => flags & 15,
        (Family::V6, [0xfe, second, ..]) if second & 0xc0 == 0xc0 => SITE_LOCAL,
        (Family::V4, [.., 169, 254, _, _]) => LINK_LOCAL,
        _ if address.is_loopback() || address.is_link_local() => LINK_LOCAL,
        _ => GLOBAL,
    }
}

/// The label of an address by the default policy table (RFC 6724 §2.1).
fn label(address: Address) -> u8 {
    /// First address, length, label.
    const POLICY: [(u128, u8, u8); 8] = [
        (1, 128, 0),
        (0, 96, 3),
        (0x2001 << 112, 32, 5),
        (0x2002 << 112, 16, 2),
        (0x3ffe << 112, 16, 12),
        (0xfec0 << 112, 10, 11),
        (0xfc00 << 112, 7, 13),
        (0, 0, 1),
    ];
    if address.family() == Family::V4 {
        return 4;
    }
    let holds = |(first, length, _): &(u128, u8, u8)| {
        IpPrefix::new(Address(first.to_be_bytes()), *length).is_some_and(|prefix| prefix.contains(address))
    };
    POLICY.iter().find(|row| holds(row)).map_or(1, |row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::{address, own};

    fn chosen(candidates: &[UnicastAddress], destination: &str) -> Option<String> {
        let forward = choose_source(candidates, address(destination));
        assert_eq!(forward, choose_source(candidates.iter().rev(), address(destination)), "order does not matter");
        forward.map(|address| address.to_string())
    }

    #[test]
    fn the_examples_of_rfc_6724_come_out() {
        // §10.1: scope, then temporary, deprecated, longest prefix.
        let two = [own(1, "2001:db8:1::1", 64), own(1, "fe80::1", 64)];
        assert_eq!(chosen(&two, "2001:db8:1::2").as_deref(), Some("2001:db8:1::1"));
        assert_eq!(chosen(&two, "fe80::9").as_deref(), Some("fe80::1"));
        assert_eq!(chosen(&two, "ff02::1").as_deref(), Some("fe80::1"));
        assert_eq!(chosen(&two, "ff0e::1").as_deref(), Some("2001:db8:1::1"));
        let near = [own(1, "2001:db8:1::2", 64), own(1, "2001:db8:3::2", 64)];
        assert_eq!(chosen(&near, "2001:db8:1::1").as_deref(), Some("2001:db8:1::2"));
        assert_eq!(chosen(&near, "2001:db8:3::1").as_deref(), Some("2001:db8:3::2"));
        let labels = [own(1, "2002:c633:6401::d5e3:7953:13eb:22e8", 64), own(1, "2001:db8:1::2", 64)];
        assert_eq!(chosen(&labels, "2001:db8:1::1").as_deref(), Some("2001:db8:1::2"));
        let local = [own(1, "fd11:1111:1111:1::1", 64), own(1, "2001:db8:1::2", 64)];
        assert_eq!(chosen(&local, "fd11:1111:1111:2::1").as_deref(), Some("fd11:1111:1111:1::1"));
    }

    #[test]
    fn temporary_addresses_are_preferred_and_deprecated_ones_are_not() {
        let public = own(1, "2001:db8::1", 64);
        let temporary = UnicastAddress { is_temporary: true, ..own(1, "2001:db8::abcd", 64) };
        assert_eq!(chosen(&[public, temporary], "2001:db8:9::1").as_deref(), Some("2001:db8::abcd"));
        let old = UnicastAddress { is_deprecated: true, ..temporary };
        assert_eq!(chosen(&[public, old], "2001:db8:9::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(chosen(&[old], "2001:db8:9::1").as_deref(), Some("2001:db8::abcd"), "if there is no other");
    }

    #[test]
    fn bits_beyond_the_own_prefix_do_not_count() {
        // The second shares 31 bits with the destination, but its subnet has only 24.
        let two = [own(1, "10.0.0.5", 24), own(1, "10.0.0.8", 24)];
        assert_eq!(chosen(&two, "10.0.0.9").as_deref(), Some("10.0.0.5"));
        let two = [own(1, "10.0.0.5", 24), own(1, "10.0.1.8", 24)];
        assert_eq!(chosen(&two, "10.0.1.9").as_deref(), Some("10.0.1.8"));
    }

    #[test]
    fn skipped_addresses_and_the_other_family_are_never_chosen() {
        let skipped = UnicastAddress { is_skipped: true, ..own(1, "10.0.0.1", 24) };
        assert_eq!(chosen(&[skipped, own(1, "2001:db8::1", 64)], "10.0.0.9"), None);
        assert_eq!(chosen(&[], "10.0.0.9"), None);
    }

    #[test]
    fn link_local_ipv4_is_used_only_if_nothing_reaches_further() {
        let two = [own(1, "169.254.1.1", 16), own(1, "192.168.0.2", 24)];
        assert_eq!(chosen(&two, "8.8.8.8").as_deref(), Some("192.168.0.2"));
        assert_eq!(chosen(&two, "169.254.7.7").as_deref(), Some("169.254.1.1"));
        assert_eq!(chosen(&two[..1], "8.8.8.8").as_deref(), Some("169.254.1.1"));
    }
}
