//! HyStart++ (RFC 9406): leaves the first slow start when round trips grow, before a loss occurs.
//! Later slow starts end at the threshold found then (§4.3).
//!
//! The growth per acknowledgement is not limited (§4.2, L): peers acknowledge up to 64 KiB at once,
//! and eight segments for each would be a fifth of that.

use super::Acked;
use crate::tcp::timers::rtt::Rtt;
use crate::time::Span;
use zerocopy::FromZeros;

/// MIN_RTT_THRESH (§4.3).
const MIN_THRESHOLD: Span = Span::from_millis(4);
/// MAX_RTT_THRESH.
const MAX_THRESHOLD: Span = Span::from_millis(16);
/// MIN_RTT_DIVISOR.
const THRESHOLD_DIVISOR: u64 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const CONSERVATIVE_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const CONSERVATIVE_ROUNDS: u8 = 5;

/// HyStart++'s state.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct HyStart {
    last_round: Span,
    this_round: Span,
    /// The round trip at which conservative slow start began; zero outside of it.
    baseline: Span,
    samples: u8,
    rounds: u8,
}

shared_layout! { HyStart { last_round, this_round, baseline, samples, rounds } }

impl HyStart {
    /// Takes an acknowledgement's round trip, whether or not the window was the limit: otherwise
    /// the next round that it limits would be compared with one of long ago.
    pub(super) fn on_sample(&mut self, acked: &Acked, rtt: &Rtt) {
        if acked.new_round {
            self.last_round = self.this_round;
            self.this_round = Span::ZERO;
            self.samples = 0;
            if acked.cwnd_limited && !self.baseline.is_zero() {
                self.rounds = self.rounds.saturating_add(1);
            }
        }
        if !rtt.latest.is_zero() {
            self.this_round = if self.this_round.is_zero() { rtt.latest } else { self.this_round.min(rtt.latest) };
            self.samples = self.samples.saturating_add(1);
        }
    }

    /// Enters conservative slow start if this round's trips are longer than those of the last
    /// round, and leaves it if they were so only for a while (§4.2).
    pub(super) fn update_phase(&mut self) {
        if self.samples >= SAMPLES && !self.last_round.is_zero() {
            let threshold = self.last_round.over(THRESHOLD_DIVISOR).max(MIN_THRESHOLD).min(MAX_THRESHOLD);
            if self.baseline.is_zero() {
                if self.this_round >= self.last_round + threshold {
                    self.baseline = self.this_round;
                    self.rounds = 0;
                }
            } else if self.this_round < self.baseline {
                self.baseline = Span::ZERO; // it was a transient delay: slow start continues
            }
        }
    }

    /// How much the window grows for `bytes` acknowledged in this phase of slow start.
    pub(super) const fn growth(&self, bytes: u32) -> u32 {
        if self.baseline.is_zero() { bytes } else { bytes / CONSERVATIVE_DIVISOR }
    }

    /// Whether slow start must end here.
    pub(super) const fn leaves_slow_start(&self) -> bool {
        self.rounds >= CONSERVATIVE_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    fn round(hystart: &mut HyStart, us: u64) -> u32 {
        let mut rtt = Rtt::default();
        rtt.sample(Instant::from_nanos(1), Span::from_micros(us));
        let mut growth = 0;
        for n in 0..10 {
            let acked =
                Acked { now: Instant::from_nanos(1), bytes: 1000, mss: 1000, cwnd_limited: true, new_round: n == 0 };
            hystart.on_sample(&acked, &rtt);
            hystart.update_phase();
            growth = hystart.growth(1000);
        }
        growth
    }

    #[test]
    fn a_growing_round_trip_slows_growth_and_then_ends_slow_start() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 10_000), 1000);
        assert_eq!(round(&mut hystart, 11_000), 1000);
        assert_eq!(round(&mut hystart, 16_000), 250);
        for _ in 0..5 {
            assert!(!hystart.leaves_slow_start());
            round(&mut hystart, 16_000);
        }
        assert!(hystart.leaves_slow_start());
    }

    #[test]
    fn microseconds_of_jitter_on_a_lan_do_not_count() {
        let mut hystart = HyStart::default();
        for us in [10, 500, 20, 2_000] {
            assert_eq!(round(&mut hystart, us), 1000);
        }
    }
}
