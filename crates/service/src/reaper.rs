//! The end of a lane: its traffic is no longer diverted, its peers are notified, and its resources
//! are removed.
//!
//! This takes two steps. At once, its claims leave divert. Then, some in each turn of the service's
//! loop, a RST is sent for every live connection in the lane's table (after a FIN, if the program
//! had finished with the connection). When all are sent, ports, sockets and devices are released.
//! The frames leave by the NIC, not by the lane's device: a program can make a write to that block.
//! Only those whose source is the host's leave (`Nics::send`). What processes still hold then stays
//! charged to the lane's user.

use crate::dying_lane::{DyingLane, ends};
use crate::registry::{LaneId, Protocol};
use crate::remains::Remains;
use crate::reset::{End, frame};
use crate::service::Service;
use std::time::Instant;
use tickwire_lane::control::{Push, Reason};

/// So many frames are sent in one turn: about a millisecond.
const AT_ONCE: usize = 256;

impl Service {
    /// Ends a lane: step one. Processes that still use it are told the reason.
    pub(crate) fn reap(&mut self, id: LaneId, reason: Reason) {
        self.push_to_lane(id, || Push::Closing { reason });
        let Some(lane) = self.lanes.remove(&id) else { return };
        for connection in &lane.connections {
            if let Some(connection) = self.connections.get_mut(connection) {
                connection.lane = None;
            }
        }
        let ends = ends(&lane, id, &self.registry);
        let claims = self.registry.of_lane(id);
        for &claim in &claims {
            self.leave_groups(claim);
            let changes = self.registry.release(id, claim).unwrap_or_default();
            self.programs.apply_best(changes);
        }
        tracing::info!(
            lane = id, devices = lane.device(), pid = lane.pid, claims = claims.len(), resets = ends.len(),
            %reason, "lane ended"
        );
        // Ports without connections to reset are free at once: a program that restarts needs them.
        let (done, claims) = claims.into_iter().partition(|claim| {
            ends.is_empty() || self.claims.get(claim).is_some_and(|held| held.bound.protocol == Protocol::Udp)
        });
        self.forget_claims(done);
        self.dying.push_back(DyingLane { lane, id, claims, ends });
        if self.dying.len() == 1 {
            self.bury();
        }
    }

    /// When the next turn is due for step two.
    pub(crate) fn next_burial(&self, now: Instant) -> Option<Instant> {
        (!self.dying.is_empty()).then_some(now)
    }

    /// Ends lanes: a turn of step two.
    pub(crate) fn bury(&mut self) {
        let mut room = AT_ONCE;
        while room > 0
            && let Some(dying) = self.dying.front_mut()
        {
            let from = dying.ends.len().saturating_sub(room);
            let ends = dying.ends.split_off(from);
            room -= ends.len();
            // All are tried, and one error is logged: an interface may be down at the end of the
            // service.
            let failed = ends.iter().rev().filter_map(|end| self.tell(end).err()).last();
            if let Some(error) = failed {
                tracing::warn!(%error, "peers of a dead program cannot be told");
            }
            if from == 0
                && let Some(DyingLane { lane, id, claims, .. }) = self.dying.pop_front()
            {
                self.forget_claims(claims);
                self.remove_lane(id, lane.has_bulk());
                self.remains.push(lane.remains());
            }
        }
    }

    fn tell(&mut self, end: &End) -> std::io::Result<()> {
        frame(end).map_or(Ok(()), |bytes| self.nics.send(end.local.address, end.source_mac, &bytes))
    }

    /// When the next check of [`Service::look_at_remains`] is due.
    pub(crate) fn next_look_at_remains(&self) -> Option<Instant> {
        self.remains.iter().map(Remains::due).min()
    }

    /// Returns to the users' accounts what no process holds any more.
    pub(crate) fn look_at_remains(&mut self, now: Instant) {
        let Self { remains, usage, maker, .. } = self;
        remains.retain_mut(|left| match left.check(now, |device| maker.is_removing(device)) {
            Some((user, bytes)) => {
                usage.give_lane(user, bytes);
                false
            }
            None => true,
        });
    }
}
