//! Initial sequence numbers (RFC 6528) and timestamp offsets (RFC 7323 §7.1). A keyed hash of both
//! endpoints keeps third parties from guessing them. A clock keeps segments of an old connection
//! out of its successor.

use crate::addr::Endpoint;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::wire::seq::Seq;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// Distance between the sequence numbers of successive connections between the same endpoints, as
/// on Linux: more than an unscaled window.
const APART: u32 = 65_537;

impl Stack<'_> {
    /// A keyed hash of both endpoints and `extra`, independent of the hash of the connection table.
    pub(in crate::tcp) fn tcp_hash(&self, local: Endpoint, remote: Endpoint, extra: u64) -> u64 {
        let secret = self.mem.core.secret;
        let mut hasher = SipHasher24::new_with_keys(secret[2], secret[3]);
        hasher.write(&local.address.0);
        hasher.write(&remote.address.0);
        hasher.write_u32(u32::from(local.port) << 16 | u32::from(remote.port));
        hasher.write_u64(extra);
        hasher.finish()
    }

    /// The initial sequence number and the timestamp offset of a connection that is opened now.
    pub(in crate::tcp) fn initial_sequence(&self, now: Instant, local: Endpoint, remote: Endpoint) -> (Seq, u32) {
        let hash = self.tcp_hash(local, remote, 0);
        // RFC 6528 §3: M ticks every 4 microseconds.
        let clock = (now.as_nanos() / 4_000) as u32;
        (Seq((hash as u32).wrapping_add(clock)), (hash >> 32) as u32)
    }

    /// A connection replaces one in TIME-WAIT whose SND.NXT was `sent`: its sequence numbers begin
    /// beyond that (RFC 9293 §3.10.7.4). They are ahead of the clock if the old connection sent
    /// more than 250,000 bytes a second.
    pub(in crate::tcp) fn begin_beyond(&mut self, index: ConnectionIndex, sent: Seq) {
        let least = sent + APART;
        let s = &mut self.mem.tcp[index];
        if s.iss.lt(least) {
            s.iss = least;
            s.send = SendQueue::new(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StackConfig;
    use crate::addr::Address;
    use crate::memory::{Limits, OwnedMemory};
    use crate::time::Span;
    use std::collections::BTreeSet;

    const KEY: [u64; 4] = [1, 2, 3, 4];
    const BEGIN: Instant = Instant::from_nanos(1_000_000_000);

    fn end(last: u8, port: u16) -> Endpoint {
        Endpoint::new(Address::v4([10, 0, 0, last]), port)
    }

    /// The initial sequence number, and the timestamp offset.
    fn initial(key: [u64; 4], now: Instant, local: Endpoint, remote: Endpoint) -> (u32, u32) {
        let mut memory = OwnedMemory::new(&Limits { frames: 64, tcp: 1, udp: 1, ..Limits::DEFAULT });
        let mut stack = memory.stack();
        stack.init(&StackConfig { secret: key, ..StackConfig::default() });
        let (seq, offset) = stack.initial_sequence(now, local, remote);
        (seq.0, offset)
    }

    /// RFC 6528 §3, RFC 9293 §3.4.1.
    #[test]
    fn between_the_same_ends_numbers_grow_with_a_clock_of_4_microseconds() {
        let at = |after| initial(KEY, BEGIN + after, end(1, 80), end(2, 4000));
        let (first, offset) = at(Span::ZERO);
        for micros in [0, 4, 8, 1_000, 1_000_000] {
            assert_eq!(at(Span::from_micros(micros)), (first.wrapping_add(micros as u32 / 4), offset), "{micros} us");
        }
        assert_eq!(at(Span::from_nanos(3_999)).0, first, "the clock has not ticked");
        let round = Span::from_micros(4 << 32);
        assert_eq!(at(round).0, first, "it goes round once in 4.77 hours");
    }

    /// RFC 6528 §3: the numbers of some connections reveal nothing about those of others.
    #[test]
    fn between_other_ends_numbers_lie_anywhere() {
        let of = |local, remote| initial(KEY, BEGIN, local, remote).0;
        let numbers: Vec<u32> = (1..=1_000).map(|port| of(end(1, 80), end(2, port))).collect();
        let steps: BTreeSet<u32> = numbers.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
        assert_eq!(steps.len(), 999, "no step from port to port comes twice");
        for part in 0..8 {
            let there = numbers.iter().filter(|&&number| number >> 29 == part).count();
            assert!((90..160).contains(&there), "{there} of 1000 in part {part} of 8");
        }
        let all = [
            of(end(1, 80), end(2, 4000)),
            of(end(1, 81), end(2, 4000)),
            of(end(3, 80), end(2, 4000)),
            of(end(1, 80), end(3, 4000)),
            of(end(2, 4000), end(1, 80)),
            of(end(1, 4000), end(2, 80)),
        ];
        assert_eq!(BTreeSet::from(all).len(), all.len(), "each end counts, address and port: {all:?}");
    }

    /// RFC 6528 §3: they cannot be computed without the key. RFC 7323 §7.1: nor can the timestamps.
    #[test]
    fn numbers_and_timestamps_depend_on_the_key() {
        let with = |key| initial(key, BEGIN, end(1, 80), end(2, 4000));
        let (number, offset) = with(KEY);
        for other in [[1, 2, 9, 4], [1, 2, 3, 9]] {
            let (other_number, other_offset) = with(other);
            assert!(number != other_number && offset != other_offset, "{other:?}");
        }
        assert_eq!(
            with([8, 9, 3, 4]),
            (number, offset),
            "the hash tables have a key of their own, which says nothing of these"
        );
    }
}
