//! The end of the service: programs are notified, and have time to hand their connections over to
//! the kernel before their lanes end.

use crate::farewell::Farewell;
use crate::service::Service;
use std::time::{Duration, Instant};
use tickwire_lane::control::{Push, Reason};

impl Service {
    /// The service was asked to end. Returns whether it is to do so now: the second time, or if no
    /// program has a lane. Else the programs are notified, and leave.
    pub(crate) fn is_to_end(&mut self, hand_over: Duration) -> bool {
        let again = self.farewell.is_some();
        tracing::info!(lanes = self.lanes.len(), again, "asked to end");
        if again || self.lanes.is_empty() || hand_over.is_zero() {
            return true;
        }
        self.farewell = Some(Farewell::begin(hand_over, Instant::now()));
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
        if let Some(farewell) = &mut self.farewell {
            farewell.extend(Instant::now());
        }
    }

    /// When [`Service::has_parted`] is to be called next.
    pub(crate) fn next_farewell(&self) -> Option<Instant> {
        self.farewell.as_ref().map(Farewell::next)
    }

    /// Whether the service is to end now: all programs have left their lanes, or their time is
    /// over.
    pub(crate) fn has_parted(&mut self, now: Instant) -> bool {
        let Some(farewell) = &mut self.farewell else { return false };
        if farewell.is_over(now) || self.lanes.is_empty() {
            return true;
        }
        if farewell.tells_again(now) {
            self.tell_all_to_leave();
        }
        false
    }

    /// Ends all lanes, and waits until their peers are notified.
    pub(crate) fn end(&mut self) {
        let lanes: Vec<_> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.reap(lane, Reason::Stopping);
        }
        while !self.dying.is_empty() {
            self.bury();
        }
        self.drop_ready_lanes();
        // Sockets that continue with the kernel must not keep the service's filters.
        let claims: Vec<_> = self.claims.iter().map(|(&id, held)| (held.lane, id)).collect();
        for (lane, claim) in claims {
            self.remove_claims(lane, vec![claim]);
        }
        for connection in std::mem::take(&mut self.connections).into_values() {
            connection.close();
        }
        tracing::info!("ended");
    }
}
