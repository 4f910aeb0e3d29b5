//! Tells the lane what the modules above it do when something happens to it.

use crate::lane::{self, Observer};
use crate::process::{helper, lane_processes};
use crate::socket::{close, kernel, ops, pending};
use crate::wait::epoll;

static OBSERVER: Observer = Observer {
    guard: super::signal::guard,
    begins: |lane| pending::make_room(lane.handover().limits.tcp),
    begun: kernel::list_older,
    start_helper: helper::start,
    abandon: || lane_processes::abandon(true),
    process_gone: lane_processes::gone,
    claim_lost: kernel::claim_lost,
    is_kernels: ops::catch_up,
    ends: close::lane_ended,
    ended: epoll::lane_ended,
};

/// Before the first lane: when the library is loaded, or with the first socket before that.
pub(crate) fn install() {
    lane::observe(&OBSERVER);
}
