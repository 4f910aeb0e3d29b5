//! How long a peer holds back the acknowledgement of less than a full segment (`TLP.max_ack_delay`
//! of RFC 8985 §7.2).
//!
//! Most answer within a round trip, and then a lost message is to be repaired in milliseconds. But
//! a kernel that has nothing to send holds an acknowledgement back for 40 ms, and would be sent a
//! needless probe each time. So the allowance follows what is seen: it doubles with each probe that
//! proves needless, is kept for as long as acknowledgements need it, and is the smallest again as
//! soon as anything is lost, however that was found: where one message is lost the last one may be,
//! and nothing but a timer shows that.
//!
//! A peer without SACK reports no duplicates, and is not probed. Whether a single message that it
//! acknowledges after a timeout was lost, or its acknowledgement held back, nobody can tell;
//! embedded systems without SACK hold it back for up to 250 ms, each second time. So such a timeout
//! is taken for needless. If it was not, the next loss of a single message is repaired later,
//! though hardly later than by a kernel, which always waits for 200 ms.

use crate::time::{Instant, Span};
use zerocopy::FromZeros;

/// The longest allowance, unless the smallest is longer: for a delay of 40 ms and a scheduler's
/// tick.
const LONGEST: Span = Span::from_millis(80);

/// The same for a peer without SACK: for a delay of 250 ms.
const LONGEST_UNTOLD: Span = Span::from_millis(260);

/// How often it may double until then.
const MOST: u8 = 7;

/// How long it is kept since it was last of use.
const KEPT: Span = Span::from_secs(10);

/// What is known of a peer.
#[derive(Clone, Copy, Debug, Default, FromZeros)]
#[repr(C)]
pub(super) struct HeldBack {
    /// Until when the allowance is kept.
    until: Instant,
    doublings: u8,
}

impl HeldBack {
    /// The allowance for a peer that may hold its acknowledgement back, `least` for one that never
    /// was seen to. `tells`: it reports duplicates.
    pub(super) fn allowance(&self, now: Instant, least: Span, tells: bool) -> Span {
        if now >= self.until {
            return least;
        }
        let longest = if tells { LONGEST } else { LONGEST_UNTOLD };
        least.times(1 << self.doublings).min(longest.max(least))
    }

    /// A probe repeated what the peer had, or it may be that a timeout did.
    pub(super) fn needless_probe(&mut self, now: Instant) {
        let before = if now < self.until { self.doublings } else { 0 };
        *self = Self { until: now + KEPT, doublings: (before + 1).min(MOST) };
    }

    /// An acknowledgement came after so long. Without what was learnt a probe or a timeout would
    /// have been due after `unlearnt`: the allowance was of use if that is shorter. (It holds the
    /// round trip, too, or the allowance would be kept for ever where that alone is longer than the
    /// smallest one.)
    pub(super) fn acknowledged(&mut self, now: Instant, after: Span, unlearnt: Span) {
        if after > unlearnt && now < self.until {
            self.until = now + KEPT;
        }
    }

    /// Something was lost.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Span = Span::from_millis(5);

    #[test]
    fn the_allowance_is_learnt_kept_while_it_is_of_use_and_forgotten() {
        let mut held = HeldBack::default();
        let mut now = Instant::from_nanos(1);
        assert_eq!(held.allowance(now, LEAST, true), LEAST);
        let learnt = [10, 20, 40, 80, 80].map(Span::from_millis);
        for allowance in learnt {
            held.needless_probe(now);
            assert_eq!(held.allowance(now, LEAST, true), allowance);
        }
        assert_eq!(held.allowance(now, LEAST, false), Span::from_millis(160), "whoever tells nothing");
        let patient = Span::from_millis(200);
        assert_eq!(held.allowance(now, patient, true), patient, "who is more patient than that learns nothing");
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
