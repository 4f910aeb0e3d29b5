//! TCP headers: a received one is parsed into a [`Segment`], a sent one is written in front of its
//! payload.

use super::options::Options;
use super::seq::Seq;
use smoltcp::wire::{TcpPacket, TcpSeqNumber};

/// Bytes of the header without options.
pub(in crate::tcp) const HEADER_LEN: usize = 20;

/// Control bits.
pub(in crate::tcp) mod bit {
    pub(in crate::tcp) const FIN: u8 = 1;
    pub(in crate::tcp) const SYN: u8 = 1 << 1;
    pub(in crate::tcp) const RST: u8 = 1 << 2;
    pub(in crate::tcp) const PSH: u8 = 1 << 3;
    pub(in crate::tcp) const ACK: u8 = 1 << 4;
    pub(in crate::tcp) const URG: u8 = 1 << 5;
    pub(in crate::tcp) const ECE: u8 = 1 << 6;
    pub(in crate::tcp) const CWR: u8 = 1 << 7;
}

/// A segment's header as a value.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Segment {
    pub(in crate::tcp) source_port: u16,
    pub(in crate::tcp) destination_port: u16,
    pub(in crate::tcp) seq: Seq,
    pub(in crate::tcp) ack: Seq,
    pub(in crate::tcp) bits: u8,
    /// The window field, not scaled.
    pub(in crate::tcp) window: u16,
    pub(in crate::tcp) urgent: u16,
    pub(in crate::tcp) options: Options,
    /// Bytes of payload.
    pub(in crate::tcp) len: u32,
    /// The ECN field of the packet's IP header (RFC 3168 §5).
    pub(in crate::tcp) codepoint: u8,
}

impl Segment {
    /// Parses the header at the front of `bytes`, of a message of `total` bytes. Returns the length
    /// of the header, too. `None` if it is malformed.
    pub(in crate::tcp) fn parse(bytes: &[u8], total: usize) -> Option<(Self, usize)> {
        let packet = TcpPacket::new_checked(bytes).ok()?;
        let header = usize::from(packet.header_len());
        let segment = Self {
            source_port: packet.src_port(),
            destination_port: packet.dst_port(),
            seq: Seq(packet.seq_number().0 as u32),
            ack: Seq(packet.ack_number().0 as u32),
            // FIN, SYN, RST, PSH, ACK, URG, ECE and CWR lie in this order in octet 13 (RFC 9293
            // §3.1).
            bits: *bytes.get(13)?,
            window: packet.window_len(),
            urgent: packet.urgent_at(),
            options: Options::parse(packet.options()),
            len: total.checked_sub(header)? as u32,
            codepoint: 0,
        };
        Some((segment, header))
    }

    /// Whether all of these bits are set.
    pub(in crate::tcp) fn has(&self, bits: u8) -> bool {
        self.bits & bits == bits
    }

    /// How many sequence numbers the segment takes.
    pub(in crate::tcp) fn length(&self) -> u32 {
        self.len + u32::from(self.has(bit::SYN)) + u32::from(self.has(bit::FIN))
    }

    /// Whether it carries a FIN and nothing else.
    pub(in crate::tcp) fn is_bare_fin(&self) -> bool {
        self.len == 0 && self.bits & (bit::FIN | bit::SYN | bit::RST) == bit::FIN
    }

    /// The sequence number after it.
    pub(in crate::tcp) fn end(&self) -> Seq {
        self.seq + self.length()
    }

    /// Bytes of the header that [`Segment::emit`] writes.
    pub(in crate::tcp) fn header_len(&self) -> usize {
        HEADER_LEN + self.options.emitted_len()
    }

    /// Writes the header with a zero checksum into `bytes`, which is [`Segment::header_len`] long.
    pub(in crate::tcp) fn emit(&self, bytes: &mut [u8]) {
        self.options.emit(&mut bytes[HEADER_LEN..]);
        let header_len = bytes.len() as u8;
        let mut packet = TcpPacket::new_unchecked(&mut bytes[..]);
        packet.set_src_port(self.source_port);
        packet.set_dst_port(self.destination_port);
        packet.set_seq_number(TcpSeqNumber(self.seq.0 as i32));
        packet.set_ack_number(TcpSeqNumber(self.ack.0 as i32));
        packet.clear_flags();
        packet.set_header_len(header_len);
        packet.set_window_len(self.window);
        packet.set_checksum(0);
        packet.set_urgent_at(self.urgent);
        bytes[13] = self.bits;
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Timestamps;
    use super::*;

    #[test]
    fn a_header_survives_a_round_trip() {
        let options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Default::default() };
        let segment = Segment {
            source_port: 80,
            destination_port: 4000,
            seq: Seq(0xffff_fff0),
            ack: Seq(7),
            bits: bit::ACK | bit::PSH | bit::URG | bit::ECE | bit::CWR,
            window: 512,
            urgent: 3,
            options,
            len: 4,
            codepoint: 0,
        };
        let mut bytes = [0xff; 36];
        segment.emit(&mut bytes[..32]);
        let (read, header) = Segment::parse(&bytes, 36).unwrap();
        assert_eq!((header, read.header_len()), (32, 32));
        assert_eq!(format!("{read:?}"), format!("{segment:?}"));
        assert_eq!(read.end(), Seq(0xffff_fff4));
    }

    #[test]
    fn broken_headers_are_refused() {
        let mut bytes = [0; 20];
        for offset in [0u8, 4, 6, 15] {
            bytes[12] = offset << 4;
            assert!(Segment::parse(&bytes, 20).is_none(), "data offset {offset}");
        }
        bytes[12] = 5 << 4;
        bytes[1] = 1;
        assert!(Segment::parse(&bytes[..19], 19).is_none());
    }
}
