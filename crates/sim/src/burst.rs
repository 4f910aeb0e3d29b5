//! Burst loss: the model of Gilbert (1960) and Elliott (1963), a cable with a good and a bad state.
//!
//! Packets cause the state transitions. With that alone a burst would outlast any silence, and a
//! sender with exponential backoff would hit the same burst for minutes. A time limit therefore
//! ends a burst, too.

use crate::Rng;
use tickwire_stack::time::{Instant, Span};

/// When a cable enters the bad state, how long it stays there, and what it loses meanwhile. In the
/// good state it loses nothing (except by `LinkConfig::loss`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Probability per packet that a good cable becomes bad, per million. 0: never.
    pub begin: u32,
    /// Probability per packet that a bad cable becomes good, per million. A burst has 1,000,000 /
    /// `end` packets on average, if they come fast enough.
    pub end: u32,
    /// The longest time in the bad state.
    pub longest: Span,
    /// Probability that a bad cable loses a packet, per million.
    pub loss: u32,
}

impl Burst {
    /// Whether a packet sent now is lost. `bad_until` is the cable's state: `NEVER` is good;
    /// otherwise the cable is bad until then, or until a packet ends the burst.
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

    /// Which packets are lost if they are sent this far apart.
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
        // Ten packets each; one time in ten another burst begins at once.
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
