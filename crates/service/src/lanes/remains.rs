//! What is left of lanes that have ended, until no process holds it any more.
//!
//! A process that keeps a descriptor of a lane's rings, or a page of them mapped, keeps their
//! memory; one that is writing to the lane's device keeps that. The lane stays charged to its user
//! for so long.

use std::time::{Duration, Instant};
use tickwire_lane_linux::sys_bpf;
use tickwire_lane_linux::sys_tap::BULK_DEVICE;
use tickwire_registry::LaneId;

/// What is still held is checked again after this time, then after twice as long each time.
const SOON: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_secs(1);

/// What is left of a lane.
#[derive(Debug)]
pub(crate) struct Remains {
    lane: LaneId,
    user: u32,
    /// What is charged for it.
    bytes: u64,
    /// The kernel's ids of its rings.
    rings: Vec<u32>,
    due: Instant,
    wait: Duration,
}

impl Remains {
    pub(crate) fn new(lane: LaneId, user: u32, bytes: u64, rings: Vec<u32>) -> Self {
        Self { lane, user, bytes, rings, due: Instant::now() + SOON, wait: SOON }
    }

    /// When the next check is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Checks, if that is due, whether something of it is still held. `is_removing` says whether a
    /// device still exists. Returns what is charged for it once nothing is left: the user, and the
    /// bytes.
    pub(crate) fn check(&mut self, now: Instant, is_removing: impl Fn(u32) -> bool) -> Option<(u32, u64)> {
        if self.due > now {
            return None;
        }
        self.rings.retain(|&ring| sys_bpf::map_exists(ring));
        if self.rings.is_empty() && ![self.lane, self.lane | BULK_DEVICE].into_iter().any(is_removing) {
            return Some((self.user, self.bytes));
        }
        self.wait = (self.wait * 2).min(SELDOM);
        self.due = now + self.wait;
        None
    }
}
