//! The role of a TCP segment in its connection (RFC 9293 section 3.1).

use crate::header::header;
use crate::parse::Packet;
use crate::tables::Protocol;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Bytes of the TCP header up to the flags.
const UP_TO_FLAGS: usize = 14;

/// What a segment does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is none, or its flags are not in the packet.
    #[default]
    None,
    /// One that this host has sent, in an ICMP error.
    Quoted,
    /// A SYN alone: it opens a connection.
    Opens,
    /// A SYN with an ACK: it answers one that opens.
    Answers,
    /// An ACK without SYN and RST: the connection goes on.
    GoesOn,
    /// A RST, or nonsense.
    Other,
}

/// A segment's role and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) role: Role,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
}

/// The segment in a packet. Flags behind the packet's end are padding.
pub(crate) fn segment_of(packet: &Packet, frame: &[u8]) -> Segment {
    let at = packet.ip.transport;
    if packet.protocol != Protocol::Tcp || packet.ip.ends_before(at + UP_TO_FLAGS) {
        return Segment::default();
    }
    let Some(bytes) = header::<UP_TO_FLAGS>(frame, at) else { return Segment::default() };
    let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, _, flags] = bytes;
    let role = match flags & (FIN | SYN | RST | ACK) {
        SYN => Role::Opens,
        flags if flags & (SYN | ACK) == SYN | ACK => Role::Answers,
        flags if flags & !FIN == ACK => Role::GoesOn,
        _ => Role::Other,
    };
    Segment { role, sequence: u32::from_be_bytes([s0, s1, s2, s3]), acknowledged: u32::from_be_bytes([a0, a1, a2, a3]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse};
    use crate::testing::{HERE, PEER, ends, tcp};

    fn segment(flags: u8) -> Segment {
        let frame = tcp(ends(PEER, 5), ends(HERE, 7), flags, 100, 200);
        let Parsed::Found(packet) = parse(&frame) else { panic!("a segment") };
        segment_of(&packet, &frame)
    }

    #[test]
    fn flags_tell_the_role() {
        for (flags, role) in [
            (SYN, Role::Opens),
            (SYN | ACK, Role::Answers),
            (ACK, Role::GoesOn),
            (ACK | FIN, Role::GoesOn),
            (ACK | 0x08, Role::GoesOn),
            (RST, Role::Other),
            (ACK | RST, Role::Other),
            (FIN, Role::Other),
            (SYN | FIN, Role::Other),
            (0, Role::Other),
        ] {
            assert_eq!(segment(flags), Segment { role, sequence: 100, acknowledged: 200 }, "{flags:#x}");
        }
    }

    #[test]
    fn flags_in_the_padding_are_none() {
        let mut frame = tcp(ends(PEER, 5), ends(HERE, 7), SYN, 100, 200);
        frame[17] = 20 + 13;
        let Parsed::Found(packet) = parse(&frame) else { panic!("a segment") };
        assert_eq!(segment_of(&packet, &frame).role, Role::None);
    }
}
