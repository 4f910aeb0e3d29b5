//! When answers really left: pairs of receive and transmit stamps, for interleaved mode (RFC 9769
//! §2).
//!
//! A client of interleaved mode names the answer before by its receive stamp. So that not every
//! answer must be remembered because its client might be one, the lowest bit tells receive stamps
//! (1) from transmit stamps (0): who gives a receive stamp back means it, and only his answers are
//! remembered from then on. That bit is a quarter of a nanosecond.

use crate::stamp::Stamp;

/// So many answers are remembered; the newest of those that share a place.
const PLACES: usize = 1 << 15;

/// A stamp as receive stamp. Never 0.
pub(super) const fn receive(stamp: Stamp) -> Stamp {
    Stamp(stamp.0 | 1)
}

/// A stamp as transmit stamp. Never 0, which means "unknown".
pub(super) const fn transmit(stamp: Stamp) -> Stamp {
    Stamp(if stamp.0 < 2 { 2 } else { stamp.0 & !1 })
}

/// Whether this may be a receive stamp of ours.
pub(super) const fn is_receive(stamp: Stamp) -> bool {
    stamp.0 & 1 == 1
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    received: Stamp,
    /// 0: two answers have had this receive stamp, and nobody can tell which is meant.
    transmitted: Stamp,
}

#[derive(Clone, Debug)]
pub(super) struct Pairs(Box<[Pair]>);

impl Pairs {
    pub(super) fn new() -> Self {
        Self(vec![Pair { received: Stamp(0), transmitted: Stamp(0) }; PLACES].into())
    }

    pub(super) fn insert(&mut self, received: Stamp, transmitted: Stamp) {
        let pair = &mut self.0[place(received)];
        let twice = pair.received == received;
        *pair = Pair { received, transmitted: if twice { Stamp(0) } else { transmitted } };
    }

    /// The transmit stamp of the answer with this receive stamp.
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
        let mut pairs = Pairs::new();
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
        let mut pairs = Pairs::new();
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
