//! The end of a lane: its traffic is no longer diverted, its peers are notified, and its resources
//! are removed.
//!
//! This takes two steps. At once, its claims leave divert. Then, some in each turn of the service's
//! loop, a RST is sent for every live connection in the lane's table (after a FIN, if the program
//! had finished with the connection). When all are sent, ports, sockets and devices are released.
//! The frames leave by the NIC, not by the lane's device: a program can make a write to that block.
//! Only those whose source is the host's leave (`Nics::send`). What processes still hold then stays
//! charged to the lane's user.

use super::Lanes;
use super::dying_lane::{DyingLane, ends};
use super::lane::Lane;
use super::remains::Remains;
use crate::paths::Nics;
use crate::usage::Usage;
use std::io;
use std::time::Instant;
use tickwire_registry::{ClaimId, EndSegment, LaneId, Registry, end_frame};

/// So many frames are sent in one turn: about a millisecond.
const AT_ONCE: usize = 256;

/// A lane that has just ended, and the segments that will end its connections.
pub(crate) struct EndedLane {
    pub(crate) lane: Lane,
    pub(crate) ends: Vec<EndSegment>,
}

/// How many frames may still be sent in a turn of step two.
#[derive(Debug)]
pub(crate) struct FrameBudget(usize);

impl Default for FrameBudget {
    fn default() -> Self {
        Self(AT_ONCE)
    }
}

impl Lanes {
    /// Step one: a lane is no longer a live one. The caller takes its claims out of divert, and
    /// then calls [`Lanes::tear_down_later`].
    pub(crate) fn end(&mut self, id: LaneId, registry: &Registry) -> Option<EndedLane> {
        let lane = self.all.remove(&id)?;
        let ends = ends(&lane, id, registry);
        Some(EndedLane { lane, ends })
    }

    /// Queues a lane for step two; `claims` are released with it. Returns whether it is the only
    /// one.
    pub(crate) fn tear_down_later(
        &mut self,
        id: LaneId,
        EndedLane { lane, ends }: EndedLane,
        claims: Vec<ClaimId>,
    ) -> bool {
        self.dying.push_back(DyingLane { lane, id, claims, ends });
        self.dying.len() == 1
    }

    /// Whether lanes wait for step two.
    pub(crate) fn has_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Step two: sends what ends the connections of the first lane, as far as the budget allows.
    /// Returns the lane if nothing is left to be sent. The caller releases its claims, and then
    /// calls [`Lanes::remove_dead`].
    pub(crate) fn next_dead(&mut self, budget: &mut FrameBudget, nics: &mut Nics) -> Option<DyingLane> {
        let dying = self.dying.front_mut().filter(|_| budget.0 > 0)?;
        let from = dying.ends.len().saturating_sub(budget.0);
        let ends = dying.ends.split_off(from);
        budget.0 -= ends.len();
        // All are tried, and one error is logged: an interface may be down at the end of the
        // service.
        let failed = ends.iter().rev().filter_map(|end| tell(end, nics).err()).last();
        if let Some(error) = failed {
            tracing::warn!(%error, "peers of a dead program cannot be told");
        }
        if from == 0 { self.dying.pop_front() } else { None }
    }

    /// Removes the devices of a lane whose connections are ended.
    pub(crate) fn remove_dead(&mut self, lane: Lane) {
        self.remains.push(lane.remains());
        self.remove(lane);
    }

    /// When the next check of [`Lanes::look_at_remains`] is due.
    pub(crate) fn next_look_at_remains(&self) -> Option<Instant> {
        self.remains.iter().map(Remains::due).min()
    }

    /// Returns to the users' accounts what no process holds any more.
    pub(crate) fn look_at_remains(&mut self, now: Instant, usage: &mut Usage) {
        let Self { remains, maker, .. } = self;
        remains.retain_mut(|left| match left.check(now, |device| maker.is_removing(device)) {
            Some((user, bytes)) => {
                usage.give_lane(user, bytes);
                false
            }
            None => true,
        });
    }
}

fn tell(end: &EndSegment, nics: &mut Nics) -> io::Result<()> {
    end_frame(end).map_or(Ok(()), |bytes| nics.send(end.local.address, end.source_mac, &bytes))
}
