//! The block of ports that the service offers for connections of programs.
//!
//! The driver takes the packets of the whole block at once, so that no connection costs a change of
//! its filter. A program binds its own socket to a port that is offered: what takes it in the
//! meantime, or has it, makes the program try the next one.

use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

/// The usual block: below the ports from which Windows chooses (49152 and up).
pub const DEFAULT: RangeInclusive<u16> = 36_864..=38_911;

/// A block.
#[derive(Clone, Debug)]
pub struct PortBlock {
    ports: RangeInclusive<u16>,
    random: RandomState,
    offers: u64,
}

impl PortBlock {
    /// A block of these ports.
    #[must_use]
    pub fn new(ports: RangeInclusive<u16>) -> Self {
        Self { ports, random: RandomState::new(), offers: 0 }
    }

    /// Whether a port is one of the block.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// At most so many ports that are not claimed, from one on that cannot be foretold (RFC 6056).
    /// None if all are claimed.
    pub fn offer(&mut self, count: usize, is_claimed: impl Fn(u16) -> bool) -> Vec<u16> {
        let (first, last) = (u32::from(*self.ports.start()), u32::from(*self.ports.end()));
        let size = (last + 1).saturating_sub(first);
        if size == 0 {
            return Vec::new();
        }
        self.offers += 1;
        let begin = (self.random.hash_one(self.offers) % u64::from(size)) as u32;
        let ports = (0..size).map(|n| (first + (begin + n) % size) as u16);
        ports.filter(|&port| !is_claimed(port)).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_are_offered_that_are_not_claimed_from_different_ones_on() {
        let mut block = PortBlock::new(1000..=1999);
        let claimed: BTreeSet<u16> = (1000..2000).filter(|port| port % 2 == 0).collect();
        let mut begins = BTreeSet::new();
        for _ in 0..100 {
            let offered = block.offer(16, |port| claimed.contains(&port));
            assert_eq!(offered.len(), 16);
            assert!(offered.iter().all(|port| (1000..2000).contains(port) && !claimed.contains(port)));
            begins.insert(offered[0]);
        }
        assert!(begins.len() > 10, "{begins:?}");
    }

    #[test]
    fn a_block_without_a_free_port_offers_none() {
        let mut block = PortBlock::new(65_535..=65_535);
        assert_eq!(block.offer(16, |_| false), [65_535]);
        assert!(block.offer(16, |port| port == 65_535).is_empty());
        assert!(PortBlock::new(RangeInclusive::new(2, 1)).offer(16, |_| false).is_empty());
    }
}
