//! What is left of lanes that have ended, until no process holds it any more.
//!
//! A process that keeps a descriptor of a lane's rings, or a page of them mapped, keeps their
//! memory; one that is writing to the lane's device keeps that. The lane stays charged to its user
//! for so long.

use crate::registry::LaneId;
use crate::service::Service;
use std::time::{Duration, Instant};
use tickwire_link::sys_bpf;
use tickwire_link::sys_tap::BULK_DEVICE;

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
}

impl Service {
    /// When the next check is due.
    pub(crate) fn next_look_at_remains(&self) -> Option<Instant> {
        self.remains.iter().map(|remains| remains.due).min()
    }

    /// Returns to the user's account what no process holds any more.
    pub(crate) fn look_at_remains(&mut self, now: Instant) {
        let Self { remains, usage, maker, .. } = self;
        remains.retain_mut(|left| {
            if left.due > now {
                return true;
            }
            left.rings.retain(|&ring| sys_bpf::map_exists(ring));
            let devices = [left.lane, left.lane | BULK_DEVICE];
            if left.rings.is_empty() && !devices.into_iter().any(|device| maker.is_removing(device)) {
                usage.give_lane(left.user, left.bytes);
                return false;
            }
            left.wait = (left.wait * 2).min(SELDOM);
            left.due = now + left.wait;
            true
        });
    }
}
