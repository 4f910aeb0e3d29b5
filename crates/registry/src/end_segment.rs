//! Frames that end the TCP connections of a program that is gone without having closed them.

use tickwire_stack::addr::{Address, Endpoint, Family, Mac};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// At once, by a RST.
    Reset,
    /// In order, by a FIN.
    Finish,
}

impl EndKind {
    /// The segment's flags (RFC 9293 §3.1).
    fn flags(self) -> u8 {
        const FIN: u8 = 0x01;
        const RST: u8 = 0x04;
        const ACK: u8 = 0x10;
        match self {
            Self::Reset => RST | ACK,
            Self::Finish => FIN | ACK,
        }
    }
}

/// A segment that ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSegment {
    /// How it ends it.
    pub how: EndKind,
    /// This host's Ethernet address.
    pub source_mac: Mac,
    /// The next hop's Ethernet address.
    pub next_hop_mac: Mac,
    /// This host's end.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
    /// Its sequence number. A peer obeys only a RST with the one it expects next (RFC 5961 §3.2).
    pub sequence: u32,
    /// What this host expected next from the peer.
    pub acknowledgement: u32,
}

const ETHERNET: usize = 14;
const TCP: usize = 20;
const TTL: u8 = 64;
const PROTOCOL_TCP: u8 = 6;

/// The frame with the segment, or `None` if the two ends are of different families.
#[must_use]
pub fn end_frame(end: &EndSegment) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(ETHERNET + 40 + TCP);
    out.extend(end.next_hop_mac.0);
    out.extend(end.source_mac.0);
    let (local, remote) = (end.local.address, end.remote.address);
    match (local.to_v4(), remote.to_v4()) {
        (Some(source), Some(destination)) => {
            out.extend([0x08, 0x00]);
            let start = out.len();
            // Version and length, TOS, total length, identification, "don't fragment", TTL,
            // protocol, checksum.
            out.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, TTL, PROTOCOL_TCP, 0, 0]);
            out.extend(source);
            out.extend(destination);
            let checksum = fold(sum(&out[start..]));
            out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        (None, None) => {
            out.extend([0x86, 0xdd]);
            out.extend([0x60, 0, 0, 0, 0, 20, PROTOCOL_TCP, TTL]);
            out.extend(local.0);
            out.extend(remote.0);
        }
        _ => return None,
    }
    let start = out.len();
    out.extend(end.local.port.to_be_bytes());
    out.extend(end.remote.port.to_be_bytes());
    out.extend(end.sequence.to_be_bytes());
    out.extend(end.acknowledgement.to_be_bytes());
    out.extend([0x50, end.how.flags(), 0, 0, 0, 0, 0, 0]); // header length, flags, window 0, checksum, urgent pointer
    let checksum = fold(sum(&out[start..]) + pseudo_header(local, remote));
    out[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    Some(out)
}

/// Sum of the pseudo header (RFC 9293 §3.1, RFC 8200 §8.1), which is the same sum for both
/// families.
fn pseudo_header(local: Address, remote: Address) -> u32 {
    let addresses = match local.family() {
        Family::V4 => sum(&local.0[12..]) + sum(&remote.0[12..]),
        Family::V6 => sum(&local.0) + sum(&remote.0),
    };
    addresses + u32::from(PROTOCOL_TCP) + 20
}

/// Sum of 16-bit words (RFC 1071); `bytes` has an even length here.
fn sum(bytes: &[u8]) -> u32 {
    bytes.as_chunks::<2>().0.iter().map(|&pair| u32::from(u16::from_be_bytes(pair))).sum()
}

/// Folds a sum to the checksum to be sent.
fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(local: Address, remote: Address) -> EndSegment {
        EndSegment {
            how: EndKind::Reset,
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
            local: Endpoint::new(local, 4000),
            remote: Endpoint::new(remote, 80),
            sequence: 0x0102_0304,
            acknowledgement: 0xa0b0_c0d0,
        }
    }

    #[test]
    fn an_ipv4_reset_is_a_whole_and_correct_frame() {
        let (local, remote) = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 255]));
        let bytes = end_frame(&end(local, remote)).unwrap();
        assert_eq!(bytes.len(), 14 + 20 + 20);
        assert_eq!(&bytes[..14], &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        assert_eq!(fold(sum(&bytes[14..34])), 0, "IPv4 header checksum");
        assert_eq!(fold(sum(&bytes[34..]) + pseudo_header(local, remote)), 0, "TCP checksum");
        assert_eq!(&bytes[34..38], &[0x0f, 0xa0, 0, 80]);
        assert_eq!(&bytes[38..46], &[1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0]);
        assert_eq!(bytes[47], 0x14);
        let bytes = end_frame(&EndSegment { how: EndKind::Finish, ..end(local, remote) }).unwrap();
        assert_eq!((bytes[47], fold(sum(&bytes[34..]) + pseudo_header(local, remote))), (0x11, 0));
    }

    #[test]
    fn an_ipv6_reset_is_a_whole_and_correct_frame() {
        let (local, remote) = (Address([0xfd; 16]), Address([0xfc; 16]));
        let bytes = end_frame(&end(local, remote)).unwrap();
        assert_eq!(bytes.len(), 14 + 40 + 20);
        assert_eq!(&bytes[12..14], &[0x86, 0xdd]);
        assert_eq!(fold(sum(&bytes[54..]) + pseudo_header(local, remote)), 0, "TCP checksum");
    }

    #[test]
    fn ends_of_different_families_make_no_frame() {
        assert_eq!(end_frame(&end(Address::v4([10, 0, 0, 1]), Address([0xfd; 16]))), None);
    }
}
