//! A lane whose program is gone, and what its peers are told of its connections.
//!
//! The lane's table is the dead program's word: a row counts only if the lane has owned its ends,
//! and its source is the host's (`Nics::send` checks that).

use super::lane::Lane;
use tickwire_registry::{ClaimId, EndSegment, LaneId, Registry, end_segments};
use tickwire_steer::tables::Protocol;

/// A lane whose program is gone, and whose peers are being notified.
pub(crate) struct DyingLane {
    pub(crate) lane: Lane,
    pub(crate) id: LaneId,
    pub(crate) claims: Vec<ClaimId>,
    /// What is still to be sent, the last first.
    pub(crate) ends: Vec<EndSegment>,
}

/// The segments that end the live connections of a lane, the last first.
pub(crate) fn ends(lane: &Lane, id: LaneId, registry: &Registry) -> Vec<EndSegment> {
    let rows = lane.view.rows().iter().take(lane.limits.rows());
    let owns = |local, remote| registry.owns(id, Protocol::Tcp, local, remote);
    let mut ends: Vec<EndSegment> = rows.flat_map(|row| end_segments(row, owns)).collect();
    ends.reverse();
    ends
}
