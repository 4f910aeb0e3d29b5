//! Which TCP segments can go as one: in sequence, of one size but for the last, and with headers
//! that differ in nothing that segmentation does not set by itself.
//!
//! The segments of a train are made and forwarded together, for a fraction of what each costs by
//! itself. A train leaves without a checksum: segmentation computes those of the segments. A header
//! that leaves it to a device could name any place in the packet, behind the guard, and is refused.

use tickwire_stack::checksum::Sum;
use tickwire_stack::{Stack, TransmitDescriptor};

/// Bytes of `struct virtio_net_hdr` (virtio 1.2, 5.1.6), which stands before each packet.
pub const VIRTIO: usize = 10;
/// Room for it and the longest headers: Ethernet, IPv6, TCP with all options.
pub const HEADER: usize = VIRTIO + ETHERNET + 40 + 60;

const ETHERNET: usize = 14;
const TCP: u8 = 6;
/// The least data of a segment: what would make more packets of one write is dropped
/// (`LEAST_SEGMENT` of `bpf/guard.h`).
const LEAST: usize = 256;
/// The longest IP packet.
const MOST: usize = 65535;

/// `VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6`.
const GSO_V4: u8 = 1;
const GSO_V6: u8 = 4;
/// Where TCP's flags are in its header.
const FLAGS: usize = 13;

/// TCP's flags (RFC 9293 section 3.1, RFC 3168).
mod flag {
    pub(super) const FIN: u8 = 0x01;
    pub(super) const PSH: u8 = 0x08;
    pub(super) const ACK: u8 = 0x10;
    pub(super) const ECE: u8 = 0x40;
}

/// Segments that go as one.
#[derive(Clone, Copy, Debug)]
pub struct Train {
    v6: bool,
    /// Where TCP's header is, and where the data.
    tcp: usize,
    headers: usize,
    /// The data of each segment but the last.
    size: usize,
    /// All data.
    len: usize,
    /// The flags of the last.
    flags: u8,
    /// The last one is shorter, or ends what was written.
    closed: bool,
}

/// The headers of a plain segment: data that is sent with an acknowledgement, and neither fragments
/// nor extension headers.
struct Segment {
    v6: bool,
    tcp: usize,
    headers: usize,
    flags: u8,
}

impl Segment {
    fn read(packet: &[u8]) -> Option<Self> {
        let ip = packet.get(ETHERNET..)?;
        let (v6, tcp, end) = match (packet[12], packet[13], *ip.first()?) {
            // Don't fragment, and no fragment; no options.
            (0x08, 0x00, 0x45) => {
                let header = ip.get(..20)?;
                (header[9] == TCP && header[6..8] == [0x40, 0]).then_some(())?;
                (false, ETHERNET + 20, ETHERNET + word(header, 2))
            }
            (0x86, 0xdd, first) if first >> 4 == 6 => {
                let header = ip.get(..40)?;
                (header[6] == TCP).then_some(())?;
                (true, ETHERNET + 40, ETHERNET + 40 + word(header, 4))
            }
            _ => return None,
        };
        let header = packet.get(tcp..tcp + 20)?;
        let headers = tcp + usize::from(header[12] >> 4) * 4;
        let plain = header[13] & !(flag::PSH | flag::FIN | flag::ECE) == flag::ACK;
        (plain && headers >= tcp + 20 && headers < end && end == packet.len()).then_some(Self {
            v6,
            tcp,
            headers,
            flags: header[13],
        })
    }
}

impl Train {
    /// A train that begins with this packet; `None` if none can.
    #[must_use]
    pub fn begin(packet: &[u8]) -> Option<Self> {
        let Segment { v6, tcp, headers, flags } = Segment::read(packet)?;
        let size = packet.len() - headers;
        (size >= LEAST).then_some(Self {
            v6,
            tcp,
            headers,
            size,
            len: size,
            flags,
            closed: flags & (flag::PSH | flag::FIN) != 0,
        })
    }

    /// Bytes of the headers of each of its packets.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> usize {
        self.headers
    }

    /// Adds a packet, if it continues the train, which began with `first`.
    ///
    /// # Panics
    /// It may, if it began with another packet.
    pub fn take(&mut self, first: &[u8], next: &[u8]) -> bool {
        let Some(segment) = Segment::read(next).filter(|_| !self.closed) else { return false };
        let size = next.len() - segment.headers.min(next.len());
        let goes = segment.headers == self.headers
            && size <= self.size
            && self.headers - ETHERNET + self.len + size <= MOST
            && long(next, self.tcp + 4) == long(first, self.tcp + 4).wrapping_add(self.len as u32)
            && (segment.flags ^ first[self.tcp + 13]) & flag::ECE == 0
            && self.same(first, next);
        if goes {
            self.len += size;
            self.flags = segment.flags;
            self.closed = size < self.size || segment.flags & (flag::PSH | flag::FIN) != 0;
        }
        goes
    }

    /// Whether two packets' headers are equal in all that has to be: Ethernet; IP but for its
    /// length, number and checksum; TCP but for sequence number, flags and checksum.
    fn same(&self, first: &[u8], next: &[u8]) -> bool {
        let t = self.tcp;
        let alike = |from: usize, to: usize| first[from..to] == next[from..to];
        let ip = if self.v6 {
            alike(0, ETHERNET + 4) && alike(ETHERNET + 6, t)
        } else {
            alike(0, ETHERNET + 2) && alike(ETHERNET + 6, ETHERNET + 10) && alike(ETHERNET + 12, t)
        };
        ip && alike(t, t + 4) && alike(t + 8, t + 13) && alike(t + 14, t + 16) && alike(t + 18, self.headers)
    }

    /// Writes the headers before the data. Returns their length. The train began with `first`.
    ///
    /// # Panics
    /// It may, if it began with another packet.
    pub fn write_header(&self, first: &[u8], to: &mut [u8; HEADER]) -> usize {
        let several = self.len > self.size;
        let (virtio, packet) = to.split_at_mut(VIRTIO);
        packet[..self.headers].copy_from_slice(&first[..self.headers]);
        if !several {
            virtio.fill(0);
            return VIRTIO + self.headers;
        }
        let native = |n: usize| (n as u16).to_ne_bytes();
        // Without a checksum: segmentation computes that of each segment.
        virtio.fill(0);
        virtio[1] = if self.v6 { GSO_V6 } else { GSO_V4 };
        virtio[2..4].copy_from_slice(&native(self.headers));
        virtio[4..6].copy_from_slice(&native(self.size));
        let ip = &mut packet[ETHERNET..];
        let segment = self.headers - self.tcp + self.len;
        if self.v6 {
            ip[4..6].copy_from_slice(&(segment as u16).to_be_bytes());
        } else {
            ip[2..4].copy_from_slice(&((20 + segment) as u16).to_be_bytes());
            ip[10..12].fill(0);
            let sum = Sum::ZERO.bytes(&ip[..20]).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet[self.tcp + FLAGS] = self.flags;
        VIRTIO + self.headers
    }
}

/// How many of these frames go together: the first and those that can join its train, or the pieces
/// of its packet. Also the train that they are, if it is one.
///
/// # Panics
/// If there is no frame.
#[must_use]
pub fn together(stack: &Stack<'_>, frames: &[TransmitDescriptor]) -> (usize, Option<Train>) {
    let mut count = 1;
    let first = bytes(stack, frames[0]);
    let Some(mut train) = Train::begin(first).filter(|_| !frames[0].more) else {
        while frames[count - 1].more && count < frames.len() {
            count += 1;
        }
        return (count, None);
    };
    while let Some(&next) = frames.get(count)
        && !next.more
        && train.take(first, bytes(stack, next))
    {
        count += 1;
    }
    (count, Some(train))
}

/// The bytes of a packet, or of a piece of one.
#[must_use]
#[inline]
pub fn bytes<'s>(stack: &'s Stack<'_>, packet: TransmitDescriptor) -> &'s [u8] {
    let from = usize::from(packet.offset);
    stack.frame(packet.frame).get(from..from + usize::from(packet.len)).unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::checksum;

    const V4: (usize, u16) = (ETHERNET + 20, 0x0800);
    const V6: (usize, u16) = (ETHERNET + 40, 0x86dd);
    const DATA: usize = 1000;
    /// Where TCP's checksum is in its header.
    const CHECKSUM: usize = 16;

    /// A segment with timestamps, with checksums as a stack makes them.
    fn segment((tcp, kind): (usize, u16), number: u16, sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut p = vec![2; 12];
        p.extend(kind.to_be_bytes());
        let len = (32 + data.len()) as u16;
        if kind == 0x0800 {
            p.extend([0x45, 0]);
            p.extend((20 + len).to_be_bytes());
            p.extend(number.to_be_bytes());
            p.extend([0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            p.extend([0x60, 0, 0, 0]);
            p.extend(len.to_be_bytes());
            p.extend([TCP, 64]);
            p.extend([[0xfd; 16], [0xfc; 16]].concat());
        }
        p.extend([0, 80, 1, 0]);
        p.extend(sequence.to_be_bytes());
        p.extend([0, 0, 0, 9, 0x80, flags, 1, 2, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
        p.extend(data);
        sum(&mut p, tcp);
        p
    }

    /// Puts the checksums in.
    fn sum(p: &mut [u8], tcp: usize) {
        let addresses = if tcp == V4.0 {
            p[24..26].fill(0);
            let ip = Sum::ZERO.bytes(&p[14..34]).checksum();
            p[24..26].copy_from_slice(&ip.to_be_bytes());
            26..34
        } else {
            22..54
        };
        p[tcp + CHECKSUM..tcp + CHECKSUM + 2].fill(0);
        let len = (p.len() - tcp) as u32;
        let sum = Sum::ZERO.bytes(&p[addresses]).word(TCP.into()).word32(len).bytes(&p[tcp..]).checksum();
        p[tcp + CHECKSUM..tcp + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn stream(kind: (usize, u16), sizes: &[usize], last: u8) -> Vec<Vec<u8>> {
        let mut sequence = u32::MAX - 1500;
        let segment = |(i, &size): (usize, &usize)| {
            let flags = if i + 1 == sizes.len() { flag::ACK | last } else { flag::ACK };
            let data: Vec<u8> = (0..size).map(|at| (at * 7 + i) as u8).collect();
            let made = segment(kind, 40 + i as u16, sequence, flags, &data);
            sequence = sequence.wrapping_add(size as u32);
            made
        };
        sizes.iter().enumerate().map(segment).collect()
    }

    /// What goes to the device: the header, and the data of all.
    fn together(packets: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        let mut train = Train::begin(&packets[0]).unwrap();
        assert!(packets[1..].iter().all(|next| train.take(&packets[0], next)));
        let mut header = [0; HEADER];
        let len = train.write_header(&packets[0], &mut header);
        (header[..len].to_vec(), packets.iter().flat_map(|p| p[train.headers()..].to_vec()).collect())
    }

    /// What a kernel or a network card makes of it (`tcp_gso_segment`).
    fn taken_apart((header, data): &(Vec<u8>, Vec<u8>), (tcp, _): (usize, u16)) -> Vec<Vec<u8>> {
        let native = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let size = native(4);
        assert_eq!((header[0], native(2)), (0, header.len() - VIRTIO), "no checksum is left to a device");
        assert!(tcp < header.len());
        let whole = &header[VIRTIO..];
        let pieces = data.chunks(size).count();
        let piece = |(i, data): (usize, &[u8])| {
            let mut p = [whole, data].concat();
            let len = (p.len() - ETHERNET) as u16;
            if tcp == V4.0 {
                p[16..18].copy_from_slice(&len.to_be_bytes());
                let number = word(whole, 18) as u16 + i as u16;
                p[18..20].copy_from_slice(&number.to_be_bytes());
            } else {
                p[18..20].copy_from_slice(&(len - 40).to_be_bytes());
            }
            let sequence = long(whole, tcp + 4).wrapping_add((i * size) as u32);
            p[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
            if i + 1 < pieces {
                p[tcp + FLAGS] &= !(flag::PSH | flag::FIN);
            }
            sum(&mut p, tcp);
            p
        };
        data.chunks(size).enumerate().map(piece).collect()
    }

    #[test]
    fn a_train_taken_apart_is_what_it_was_made_of() {
        for kind in [V4, V6] {
            for last in [0, flag::PSH, flag::PSH | flag::FIN] {
                for sizes in [&[DATA; 2][..], &[DATA, DATA, DATA, 1], &[1448; 44], &[LEAST, LEAST - 1]] {
                    let packets = stream(kind, sizes, last);
                    let train = together(&packets);
                    assert_eq!(taken_apart(&train, kind), packets, "{kind:?} {last} {sizes:?}");
                    let (header, data) = train;
                    let whole = [&header[VIRTIO..], &data[..]].concat();
                    assert_eq!(checksum::Sum::ZERO.bytes(&whole[14..34]).is_good(), kind == V4);
                }
            }
        }
    }

    #[test]
    fn one_alone_goes_as_it_is() {
        let packets = stream(V4, &[DATA], flag::PSH);
        let (header, data) = together(&packets);
        assert_eq!(header[..VIRTIO], [0; VIRTIO]);
        assert_eq!([&header[VIRTIO..], &data[..]].concat(), packets[0]);
    }

    #[test]
    fn what_differs_in_anything_else_does_not_go_along() {
        for kind in [V4, V6] {
            let packets = stream(kind, &[DATA; 2], 0);
            let (first, next) = (&packets[0], &packets[1]);
            let tcp = kind.0;
            let goes = |next: &[u8]| Train::begin(first).unwrap().take(first, next);
            assert!(goes(next));
            // Set anew for each segment: IPv4's number and checksum; TCP's checksum.
            let own: &[usize] = if kind == V4 { &[18, 19, 24, 25] } else { &[] };
            for at in 0..tcp + 32 {
                let mut other = next.clone();
                other[at] ^= 0x80;
                let free = own.contains(&at) || at == tcp + CHECKSUM || at == tcp + CHECKSUM + 1;
                assert_eq!(goes(&other), free, "{kind:?}: byte {at}");
            }
            for bit in [0x02, 0x04, 0x20, flag::ECE, 0x80] {
                let mut other = next.clone();
                other[tcp + FLAGS] |= bit;
                assert!(!goes(&other), "flag {bit:#x}");
            }
            assert!(!goes(&stream(kind, &[DATA, DATA, DATA], 0)[2]), "a gap");
            assert!(!goes(&segment(kind, 41, long(next, tcp + 4), flag::ACK, &[0; DATA + 1])), "larger");
            assert!(!goes(&next[..next.len() - 1]), "cut short");
            assert!(!goes(&[next, &[0][..]].concat()), "padded");
            assert!(!goes(&[]));
        }
    }

    #[test]
    fn a_train_ends_with_what_ends_something_and_with_the_longest_packet() {
        for ends in [flag::PSH, flag::FIN] {
            let mut packets = stream(V4, &[DATA; 3], 0);
            packets[1][V4.0 + FLAGS] |= ends;
            let mut train = Train::begin(&packets[0]).unwrap();
            assert!(train.take(&packets[0], &packets[1]) && !train.take(&packets[0], &packets[2]));
        }
        let packets = stream(V4, &[DATA, DATA - 1, DATA - 1], 0);
        let mut train = Train::begin(&packets[0]).unwrap();
        assert!(train.take(&packets[0], &packets[1]) && !train.take(&packets[0], &packets[2]), "after a shorter one");
        let packets = stream(V6, &[1428; 60], 0);
        let mut train = Train::begin(&packets[0]).unwrap();
        let taken = packets[1..].iter().take_while(|next| train.take(&packets[0], next)).count();
        assert_eq!(taken + 1, (MOST - 72) / 1428);
    }

    #[test]
    fn what_is_no_plain_segment_begins_none() {
        let good = stream(V4, &[DATA], 0).remove(0);
        assert!(Train::begin(&good).is_some());
        let with = |at: usize, value: u8| {
            let mut p = good.clone();
            p[at] = value;
            Train::begin(&p).is_some()
        };
        assert!(!with(20, 0x20) && !with(21, 1), "fragments");
        assert!(!with(20, 0), "one that may be cut up on its way, which each number is for");
        assert!(!with(14, 0x46) && !with(23, 17) && !with(12, 0x81) && !with(16, 0));
        assert!(!with(V4.0 + 12, 0x40), "a header too short");
        for flags in [0x02, 0x12, 0x14, 0x30, 0x90, 0] {
            assert!(!with(V4.0 + FLAGS, flags));
        }
        assert!(Train::begin(&stream(V4, &[LEAST - 1], 0)[0]).is_none(), "shorter than may go in numbers");
        assert!((0..good.len()).all(|len| Train::begin(&good[..len]).is_none()));
    }
}
