//! The end of a connection, of a lane, and of the service.
//!
//! A lane ends with its last process. A service that is asked to end notifies the programs, which
//! have time to hand their connections over to the kernel before their lanes end.

use super::Service;
use crate::clients::{ConnectionId, End};
use crate::farewell::Farewell;
use crate::lanes::{DyingLane, FrameBudget};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Push, Reason};
use tickwire_registry::LaneId;

impl Service {
    /// Ends a connection, and its lane with the last one.
    pub(super) fn end_connection(&mut self, id: ConnectionId, why: &End) {
        let Some(ended) = self.clients.end(id, why, &mut self.ledger.programs) else { return };
        self.lanes.forget_waiting(id, ended.peer.uid, &mut self.ledger.usage);
        // Other processes may keep the lane.
        self.claims.remove_untold(ended.untold, &mut self.ledger);
        if let Some(number) = ended.lane {
            self.leave_lane(id, ended.peer.pid, number);
        }
    }

    /// A process no longer uses its lane; the lane ends with its last process.
    pub(super) fn leave_lane(&mut self, id: ConnectionId, pid: u32, number: LaneId) {
        if self.lanes.leave(id, number) {
            self.reap(number, Reason::LaneGone);
        } else {
            self.push_to_lane(number, || Push::PeerGone { pid });
        }
    }

    /// Ends a lane: step one (see [`crate::lanes`]). Processes that still use it are told the
    /// reason.
    fn reap(&mut self, id: LaneId, reason: Reason) {
        self.push_to_lane(id, || Push::Closing { reason });
        let Some(ended) = self.lanes.end(id, &self.claims.registry) else { return };
        self.clients.lane_ended(&ended.lane.connections);
        self.paths.end(id);
        let claims = self.claims.leave_divert_all(id, &mut self.ledger);
        tracing::info!(
            lane = id, devices = ended.lane.device(), pid = ended.lane.pid, claims = claims.len(),
            resets = ended.ends.len(), %reason, "lane ended"
        );
        // Ports without connections to reset are free at once: a program that restarts needs them.
        let (done, claims) = claims.into_iter().partition(|&claim| ended.ends.is_empty() || self.claims.is_udp(claim));
        self.claims.forget(done, &self.ledger.usage);
        if self.lanes.tear_down_later(id, ended, claims) {
            self.tear_down_lanes();
        }
    }

    /// Ends lanes: a turn of step two.
    pub(crate) fn tear_down_lanes(&mut self) {
        let mut budget = FrameBudget::default();
        while let Some(DyingLane { lane, claims, .. }) = self.lanes.next_dead(&mut budget, &mut self.paths.nics) {
            self.claims.forget(claims, &self.ledger.usage);
            self.lanes.remove_dead(lane);
        }
    }

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
        for lane in self.lanes.numbers().collect::<Vec<_>>() {
            self.push_to_lane(lane, || Push::Leave);
        }
    }

    /// Whether the service is about to end, so that nothing new begins on a lane.
    pub(super) fn parts(&self) -> bool {
        self.farewell.is_some()
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
        for lane in self.lanes.numbers().collect::<Vec<_>>() {
            self.reap(lane, Reason::Stopping);
        }
        while self.lanes.has_dying() {
            self.tear_down_lanes();
        }
        self.lanes.drop_ready();
        self.claims.remove_all(&mut self.ledger);
        self.clients.close_all();
        tracing::info!("ended");
    }
}
