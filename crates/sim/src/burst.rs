//! Loss that comes in bursts: the model of Gilbert (1960) and Elliott (1963), a cable with a good
//! and a bad state.
//!
//! Packets move it from one state to the other. That alone would let a burst outlast any silence,
//! and a sender that waits longer and longer would meet it again and again, for minutes; so time
//! ends it, too.

use crate::Rng;
use tickwire_stack::time::{Instant, Span};

/// When a cable gets bad, for how long, and what it does then. In the good state it loses nothing
/// (but what `LinkConfig::loss` takes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets before which a good cable gets bad, per million. 0: it never does.
    pub begin: u32,
    /// Packets after which a bad cable gets good, per million: a burst is 1,000,000 / `end` packets
    /// long on average, if they come fast enough.
    pub end: u32,
    /// After what time it is good in any case.
    pub longest: Span,
    /// Packets that a bad cable loses, per million.
    pub loss: u32,
}

impl Burst {
    /// Whether a packet that is sent now is lost. `bad_until` is the cable's state: never, or until
    /// then, if no packet ends it before.
    pub(crate) fn loses(self, now: Instant, bad_until: &mut Instant, rng: &mut Rng) -> bool {
        if now >= *bad_until {
            *bad_until = if rng.chance(self.begin) { now + self.longest } else { Instant::NEVER };
        }
        if bad_until.is_never() {
            return false;
        }
        let lost = rng.chance(self.loss);
        if rng.chance(self.end) {
            *bad_until = Instant::NEVER;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Burst = Burst { begin: 2_000, end: 250_000, loss: 1_000_000, longest: Span::from_millis(1) };

    /// What becomes of packets that are sent so far apart.
    fn lost(burst: Burst, apart: Span, packets: usize) -> Vec<bool> {
        let (mut rng, mut bad_until, mut now) = (Rng::new(1), Instant::NEVER, Instant::from_nanos(1));
        let one = |_| {
            now += apart;
            burst.loses(now, &mut bad_until, &mut rng)
        };
        (0..packets).map(one).collect()
    }

    #[test]
    fn bursts_are_as_frequent_and_as_long_as_asked() {
        let lost = lost(BURST, Span::from_micros(1), 1_000_000);
        let packets = lost.iter().filter(|&&lost| lost).count();
        let bursts = lost.windows(2).filter(|two| !two[0] && two[1]).count();
        // Good for 500 packets on average, then bad for four: 4 of 504 are lost.
        assert!((7_500..8_400).contains(&packets), "{packets}");
        assert!((1_850..2_150).contains(&bursts), "{bursts}");
    }

    #[test]
    fn a_burst_does_not_outlast_its_time() {
        let endless = Burst { begin: 100_000, end: 0, ..BURST };
        let lost = lost(endless, Span::from_micros(100), 10_000);
        let longest = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len);
        // Ten packets, and once in ten times another burst begins at once.
        assert!(longest.clone().all(|length| length.is_multiple_of(10)) && longest.min() == Some(10), "{lost:?}");
    }

    #[test]
    fn a_bad_cable_may_let_some_pass_and_a_good_one_draws_no_numbers() {
        let half = Burst { begin: 1_000_000, end: 0, loss: 500_000, ..BURST };
        let lost = lost(half, Span::from_micros(1), 10_000).iter().filter(|&&lost| lost).count();
        assert!((4_700..5_300).contains(&lost), "{lost}");
        let (mut rng, mut bad_until) = (Rng::new(1), Instant::NEVER);
        assert!(!Burst::default().loses(Instant::from_nanos(1), &mut bad_until, &mut rng));
        assert_eq!(rng.next_u64(), Rng::new(1).next_u64());
    }
}
