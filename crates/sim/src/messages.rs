//! Message boundaries of a TCP connection, found from the packets on a cable.

/// Follows one direction of the most recently opened TCP connection, whose program sends messages
/// of one size. It distinguishes retransmissions from first transmissions. It parses IPv4 and IPv6
/// without extension headers, and ignores all other packets.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Bytes of a message.
    size: u64,
    connection: Option<Connection>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    ports: [u8; 4],
    /// The next sequence number expected.
    next: u32,
    /// Number of bytes before it.
    seen: u64,
}

/// What a segment carries for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewBytes {
    /// The byte in the middle of a message.
    pub middle: bool,
    /// The last byte of a message.
    pub end: bool,
}

/// The parsed fields of a segment.
struct Segment {
    ports: [u8; 4],
    sequence: u32,
    opens: bool,
    /// Bytes of data.
    length: u32,
}

impl Messages {
    /// Follows messages of this many bytes; at least 1.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { size: u64::from(size.max(1)), connection: None }
    }

    /// Inspects a frame, Ethernet header first.
    pub fn see(&mut self, frame: &[u8]) -> NewBytes {
        let Some(segment) = Segment::read(frame) else { return NewBytes::default() };
        if segment.opens {
            let connection = Connection { ports: segment.ports, next: segment.sequence.wrapping_add(1), seen: 0 };
            self.connection = Some(connection);
            return NewBytes::default();
        }
        let Some(connection) = self.connection.as_mut().filter(|known| known.ports == segment.ports) else {
            return NewBytes::default();
        };
        let end = segment.sequence.wrapping_add(segment.length);
        // Half of the sequence space is ahead, the other half behind (RFC 9293 §3.4).
        let fresh = end.wrapping_sub(connection.next);
        if segment.length == 0 || fresh == 0 || fresh > 1 << 31 {
            return NewBytes::default();
        }
        let (from, to) = (connection.seen, connection.seen + u64::from(fresh));
        (connection.next, connection.seen) = (end, to);
        // Whether an offset within a message was passed.
        let passed = |place: u64| (from + self.size - place) / self.size < (to + self.size - place) / self.size;
        NewBytes { middle: passed(self.size / 2 + 1), end: passed(self.size) }
    }
}

impl Segment {
    fn read(frame: &[u8]) -> Option<Self> {
        const ETHERNET: usize = 14;
        const TCP: u8 = 6;
        let packet = frame.get(ETHERNET..)?;
        let word = |at: usize| Some(usize::from(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?])));
        let (header, whole, protocol) = match frame.get(12..14)? {
            [0x08, 0x00] => (usize::from(packet.first()? & 15) * 4, word(2)?, *packet.get(9)?),
            [0x86, 0xdd] => (40, 40 + word(4)?, *packet.get(6)?),
            _ => return None,
        };
        // A frame may be padded: the packet says where it ends.
        let tcp = packet.get(header..whole)?;
        let data = usize::from(tcp.get(12)? >> 4) * 4;
        if protocol != TCP {
            return None;
        }
        Some(Self {
            ports: tcp.get(..4)?.try_into().ok()?,
            sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            opens: tcp.get(13)? & 2 != 0,
            length: u32::try_from(tcp.len().checked_sub(data)?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: u8 = 2;
    const ACK: u8 = 16;

    fn v4(sequence: u32, flags: u8, data: usize) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12] = 0x08;
        let whole = u16::try_from(40 + data).unwrap().to_be_bytes();
        frame.extend([0x45, 0, whole[0], whole[1], 0, 0, 0, 0, 64, 6]);
        frame.extend([0; 10]);
        frame.extend(tcp(sequence, flags, data));
        frame
    }

    fn v6(sequence: u32, flags: u8, data: usize) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12..].copy_from_slice(&[0x86, 0xdd]);
        let rest = u16::try_from(20 + data).unwrap().to_be_bytes();
        frame.extend([0x60, 0, 0, 0, rest[0], rest[1], 6, 64]);
        frame.extend([0; 32]);
        frame.extend(tcp(sequence, flags, data));
        frame
    }

    fn tcp(sequence: u32, flags: u8, data: usize) -> Vec<u8> {
        let mut tcp = vec![0, 80, 1, 2];
        tcp.extend(sequence.to_be_bytes());
        tcp.extend([0, 0, 0, 0, 5 << 4, flags, 0, 0, 0, 0, 0, 0]);
        tcp.extend(vec![7; data]);
        tcp
    }

    const NOTHING: NewBytes = NewBytes { middle: false, end: false };
    const MIDDLE: NewBytes = NewBytes { middle: true, end: false };
    const END: NewBytes = NewBytes { middle: false, end: true };

    #[test]
    fn middle_and_end_of_each_message_are_told_once() {
        for make in [v4, v6] {
            let mut messages = Messages::new(2500);
            // The sequence numbers wrap within the first message.
            let first = u32::MAX - 1200;
            assert_eq!(messages.see(&make(first.wrapping_sub(1), SYN, 0)), NOTHING);
            let at = |offset: u32| first.wrapping_add(offset);
            let told: Vec<NewBytes> =
                (0..5).map(|n| messages.see(&make(at(n * 1000), ACK, if n == 2 { 500 } else { 1000 }))).collect();
            // The fourth segment begins 500 bytes after the highest byte seen, as if 500 bytes had
            // taken another path. The skipped bytes count as sent.
            assert_eq!(told, [NOTHING, MIDDLE, END, MIDDLE, END]);
            assert_eq!(messages.see(&make(at(2000), ACK, 500)), NOTHING, "sent again");
            assert_eq!(messages.see(&make(at(5000), ACK, 0)), NOTHING, "an acknowledgement");
            assert_eq!(messages.see(&make(at(5000), ACK, 2500)), NewBytes { middle: true, end: true });
        }
    }

    #[test]
    fn only_the_connection_that_was_opened_last_is_followed() {
        let mut messages = Messages::new(100);
        assert_eq!(messages.see(&v4(1, ACK, 100)), NOTHING);
        messages.see(&v4(0, SYN, 0));
        let mut other = v4(1, ACK, 100);
        other[14 + 20] = 9;
        assert_eq!(messages.see(&other), NOTHING);
        assert_eq!(messages.see(&v4(1, ACK, 100)), NewBytes { middle: true, end: true });
        messages.see(&v4(500, SYN, 0));
        assert_eq!(messages.see(&v4(501, ACK, 51)), MIDDLE);
        assert_eq!(messages.see(&v4(552, ACK, 49)), END);
    }

    #[test]
    fn what_is_cut_off_or_no_tcp_is_not_looked_at() {
        let whole = v4(1, ACK, 100);
        for length in 0..whole.len() {
            let mut messages = Messages::new(1);
            messages.see(&v4(0, SYN, 0));
            assert_eq!(messages.see(&whole[..length]), NOTHING, "{length}");
        }
        let mut messages = Messages::new(1);
        messages.see(&v4(0, SYN, 0));
        let mut udp = whole.clone();
        udp[14 + 9] = 17;
        assert_eq!(messages.see(&udp), NOTHING);
        let mut long = whole;
        long[14 + 20 + 12] = 0xf0;
        long.truncate(14 + 40);
        assert_eq!(messages.see(&long), NOTHING);
    }
}
