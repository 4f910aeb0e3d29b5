//! Listings of programs, their claims and their counters, for tools. A user is shown what it may
//! see.

use super::Core;
use crate::figures;
use crate::packet_thread::PathCounters;
use crate::users::User;
use std::sync::Arc;
use std::time::Instant;
use tickwire_lane::control::{Accelerated, AttachMode, Claim, ClaimInfo, CountersOf, Figures, LaneInfo, Name, Reason};
use tickwire_lane_windows::lane_memory::{LIMITS, LaneMemory};
use tickwire_registry::LaneId;

/// A connected program without a lane.
#[derive(Debug)]
pub(super) struct UnservedProgram {
    process: u32,
    user: User,
    program: Name,
    reason: Reason,
    begun: Instant,
}

/// In listings, programs without a lane have numbers above this, which no lane has.
const UNSERVED: u64 = 1 << 32;

/// What a listing says of a program.
pub(in crate::service) struct ListedLane {
    /// Where the listing goes on.
    pub(in crate::service) cursor: u64,
    pub(in crate::service) info: LaneInfo,
    /// None if it has no lane.
    pub(in crate::service) memory: Option<Arc<LaneMemory>>,
}

impl Core {
    /// The program that comes after another in a listing: those with a lane, then the others.
    /// Only those that a user may see.
    pub(in crate::service) fn next_lane(&self, after: u64, viewer: &User) -> Option<ListedLane> {
        let first = after.checked_add(1).and_then(|first| LaneId::try_from(first).ok());
        let mut lanes = first.into_iter().flat_map(|first| self.lanes.range(first..));
        if let Some((&lane, record)) = lanes.find(|(_, record)| viewer.may_see(&record.user)) {
            let claims = self.claims.count(lane) as u32;
            let reason = self.packets_come().err().unwrap_or_default();
            let info = LaneInfo { lane, claims, reason, ..listed(record.process, record.program, record.begun) };
            return Some(ListedLane { cursor: lane.into(), info, memory: Some(Arc::clone(&record.memory)) });
        }
        let mut unserved = self.unserved.range(after.saturating_sub(UNSERVED) + 1..);
        let (&number, program) = unserved.find(|(_, program)| viewer.may_see(&program.user))?;
        let info = LaneInfo { reason: program.reason, ..listed(program.process, program.program, program.begun) };
        Some(ListedLane { cursor: UNSERVED + number, info, memory: None })
    }

    /// Listings are to say that a program has no lane. Returns a number for it.
    pub(in crate::service) fn note_unserved(&mut self, process: u32, user: User, program: Name, reason: Reason) -> u64 {
        self.last_unserved += 1;
        tracing::debug!(process, %program, %reason, "a program stays on the kernel");
        let unserved = UnservedProgram { process, user, program, reason, begun: Instant::now() };
        self.unserved.insert(self.last_unserved, unserved);
        self.last_unserved
    }

    /// It is gone.
    pub(in crate::service) fn forget_unserved(&mut self, number: u64) {
        self.unserved.remove(&number);
    }

    /// The network card, if it comes after an index.
    pub(in crate::service) fn next_interface(&self, after: u32) -> Option<Accelerated> {
        let mut card = self.host.describe(self.driver);
        if let Err(reason) = self.packets_come() {
            (card.mode, card.reason) = (AttachMode::None, reason);
        }
        (card.interface > after).then_some(card)
    }

    /// Whether a user may see a lane.
    pub(in crate::service) fn shows(&self, lane: LaneId, viewer: &User) -> bool {
        self.lanes.get(&lane).is_some_and(|record| viewer.may_see(&record.user))
    }

    /// What has been counted.
    pub(in crate::service) fn figures(&self, of: CountersOf, lane: LaneId) -> Result<Figures, Reason> {
        let read = self.packets.call(move |path| match of {
            CountersOf::Host => {
                let PathCounters { unsent, losses, .. } = path.counters();
                let forwarder = path.forwarder();
                let capture_lost = forwarder.captures().lost();
                Some(figures::host(&forwarder.tables().counters, unsent, losses, capture_lost))
            }
            CountersOf::Lane => {
                let forwarder = path.forwarder();
                let losses = forwarder.losses(lane);
                forwarder.tables().lane_counters.get(&lane).map(|counters| figures::lane(counters, losses))
            }
        });
        read.ok_or(Reason::Device)?.ok_or(Reason::LaneGone)
    }

    /// The claim of a lane that comes after another.
    pub(in crate::service) fn next_claim(&self, lane: LaneId, after: Claim) -> Option<ClaimInfo> {
        self.claims.next(lane, after)
    }
}

/// What a listing says of each program.
fn listed(process: u32, program: Name, begun: Instant) -> LaneInfo {
    LaneInfo {
        lane: 0,
        pid: process,
        // Users of Windows have no numbers.
        uid: 0,
        program,
        processes: 1,
        claims: 0,
        age_ms: begun.elapsed().as_millis() as u64,
        interface: 0,
        reason: Reason::None,
        limits: LIMITS,
    }
}
