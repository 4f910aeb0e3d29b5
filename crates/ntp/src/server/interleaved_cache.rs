//! True transmit timestamps of replies: pairs of receive and transmit timestamps, for interleaved
//! mode (RFC 9769 §2).
//!
//! A client of interleaved mode names the previous reply by its receive timestamp. The server need
//! not record every reply for this. The lowest bit marks receive timestamps (1) against transmit
//! timestamps (0): a client that returns a receive timestamp uses interleaved mode, and only its
//! replies are recorded from then on. That bit is a quarter of a nanosecond.

use crate::stamp::Stamp;

/// How many replies are recorded; of replies that share a slot, the newest.
const PLACES: usize = 1 << 15;

/// Makes a receive timestamp. Never 0.
pub(super) const fn receive(stamp: Stamp) -> Stamp {
    Stamp(stamp.0 | 1)
}

/// Makes a transmit timestamp. Never 0, which means "unknown".
pub(super) const fn transmit(stamp: Stamp) -> Stamp {
    Stamp(if stamp.0 < 2 { 2 } else { stamp.0 & !1 })
}

/// Whether this server may have sent this as a receive timestamp.
pub(super) const fn is_receive(stamp: Stamp) -> bool {
    stamp.0 & 1 == 1
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    received: Stamp,
    /// 0: two replies had this receive timestamp, so the lookup would be ambiguous.
    transmitted: Stamp,
}

#[derive(Clone, Debug)]
pub(super) struct InterleavedCache(Box<[Pair]>);

impl InterleavedCache {
    pub(super) fn new() -> Self {
        Self(vec![Pair { received: Stamp(0), transmitted: Stamp(0) }; PLACES].into())
    }

    pub(super) fn insert(&mut self, received: Stamp, transmitted: Stamp) {
        let pair = &mut self.0[place(received)];
        let twice = pair.received == received;
        *pair = Pair { received, transmitted: if twice { Stamp(0) } else { transmitted } };
    }

    /// The transmit timestamp of the reply with this receive timestamp.
    pub(super) fn get(&self, received: Stamp) -> Option<Stamp> {
        let pair = self.0[place(received)];
        (pair.received == received && pair.transmitted != Stamp(0)).then_some(pair.transmitted)
    }
}

/// Fibonacci hashing: stamps differ in the middle bits.
const fn place(stamp: Stamp) -> usize {
    ((stamp.0 >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_found_by_its_receive_stamp() {
        let mut pairs = InterleavedCache::new();
        assert_eq!(pairs.get(Stamp(0)), None);
        let received = |n: u64| receive(Stamp(0xec00_0000_0000_0000 + n * 0x1234_5678_9abc));
        for n in 0..1000 {
            pairs.insert(received(n), transmit(Stamp(1000 + n)));
        }
        let found = (0..1000).filter(|&n| pairs.get(received(n)) == Some(transmit(Stamp(1000 + n)))).count();
        assert!(found > 950, "{found} of 1000: some have lost their place to others");
        assert_eq!(pairs.get(received(5000)), None);
    }

    #[test]
    fn of_two_answers_with_one_stamp_neither_is_told() {
        let mut pairs = InterleavedCache::new();
        pairs.insert(Stamp(5), Stamp(10));
        pairs.insert(Stamp(5), Stamp(12));
        assert_eq!(pairs.get(Stamp(5)), None);
    }

    #[test]
    fn the_two_kinds_are_told_apart_and_never_unknown() {
        for bits in [0, 1, 2, 3, u64::MAX] {
            let (received, transmitted) = (receive(Stamp(bits)), transmit(Stamp(bits)));
            assert!(is_receive(received) && !is_receive(transmitted));
            assert!(received != Stamp(0) && transmitted != Stamp(0));
        }
    }
}
