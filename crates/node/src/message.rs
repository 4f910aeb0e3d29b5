//! The format of a message: its number, its send time, and known content that reveals corruption.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 to 3 | its number within the stream, from 0; most significant byte first |
//! | 4 to 9 | send time: nanoseconds since [`Start::at_ns`], modulo 2^48 (78 hours) |
//! | 10 to its end | a repeated fixed table, whose start offset depends on stream and number |
//!
//! Messages of a stream have one size, so over TCP they follow each other without delimiters. A
//! lost piece of a stream shows at once: the content after it is of another offset.
//!
//! [`Start::at_ns`]: crate::protocol::Start

use crate::stream::LEAST_SIZE;

/// The bytes before the content.
const HEADER: usize = LEAST_SIZE as usize;
const SEQUENCE: std::ops::Range<usize> = 0..4;
const STAMP: std::ops::Range<usize> = 4..HEADER;
const STAMP_MODULUS: i64 = 1 << 48;
/// The table's size: a prime, so a gap of n whole segments, pages or powers of two returns to the
/// same offset of the table only for n a multiple of 4093.
const PERIOD: usize = 4093;

static TABLE: [u8; PERIOD] = table();

/// Pseudo-random bytes: `SplitMix64` (Steele, Lea, Flood 2014).
const fn table() -> [u8; PERIOD] {
    let mut table = [0; PERIOD];
    let mut at = 0;
    while at < PERIOD {
        table[at] = mix(at as u64) as u8;
        at += 1;
    }
    table
}

const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Calls `call` with the pieces of the table that form `bytes` bytes of content from offset `place`
/// of a message, until it returns false. Returns whether it never did.
fn pieces(stream: u32, sequence: u32, place: usize, bytes: usize, mut call: impl FnMut(usize, &[u8]) -> bool) -> bool {
    let begin = mix(u64::from(stream) << 32 | u64::from(sequence)) % PERIOD as u64;
    let mut at = (begin as usize + place) % PERIOD;
    let mut done = 0;
    while done < bytes {
        let piece = &TABLE[at..PERIOD.min(at + bytes - done)];
        if !call(done, piece) {
            return false;
        }
        done += piece.len();
        at = 0;
    }
    true
}

/// Writes all of a message except its send time. It has at least [`LEAST_SIZE`] bytes.
pub(crate) fn write(message: &mut [u8], stream: u32, sequence: u32) {
    let (header, content) = message.split_at_mut(HEADER);
    header[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    pieces(stream, sequence, HEADER, content.len(), |at, piece| {
        content[at..at + piece.len()].copy_from_slice(piece);
        true
    });
}

/// Writes the send time: nanoseconds after the start.
pub(crate) fn stamp(message: &mut [u8], since_start_ns: i64) {
    message[STAMP].copy_from_slice(&since_start_ns.to_be_bytes()[2..]);
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its number.
    pub sequence: u32,
    /// Its send time.
    stamp: i64,
}

impl Header {
    fn read(bytes: &[u8; HEADER]) -> Self {
        let [a, b, c, d, stamp @ ..] = *bytes;
        let [e, f, g, h, i, j] = stamp;
        Self { sequence: u32::from_be_bytes([a, b, c, d]), stamp: i64::from_be_bytes([0, 0, e, f, g, h, i, j]) }
    }

    /// The latency until `since_start_ns` after the start; its magnitude is below half the modulus.
    /// Negative if the message arrived before it was sent.
    pub(crate) fn latency_ns(self, since_start_ns: i64) -> i64 {
        let ns = since_start_ns.wrapping_sub(self.stamp).rem_euclid(STAMP_MODULUS);
        if ns < STAMP_MODULUS / 2 { ns } else { ns - STAMP_MODULUS }
    }
}

/// A datagram's header, if it is a message of this stream with this size.
pub(crate) fn read(datagram: &[u8], stream: u32, size: usize) -> Option<Header> {
    if datagram.len() != size {
        return None;
    }
    let (header, content) = datagram.split_first_chunk()?;
    let header = Header::read(header);
    is_content(stream, header.sequence, HEADER, content).then_some(header)
}

/// Whether these bytes are a message's content from offset `place`.
fn is_content(stream: u32, sequence: u32, place: usize, bytes: &[u8]) -> bool {
    pieces(stream, sequence, place, bytes.len(), |at, piece| &bytes[at..at + piece.len()] == piece)
}

/// Parses the messages of a TCP connection, in pieces of any size.
#[derive(Debug)]
pub(crate) struct Follower {
    stream: u32,
    size: usize,
    /// The expected number of the current message.
    next: u32,
    header: [u8; HEADER],
    /// How many bytes of the message have arrived.
    place: usize,
    /// Whether they are correct.
    good: bool,
}

impl Follower {
    /// The state at the beginning of a connection. `size` is at least [`LEAST_SIZE`].
    pub(crate) const fn new(stream: u32, size: usize) -> Self {
        Self { stream, size, next: 0, header: [0; HEADER], place: 0, good: true }
    }

    /// Whether a message has begun and not ended.
    pub(crate) const fn is_within(&self) -> bool {
        self.place > 0
    }

    /// Parses received bytes, and calls `call` for each complete message: with its header, or none
    /// if the message is corrupt.
    pub(crate) fn take(&mut self, mut bytes: &[u8], mut call: impl FnMut(Option<Header>)) {
        while !bytes.is_empty() {
            let end = if self.place < HEADER { HEADER } else { self.size };
            let (piece, rest) = bytes.split_at(bytes.len().min(end - self.place));
            if self.place < HEADER {
                self.header[self.place..self.place + piece.len()].copy_from_slice(piece);
            } else {
                self.good = self.good && is_content(self.stream, self.next, self.place, piece);
            }
            self.place += piece.len();
            bytes = rest;
            if self.place == self.size {
                let header = Header::read(&self.header);
                call((self.good && header.sequence == self.next).then_some(header));
                (self.place, self.good, self.next) = (0, true, self.next.wrapping_add(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(stream: u32, sequence: u32, size: usize, sent: i64) -> Vec<u8> {
        let mut message = vec![0; size];
        write(&mut message, stream, sequence);
        stamp(&mut message, sent);
        message
    }

    #[test]
    fn a_message_says_when_it_was_sent() {
        for size in [HEADER, HEADER + 1, 100, PERIOD, 3 * PERIOD + 7] {
            for (sequence, sent) in [(0, 0), (1, 5), (77, -5), (u32::MAX, i64::MAX)] {
                let header = read(&message(31, sequence, size, sent), 31, size).unwrap();
                assert_eq!(header.sequence, sequence);
                assert_eq!(header.latency_ns(sent.wrapping_add(1_500)), 1_500);
                assert_eq!(header.latency_ns(sent.wrapping_sub(1_500)), -1_500);
            }
        }
    }

    #[test]
    fn what_is_no_message_of_the_stream_is_none() {
        let good = message(31, 5, 100, 0);
        assert!(read(&good, 31, 100).is_some());
        assert!(read(&good, 32, 100).is_none(), "another stream's");
        assert!(read(&good, 31, 101).is_none(), "another size");
        assert!(read(&good[..99], 31, 100).is_none());
        for length in 0..HEADER {
            assert!(read(&good[..length], 31, length).is_none(), "{length} bytes");
        }
        // A corrupt send time mostly gives an impossible latency; all other bytes are known.
        for at in (0..good.len()).filter(|at| !STAMP.contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(read(&bad, 31, 100).is_none(), "byte {at}");
        }
    }

    #[test]
    fn a_piece_that_is_lost_is_found_in_the_same_message() {
        for size in [100, 5_000, 20_000] {
            let stream: Vec<u8> = (0..5).flat_map(|sequence| message(7, sequence, size, 0)).collect();
            for (from, lost) in [(size + 20, 1), (size + 20, 50), (2 * size, 64), (3, 9), (size, size)] {
                let mut torn = stream.clone();
                torn.drain(from..from + lost);
                let mut good = Vec::new();
                Follower::new(7, size).take(&torn, |header| good.push(header.is_some()));
                let whole = from / size;
                assert!(good[..whole].iter().all(|&good| good), "{size}: {from}, {lost}");
                assert!(good[whole..].iter().all(|&good| !good), "{size}: {from}, {lost}");
            }
        }
    }

    proptest! {
        #[test]
        fn messages_come_in_any_pieces(
            size in HEADER..9_000_usize,
            cuts in proptest::collection::vec(1..5_000_usize, 1..40),
        ) {
            let stream: Vec<u8> =
                (0..4).flat_map(|sequence| message(9, sequence, size, i64::from(sequence) * 1_000)).collect();
            let mut follower = Follower::new(9, size);
            let mut got = Vec::new();
            let mut rest = stream.as_slice();
            for &cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                follower.take(piece, |header| got.push(header));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(!follower.is_within());
            let got: Vec<_> = got.into_iter().map(|header| header.map(|header| (header.sequence, header.stamp))).collect();
            prop_assert_eq!(got, (0..4).map(|sequence| Some((sequence, i64::from(sequence) * 1_000))).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_that_comes_can_break_a_follower(
            size in HEADER..300_usize,
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..700), 0..8),
        ) {
            let mut follower = Follower::new(1, size);
            let mut messages = 0;
            for piece in &pieces {
                follower.take(piece, |_| messages += 1);
            }
            let bytes: usize = pieces.iter().map(Vec::len).sum();
            prop_assert_eq!(messages, bytes / size);
            prop_assert_eq!(follower.is_within(), !bytes.is_multiple_of(size));
        }

        #[test]
        fn no_datagram_can_break_a_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 0..300_usize) {
            let _ = read(&bytes, 1, size);
        }
    }
}
