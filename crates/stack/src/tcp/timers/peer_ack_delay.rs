//! The peer's acknowledgement delay for less than a full segment (`TLP.max_ack_delay` of RFC 8985
//! §7.2).
//!
//! Most peers answer within a round trip, and then a lost message is to be repaired in
//! milliseconds. But a kernel that has nothing to send delays an acknowledgement by 40 ms, and each
//! time would receive a needless probe. So the allowance adapts. It doubles with each probe that
//! proves needless, and is kept for as long as acknowledgements need it. It returns to the smallest
//! as soon as any loss is detected, in whatever way: where one message is lost the last one may be,
//! and only a timer detects that.
//!
//! A peer without SACK reports no duplicates, and is not probed. If it acknowledges a single
//! message after a timeout, it is unknown whether the message was lost or the acknowledgement
//! delayed. Embedded systems without SACK delay it by up to 250 ms, each second time. So such a
//! timeout is taken for needless. If it was not, the next loss of a single message is repaired
//! later, though hardly later than by a kernel, which always waits for 200 ms.

use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The longest allowance, unless the smallest is longer: for a delay of 40 ms and a scheduler tick.
const LONGEST: Span = Span::from_millis(80);

/// The same for a peer without SACK: for a delay of 250 ms.
const LONGEST_UNTOLD: Span = Span::from_millis(260);

/// How often the allowance may double.
const MOST: u8 = 7;

/// How long the allowance is kept after it was last needed.
const KEPT: Span = Span::from_secs(10);

/// The acknowledgement delay learned of a peer.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(in crate::tcp) struct PeerAckDelay {
    /// Until when the allowance is kept.
    until: Instant,
    doublings: u8,
}

shared_layout! { PeerAckDelay { until, doublings } }

impl PeerAckDelay {
    /// The allowance for a peer that may delay its acknowledgement; `least` for one that was never
    /// seen to. `tells`: it reports duplicates.
    pub(in crate::tcp) fn allowance(&self, now: Instant, least: Span, tells: bool) -> Span {
        if now >= self.until {
            return least;
        }
        let longest = if tells { LONGEST } else { LONGEST_UNTOLD };
        least.times(1 << self.doublings).min(longest.max(least))
    }

    /// A probe repeated data that the peer had, or a timeout may have done so.
    pub(in crate::tcp) fn needless_probe(&mut self, now: Instant) {
        let before = if now < self.until { self.doublings } else { 0 };
        *self = Self { until: now + KEPT, doublings: (before + 1).min(MOST) };
    }

    /// An acknowledgement arrived `after` this time. Without the learned allowance a probe or a
    /// timeout would have been due after `unlearnt`: the allowance was needed if that is shorter.
    /// (`unlearnt` includes the round trip. Otherwise the allowance would be kept forever where the
    /// round trip alone is longer than the smallest allowance.)
    pub(in crate::tcp) fn acknowledged(&mut self, now: Instant, after: Span, unlearnt: Span) {
        if after > unlearnt && now < self.until {
            self.until = now + KEPT;
        }
    }

    /// A loss was detected.
    pub(in crate::tcp) fn lost(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Span = Span::from_millis(5);

    #[test]
    fn the_allowance_is_learnt_kept_while_it_is_of_use_and_forgotten() {
        let mut held = PeerAckDelay::default();
        let mut now = Instant::from_nanos(1);
        assert_eq!(held.allowance(now, LEAST, true), LEAST);
        let learnt = [10, 20, 40, 80, 80].map(Span::from_millis);
        for allowance in learnt {
            held.needless_probe(now);
            assert_eq!(held.allowance(now, LEAST, true), allowance);
        }
        assert_eq!(held.allowance(now, LEAST, false), Span::from_millis(160), "a peer without SACK");
        let patient = Span::from_millis(200);
        assert_eq!(held.allowance(now, patient, true), patient, "a larger minimum than that is not changed");
        for _ in 0..3 {
            now += Span::from_secs(8);
            held.acknowledged(now, Span::from_millis(40), LEAST);
            assert_eq!(held.allowance(now, LEAST, true), Span::from_millis(80));
        }
        now += Span::from_secs(8);
        held.acknowledged(now, Span::from_millis(1), LEAST);
        now += Span::from_secs(2);
        assert_eq!(held.allowance(now, LEAST, true), LEAST, "it was of no use for ten seconds");
        held.needless_probe(now);
        assert_eq!(held.allowance(now, LEAST, true), Span::from_millis(10), "from the beginning");
        held.lost();
        assert_eq!(held.allowance(now, LEAST, true), LEAST);
    }
}
