//! The 48-byte header of every NTP message (RFC 5905 §7.3).

use crate::stamp::{Short, Stamp};
use thiserror::Error;

/// The header's length.
pub const HEADER: usize = 48;

/// The leap indicator: what happens at the end of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LeapIndicator {
    /// No leap second.
    #[default]
    None = 0,
    /// The day's last minute has 61 seconds.
    Insert = 1,
    /// The day's last minute has 59 seconds.
    Delete = 2,
    /// The sender is not synchronised.
    Unknown = 3,
}

/// The mode of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A client's request.
    Client = 3,
    /// A server's reply.
    Server = 4,
}

/// A message's header, without extension fields and MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtpPacket {
    /// Leap second announced, or not synchronised.
    pub leap: LeapIndicator,
    /// 3 or 4.
    pub version: u8,
    /// Client or server.
    pub mode: Mode,
    /// Distance from the reference; 0: see [`crate::Kiss`]; 16: not synchronised.
    pub stratum: u8,
    /// Interval between requests: log2 s.
    pub poll: i8,
    /// Precision of the sender's clock: log2 s.
    pub precision: i8,
    /// Round trip to the reference.
    pub root_delay: Short,
    /// Greatest possible error of the sender's clock, without half the `root_delay`.
    pub root_dispersion: Short,
    /// The reference ID: four letters (stratum 0 and 1), or an IPv4 address or a hash of an IPv6
    /// one.
    pub reference_id: u32,
    /// When the sender's clock was last set.
    pub reference_timestamp: Stamp,
    /// The request's transmit timestamp, returned.
    pub origin_timestamp: Stamp,
    /// When the request arrived.
    pub receive_timestamp: Stamp,
    /// When this left.
    pub transmit_timestamp: Stamp,
}

/// Why bytes are not a supported NTP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MalformedPacket {
    /// Shorter than a header.
    #[error("shorter than {HEADER} bytes")]
    Short,
    /// A version other than 3 and 4.
    #[error("NTP version {0}")]
    Version(u8),
    /// A mode other than client and server.
    #[error("NTP mode {0}")]
    Mode(u8),
}

impl NtpPacket {
    /// A request with this transmit timestamp, and no other information about the client (data
    /// minimisation).
    #[must_use]
    pub const fn request(transmit_timestamp: Stamp) -> Self {
        Self {
            leap: LeapIndicator::None,
            version: 4,
            mode: Mode::Client,
            stratum: 0,
            poll: 0,
            // The value of clients that do not reveal their precision.
            precision: 32,
            root_delay: Short(0),
            root_dispersion: Short(0),
            reference_id: 0,
            reference_timestamp: Stamp(0),
            origin_timestamp: Stamp(0),
            receive_timestamp: Stamp(0),
            transmit_timestamp,
        }
    }

    /// Makes this a request of interleaved mode (RFC 9769 §2). A server with that mode returns
    /// `receive` as origin; `before` is the receive timestamp of its previous reply.
    pub const fn interleave(&mut self, receive: Stamp, before: Stamp) {
        self.receive_timestamp = receive;
        self.origin_timestamp = before;
    }

    /// Parses the header, and returns it with the bytes that follow.
    ///
    /// # Errors
    /// Why the bytes are not a message.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), MalformedPacket> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(MalformedPacket::Short)?;
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let stamp = |at: usize| Stamp(u64::from(word(at)) << 32 | u64::from(word(at + 4)));
        let version = header[0] >> 3 & 7;
        if !(3..=4).contains(&version) {
            return Err(MalformedPacket::Version(version));
        }
        let packet = Self {
            leap: match header[0] >> 6 {
                0 => LeapIndicator::None,
                1 => LeapIndicator::Insert,
                2 => LeapIndicator::Delete,
                _ => LeapIndicator::Unknown,
            },
            version,
            mode: match header[0] & 7 {
                3 => Mode::Client,
                4 => Mode::Server,
                other => return Err(MalformedPacket::Mode(other)),
            },
            stratum: header[1],
            poll: header[2] as i8,
            precision: header[3] as i8,
            root_delay: Short(word(4)),
            root_dispersion: Short(word(8)),
            reference_id: word(12),
            reference_timestamp: stamp(16),
            origin_timestamp: stamp(24),
            receive_timestamp: stamp(32),
            transmit_timestamp: stamp(40),
        };
        Ok((packet, rest))
    }

    /// The message's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = (self.leap as u8) << 6 | (self.version & 7) << 3 | self.mode as u8;
        bytes[1] = self.stratum;
        bytes[2] = self.poll as u8;
        bytes[3] = self.precision as u8;
        bytes[4..8].copy_from_slice(&self.root_delay.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.root_dispersion.0.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.reference_id.to_be_bytes());
        for (at, stamp) in [
            (16, self.reference_timestamp),
            (24, self.origin_timestamp),
            (32, self.receive_timestamp),
            (40, self.transmit_timestamp),
        ] {
            bytes[at..at + 8].copy_from_slice(&stamp.0.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_understood() {
        // A server at stratum 10 with its local clock as reference; layout by RFC 5905 figure 8.
        let bytes = [
            0x24, 0x0a, 0x00, 0xe7, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0x7f, 0x01, 0x01, 0xec, 0, 0, 0, 0, 0, 0, 0, //
            1, 2, 3, 4, 5, 6, 7, 8, 0xec, 0, 0, 1, 0, 0, 0, 9, 0xec, 0, 0, 1, 0, 0, 1, 0, 0xaa,
        ];
        let (packet, rest) = NtpPacket::parse(&bytes).unwrap();
        assert_eq!((packet.leap, packet.version, packet.mode), (LeapIndicator::None, 4, Mode::Server));
        assert_eq!((packet.stratum, packet.precision, packet.reference_id), (10, -25, 0x7f7f_0101));
        assert_eq!((packet.root_delay, packet.root_dispersion), (Short(0), Short(1)));
        assert_eq!(packet.origin_timestamp, Stamp(0x0102_0304_0506_0708));
        assert_eq!(
            (packet.receive_timestamp, packet.transmit_timestamp),
            (Stamp(0xec00_0001_0000_0009), Stamp(0xec00_0001_0000_0100))
        );
        assert_eq!(rest, [0xaa]);
    }

    #[test]
    fn what_is_no_message_of_ours_says_why() {
        assert_eq!(NtpPacket::parse(&[0x24; 47]), Err(MalformedPacket::Short));
        assert_eq!(NtpPacket::parse(&[0x14; 48]), Err(MalformedPacket::Version(2)));
        assert_eq!(NtpPacket::parse(&[0x25; 48]), Err(MalformedPacket::Mode(5)));
    }

    proptest! {
        #[test]
        fn bytes_there_and_back(mut bytes in proptest::collection::vec(any::<u8>(), 48..100), mode in 3u8..5, version in 3u8..5) {
            bytes[0] = bytes[0] & 0xc0 | version << 3 | mode;
            let (packet, rest) = NtpPacket::parse(&bytes).unwrap();
            prop_assert_eq!(&packet.to_bytes()[..], &bytes[..48]);
            prop_assert_eq!(rest, &bytes[48..]);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = NtpPacket::parse(&bytes);
        }
    }
}
