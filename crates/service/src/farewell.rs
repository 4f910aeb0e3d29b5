//! The end of the service: programs are notified, and have time to hand their connections over to
//! the kernel before their lanes end.

use crate::service::Service;
use std::time::{Duration, Instant};
use tickwire_link::control::{Push, Reason};

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

impl Service {
    /// The service was asked to end. Returns whether it is to do so now: the second time, or if no
    /// program has a lane. Else the programs are notified, and leave.
    pub(crate) fn is_to_end(&mut self, hand_over: Duration) -> bool {
        let again = self.farewell.is_some();
        tracing::info!(lanes = self.lanes.len(), again, "asked to end");
        if again || self.lanes.is_empty() || hand_over.is_zero() {
            return true;
        }
        let now = Instant::now();
        let (at, latest) = (now + hand_over, now + hand_over * LONGEST);
        self.farewell = Some(Farewell { hand_over, at, latest, told: now });
        self.refuse_waiting(Reason::Stopping);
        self.tell_all_to_leave();
        false
    }

    fn tell_all_to_leave(&mut self) {
        let lanes: Vec<_> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.push_to_lane(lane, || Push::Leave);
        }
    }

    /// Whether the service is about to end, so that nothing new begins on a lane.
    pub(crate) fn parts(&self) -> bool {
        self.farewell.is_some()
    }

    /// A connection was handed over: the others get more time.
    pub(crate) fn has_handed_over(&mut self) {
        if let Some(Farewell { hand_over, at, latest, .. }) = &mut self.farewell {
            *at = (Instant::now() + *hand_over).min(*latest);
        }
    }

    /// When [`Service::has_parted`] is to be called next.
    pub(crate) fn next_farewell(&self) -> Option<Instant> {
        self.farewell.as_ref().map(|farewell| farewell.at.min(farewell.told + TELL_AGAIN))
    }

    /// Whether the service is to end now: all programs have left their lanes, or their time is
    /// over.
    pub(crate) fn has_parted(&mut self, now: Instant) -> bool {
        let Some(farewell) = &mut self.farewell else { return false };
        if farewell.at <= now || self.lanes.is_empty() {
            return true;
        }
        if now >= farewell.told + TELL_AGAIN {
            farewell.told = now;
            self.tell_all_to_leave();
        }
        false
    }
}
