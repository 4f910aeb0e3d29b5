//! TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018): parsed from untrusted bytes into a value, and
//! written from one.

use super::seq::Seq;
use zerocopy::FromZeros;

/// How many SACK blocks fit into a segment without other options (RFC 2018 §3).
pub(in crate::tcp) const MAX_SACK_BLOCKS: usize = 4;

/// Most bytes of options in a segment.
pub(in crate::tcp) const MAX_OPTIONS: usize = 40;

/// Bytes of the timestamps option in each segment, with its padding (RFC 7323 appendix A).
pub(in crate::tcp) const TIMESTAMPS_LEN: usize = 12;

/// The largest window shift allowed (RFC 7323 §2.3).
pub(in crate::tcp) const MAX_WINDOW_SHIFT: u8 = 14;

mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// A run of received bytes, `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct SackBlock {
    /// First sequence number of the run.
    pub(in crate::tcp) start: Seq,
    /// The sequence number after its last.
    pub(in crate::tcp) end: Seq,
}

shared_layout! { SackBlock { start, end } }

/// The timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct Timestamps {
    /// The sender's clock.
    pub(in crate::tcp) value: u32,
    /// The echo of our clock; meaningless without ACK.
    pub(in crate::tcp) echo: u32,
}

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tcp) struct Options {
    /// Maximum segment size, only on SYN; 0 if absent.
    pub(in crate::tcp) mss: u16,
    /// Shift of the window, only on SYN; limited to [`MAX_WINDOW_SHIFT`].
    pub(in crate::tcp) window_scale: Option<u8>,
    /// SACK permitted, only on SYN.
    pub(in crate::tcp) sack_permitted: bool,
    /// Timestamps.
    pub(in crate::tcp) timestamps: Option<Timestamps>,
    pub(in crate::tcp) blocks: [SackBlock; MAX_SACK_BLOCKS],
    pub(in crate::tcp) block_count: u8,
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

impl Options {
    /// Parses the option bytes of a header. Unknown options are skipped. A malformed length ends
    /// the parse; options before it count, as in other stacks.
    #[must_use]
    pub(in crate::tcp) fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        // The format of nearly every data segment (RFC 7323 appendix A).
        if bytes.len() == TIMESTAMPS_LEN && bytes[..4] == [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10] {
            options.timestamps = Some(Timestamps { value: be32(&bytes[4..]), echo: be32(&bytes[8..]) });
            return options;
        }
        while let [first, rest @ ..] = bytes {
            match *first {
                kind::END => break,
                kind::NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let Some(&len) = rest.first() else { break };
            let len = usize::from(len);
            if len < 2 || len > bytes.len() {
                break;
            }
            options.take(*first, &bytes[2..len]);
            bytes = &bytes[len..];
        }
        options
    }

    fn take(&mut self, option: u8, data: &[u8]) {
        match (option, data.len()) {
            (kind::MSS, 2) => self.mss = u16::from_be_bytes([data[0], data[1]]),
            (kind::WINDOW_SCALE, 1) => self.window_scale = Some(data[0].min(MAX_WINDOW_SHIFT)),
            (kind::SACK_PERMITTED, 0) => self.sack_permitted = true,
            (kind::TIMESTAMPS, 8) => {
                self.timestamps = Some(Timestamps { value: be32(data), echo: be32(&data[4..]) });
            }
            (kind::SACK, len) if len % 8 == 0 => {
                for block in data.chunks_exact(8) {
                    self.add_block(SackBlock { start: Seq(be32(block)), end: Seq(be32(&block[4..])) });
                }
            }
            _ => {}
        }
    }

    /// Adds a SACK block; more than [`MAX_SACK_BLOCKS`] are ignored.
    pub(in crate::tcp) fn add_block(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.block_count)) {
            *slot = block;
            self.block_count += 1;
        }
    }

    /// The SACK blocks as received, in any order and not validated.
    #[must_use]
    pub(in crate::tcp) fn blocks(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.block_count)]
    }

    /// How many bytes [`Options::emit`] writes: a multiple of four.
    #[must_use]
    pub(in crate::tcp) fn emitted_len(&self) -> usize {
        let mut len = 0;
        if self.mss != 0 {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            len += TIMESTAMPS_LEN;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.block_count > 0 {
            len += 4 + 8 * usize::from(self.block_count);
        }
        len
    }

    /// Writes the options to the front of `buffer`, which must hold [`Options::emitted_len`] bytes.
    pub(in crate::tcp) fn emit(&self, buffer: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if self.mss != 0 {
            put(&[kind::MSS, 4]);
            put(&self.mss.to_be_bytes());
        }
        if let Some(times) = self.timestamps {
            // SACK-permitted replaces the padding, as a SYN has no byte to spare for further
            // options.
            put(if self.sack_permitted { &[kind::SACK_PERMITTED, 2] } else { &[kind::NOP, kind::NOP] });
            put(&[kind::TIMESTAMPS, 10]);
            put(&times.value.to_be_bytes());
            put(&times.echo.to_be_bytes());
        } else if self.sack_permitted {
            put(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            put(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
        }
        if self.block_count > 0 {
            put(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * self.block_count]);
            for block in self.blocks() {
                put(&block.start.0.to_be_bytes());
                put(&block.end.0.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(options: Options) {
        let mut buffer = [0; MAX_OPTIONS];
        options.emit(&mut buffer);
        assert_eq!(options.emitted_len() % 4, 0);
        assert_eq!(Options::parse(&buffer[..options.emitted_len()]), options);
    }

    #[test]
    fn syn_options_survive_a_round_trip() {
        let times = Some(Timestamps { value: 7, echo: 9 });
        round_trip(Options {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: times,
            ..Default::default()
        });
        round_trip(Options { mss: 536, sack_permitted: true, ..Default::default() });
        round_trip(Options { timestamps: times, ..Default::default() });
    }

    #[test]
    fn four_blocks_fit_without_and_three_with_timestamps() {
        for (count, timestamps) in [(4, None), (3, Some(Timestamps::default()))] {
            let mut options = Options { timestamps, ..Default::default() };
            for n in 0..count {
                options.add_block(SackBlock { start: Seq(n * 10), end: Seq(n * 10 + 5) });
            }
            assert!(options.emitted_len() <= MAX_OPTIONS);
            round_trip(options);
        }
    }

    #[test]
    fn a_malformed_length_ends_the_parse_and_keeps_what_came_before() {
        for tail in [&[8u8, 0][..], &[8, 1], &[8, 30, 1], &[8]] {
            let mut bytes = vec![2, 4, 5, 180, 1];
            bytes.extend_from_slice(tail);
            let options = Options::parse(&bytes);
            assert_eq!((options.mss, options.timestamps), (1460, None));
        }
    }

    #[test]
    fn an_oversized_shift_is_held_at_fourteen() {
        assert_eq!(Options::parse(&[3, 3, 200]).window_scale, Some(14)); // RFC 7323 §2.3
    }

    proptest! {
        #[test]
        fn any_bytes_parse_and_what_was_parsed_survives(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let options = Options::parse(&bytes);
            if options.emitted_len() <= MAX_OPTIONS {
                round_trip(options);
            }
        }
    }
}
