//! How long a service that was asked to end waits for programs to leave their lanes.

use std::time::{Duration, Instant};

/// Programs are notified again after this time: a process may have joined its lane in between, or
/// have become another program, which was not notified.
const TELL_AGAIN: Duration = Duration::from_millis(500);
/// While connections are handed over the service's end is postponed, but to no later than so many
/// times `hand_over`.
const LONGEST: u32 = 10;

/// The state of a service that was asked to end.
pub(crate) struct Farewell {
    hand_over: Duration,
    /// When it ends.
    at: Instant,
    /// The latest end, whatever is handed over.
    latest: Instant,
    told: Instant,
}

impl Farewell {
    /// The service was asked to end, and its programs are notified now. They have `hand_over` from
    /// each connection that is handed over to the next.
    pub(crate) fn begin(hand_over: Duration, now: Instant) -> Self {
        Self { hand_over, at: now + hand_over, latest: now + hand_over * LONGEST, told: now }
    }

    /// A connection was handed over: the others get more time.
    pub(crate) fn extend(&mut self, now: Instant) {
        self.at = (now + self.hand_over).min(self.latest);
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.at <= now
    }

    /// Whether the programs are to be notified again, which counts as done then.
    pub(crate) fn tells_again(&mut self, now: Instant) -> bool {
        let is_due = now >= self.told + TELL_AGAIN;
        if is_due {
            self.told = now;
        }
        is_due
    }

    /// When one of these changes next.
    pub(crate) fn next(&self) -> Instant {
        self.at.min(self.told + TELL_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_that_is_handed_over_postpones_the_end_up_to_a_limit() {
        let (hand_over, begun) = (Duration::from_secs(1), Instant::now());
        let mut farewell = Farewell::begin(hand_over, begun);
        assert!(!farewell.tells_again(begun) && farewell.next() == begun + TELL_AGAIN);
        assert!(farewell.tells_again(begun + TELL_AGAIN) && !farewell.tells_again(begun + TELL_AGAIN));
        farewell.extend(begun + hand_over / 2);
        assert!(!farewell.is_over(begun + hand_over) && farewell.is_over(begun + hand_over * 3 / 2));
        farewell.extend(begun + hand_over * LONGEST);
        assert!(farewell.is_over(begun + hand_over * LONGEST));
    }
}
