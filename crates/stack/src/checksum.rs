//! The Internet checksum (RFC 1071), several bytes at a time.

use crate::addr::{Address, Family};

/// A running sum. Pieces are added in order; every piece but the last must be of even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub const ZERO: Self = Self(0);

    /// Adds bytes as big-endian 16-bit words, an odd last byte padded with zero.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // One's complement addition is the same in either byte order except for a final swap (RFC
        // 1071 §2 (B)), and wider words fold down to 16-bit ones (§2 (C)). So this sums native
        // 32-bit words in 64 bits, which cannot overflow below 2^32 words.
        let (blocks, rest) = bytes.as_chunks::<16>();
        let (mut a, mut b) = (0u64, 0u64);
        for block in blocks {
            let (words, _) = block.as_chunks::<4>();
            a += u64::from(u32::from_ne_bytes(words[0])) + u64::from(u32::from_ne_bytes(words[1]));
            b += u64::from(u32::from_ne_bytes(words[2])) + u64::from(u32::from_ne_bytes(words[3]));
        }
        let mut sum = a + b;
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        let (pairs, rest) = rest.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_ne_bytes(*pair));
        }
        if let &[last] = rest {
            sum += u64::from(u16::from_ne_bytes([last, 0]));
        }
        Self(fold(self.0) + fold(sum))
    }

    /// Adds bytes that start at an odd offset of the whole.
    #[must_use]
    pub fn swapped_bytes(self, bytes: &[u8]) -> Self {
        let own = fold(Self::ZERO.bytes(bytes).0) as u16;
        Self(self.0 + u64::from(own.swap_bytes()))
    }

    /// Adds bytes that start at an odd or even offset of the whole.
    #[must_use]
    pub fn bytes_at(self, odd: bool, bytes: &[u8]) -> Self {
        if odd { self.swapped_bytes(bytes) } else { self.bytes(bytes) }
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word.to_be()))
    }

    /// Adds a 32-bit word.
    #[must_use]
    pub fn word32(self, word: u32) -> Self {
        Self(self.0 + u64::from(word.to_be()))
    }

    /// Adds an address: 4 bytes of IPv4, 16 of IPv6.
    #[must_use]
    pub fn address(self, address: Address) -> Self {
        match address.to_v4() {
            Some(octets) => Self(self.0 + u64::from(u32::from_ne_bytes(octets))),
            None => self.bytes(&address.0),
        }
    }

    /// Adds the pseudo-header of TCP or UDP (RFC 9293 §3.1, RFC 8200 §8.1).
    #[must_use]
    pub fn pseudo(self, source: Address, destination: Address, protocol: u8, len: u32) -> Self {
        self.address(source).address(destination).word(u16::from(protocol)).word32(len)
    }

    /// The checksum field's value: the complement of the sum.
    #[must_use]
    pub fn checksum(self) -> u16 {
        !u16::from_be(fold(self.0) as u16)
    }

    /// Whether bytes that contain their checksum have the right sum.
    #[must_use]
    pub fn is_good(self) -> bool {
        self.checksum() == 0
    }
}

/// Folds to 16 bits.
const fn fold(sum: u64) -> u64 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// The checksum of a TCP or UDP message with its pseudo-header. The message's own checksum field
/// must be zero to compute one; over a received message the result is zero if it is intact.
#[must_use]
pub fn transport(source: Address, destination: Address, protocol: u8, bytes: &[u8]) -> u16 {
    Sum::ZERO.pseudo(source, destination, protocol, bytes.len() as u32).bytes(bytes).checksum()
}

/// The checksum of plain bytes: an IPv4 header, an ICMPv4 message.
#[must_use]
#[inline]
pub fn plain(bytes: &[u8]) -> u16 {
    Sum::ZERO.bytes(bytes).checksum()
}

/// The common family of two addresses, such as both endpoints of a packet; `None` if they differ.
#[must_use]
pub(crate) fn same_family(a: Address, b: Address) -> Option<Family> {
    let family = a.family();
    (family == b.family()).then_some(family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::wire::{EthernetFrame, Ipv4Packet, UdpPacket};

    /// RFC 1071 §1, as it is written there.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #![proptest_config(crate::testing::proptest_config(256))]
        #[test]
        fn agrees_with_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..2100)) {
            prop_assert_eq!(plain(&bytes), reference(&bytes));
        }

        #[test]
        fn pieces_sum_to_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 0..300usize) {
            let cut = (2 * cut).min(bytes.len() & !1);
            prop_assert_eq!(Sum::ZERO.bytes(&bytes[..cut]).bytes(&bytes[cut..]).checksum(), plain(&bytes));
        }

        #[test]
        fn agrees_with_smoltcp(payload in prop::collection::vec(any::<u8>(), 0..600), a in any::<[u8; 4]>(), b in any::<[u8; 16]>(), v6 in any::<bool>()) {
            let (source, destination) = if v6 {
                (Address([0x20; 16]), Address(b))
            } else {
                (Address::v4(a), Address::v4([b[0], b[1], b[2], b[3]]))
            };
            prop_assume!(source.family() == destination.family());
            let mut bytes = vec![0; 8 + payload.len()];
            let mut udp = UdpPacket::new_unchecked(&mut bytes[..]);
            udp.set_src_port(1);
            udp.set_dst_port(2);
            udp.set_len(8 + payload.len() as u16);
            udp.payload_mut().copy_from_slice(&payload);
            let (s, d) = (smoltcp::wire::IpAddress::from(core::net::IpAddr::from(source)), smoltcp::wire::IpAddress::from(core::net::IpAddr::from(destination)));
            let ours = transport(source, destination, 17, udp.as_ref());
            udp.fill_checksum(&s, &d);
            prop_assert_eq!(if ours == 0 { 0xffff } else { ours }, udp.checksum());
            prop_assert!(Sum::ZERO.pseudo(source, destination, 17, bytes.len() as u32).bytes(&bytes).is_good());
        }
    }

    #[test]
    fn an_ipv4_header_checks_out() {
        let mut bytes = [0u8; 34];
        let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
        let mut header = Ipv4Packet::new_unchecked(frame.payload_mut());
        header.set_version(4);
        header.set_header_len(20);
        header.fill_checksum();
        assert_eq!(plain(&bytes[14..]), 0);
    }
}
