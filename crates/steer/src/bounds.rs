//! What packets teach is bounded: a flood of first fragments, each of another datagram, would
//! otherwise take all memory. On Linux the maps of BPF are; where the tables are plain data, their
//! owner calls [`Tables::forget_old`] from time to time.

use crate::fragments::is_fresh;
use crate::tables::Tables;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// At most so many datagrams, or handshakes, are remembered of each kind.
pub const MAX_NOTED: usize = 16_384;

impl Tables {
    /// Whether more has been noted than is to be remembered.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let noted =
            [self.fragments.len(), self.group_fragments.len(), self.sent_fragments.len(), self.handshakes.len()];
        noted.into_iter().any(|len| len > MAX_NOTED)
    }

    /// Forgets the course of fragments that no longer holds, and the oldest beyond [`MAX_NOTED`].
    /// Of handshakes, of which no time is known, all are forgotten when there are too many: each is
    /// of use only while a lane is joining its port.
    pub fn forget_old(&mut self, now_ns: u64) {
        forget(&mut self.fragments, now_ns, |noted| noted.seen_ns);
        forget(&mut self.group_fragments, now_ns, |noted| noted.seen_ns);
        forget(&mut self.sent_fragments, now_ns, |seen_ns| *seen_ns);
        if self.handshakes.len() > MAX_NOTED {
            self.handshakes.clear();
        }
    }
}

fn forget<K: Ord, V>(noted: &mut BTreeMap<K, V>, now_ns: u64, seen_ns: impl Fn(&V) -> u64) {
    noted.retain(|_, value| is_fresh(seen_ns(value), now_ns));
    if noted.len() > MAX_NOTED {
        let mut ages: Vec<u64> = noted.values().map(|value| now_ns.wrapping_sub(seen_ns(value))).collect();
        let (_, &mut oldest, _) = ages.select_nth_unstable(MAX_NOTED / 2);
        noted.retain(|_, value| now_ns.wrapping_sub(seen_ns(value)) < oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragments::LIFE_NS;
    use crate::tables::{Course, DatagramKey, Fragments, Protocol};
    use crate::testing::{HERE, PEER};

    fn with(tables: &mut Tables, id: u32, seen_ns: u64) {
        let key = DatagramKey { source: PEER, destination: HERE, id, protocol: Protocol::Udp };
        tables.fragments.insert(key, Fragments { seen_ns, course: Course::Led(Some(7)) });
        tables.sent_fragments.insert((7, key), seen_ns);
    }

    #[test]
    fn what_no_longer_holds_is_forgotten_and_the_rest_is_kept() {
        let mut tables = Tables::default();
        (0..10).for_each(|id| with(&mut tables, id, u64::from(id)));
        assert!(!tables.is_crowded());
        tables.forget_old(LIFE_NS + 4);
        assert_eq!((tables.fragments.len(), tables.sent_fragments.len()), (5, 5));
        assert!(tables.fragments.keys().all(|key| key.id > 4));
    }

    #[test]
    fn of_too_many_the_newest_are_kept() {
        let mut tables = Tables::default();
        let many = MAX_NOTED as u32 + 100;
        (0..many).for_each(|id| with(&mut tables, id, u64::from(id)));
        assert!(tables.is_crowded());
        tables.forget_old(many.into());
        assert_eq!(tables.fragments.len(), MAX_NOTED / 2);
        assert!(tables.fragments.keys().any(|key| key.id == many - 1) && !tables.is_crowded());
        // All at the same time.
        (0..many).for_each(|id| with(&mut tables, id, 5));
        tables.forget_old(5);
        assert!(!tables.is_crowded());
    }
}
