//! How often a neighbour may be resolved, and when a resolution has failed. Programs name the
//! destinations, so without a bound they could have the host send ARP requests without end.

use crate::neighbour::{NeighbourEntry, NeighbourState, apply_neighbour};
use crate::path::ResolvedPath;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tickwire_lane::control::Reason;
use tickwire_stack::addr::Address;
use tickwire_stack::path::PathState;

/// For so long after a resolution was started, a failure in the kernel's table may be an old one.
const GRACE: Duration = Duration::from_secs(1);
/// Without an answer for so long, a resolution has failed: the kernel sends three requests, one a
/// second (RFC 4861 §10). Wine lists no failures.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Bounds of neighbour resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolutionLimits {
    /// How many calls of Windows may wait for neighbours at the same time, each on a thread.
    pub outstanding: usize,
    /// The least time between two resolutions of one neighbour.
    pub interval: Duration,
    /// How many neighbours may be resolved within that time.
    pub neighbours: usize,
}

impl Default for ResolutionLimits {
    fn default() -> Self {
        Self { outstanding: 4, interval: Duration::from_secs(2), neighbours: 256 }
    }
}

/// When each neighbour was last resolved.
#[derive(Debug)]
pub struct ResolutionHistory {
    limits: ResolutionLimits,
    started: BTreeMap<(u32, Address), Instant>,
}

impl ResolutionHistory {
    /// An empty history.
    #[must_use]
    pub const fn new(limits: ResolutionLimits) -> Self {
        Self { limits, started: BTreeMap::new() }
    }

    /// Whether a neighbour may be resolved now; if so, notes that it is.
    pub fn admit(&mut self, interface: u32, address: Address, now: Instant) -> bool {
        let interval = self.limits.interval;
        let is_recent = |started: Instant| now.saturating_duration_since(started) < interval;
        let key = (interface, address);
        if self.started.get(&key).is_some_and(|&started| is_recent(started)) {
            return false;
        }
        if self.started.len() >= self.limits.neighbours && !self.started.contains_key(&key) {
            self.started.retain(|_, started| is_recent(*started));
            if self.started.len() >= self.limits.neighbours {
                return false;
            }
        }
        self.started.insert(key, now);
        true
    }

    /// How long ago the last resolution of a neighbour was started; `None` if that is long ago.
    #[must_use]
    pub fn age(&self, interface: u32, address: Address, now: Instant) -> Option<Duration> {
        self.started.get(&(interface, address)).map(|&started| now.saturating_duration_since(started))
    }
}

/// Enters the kernel's entry of the next hop into a path: its state, Ethernet address and reason.
/// `age`: how long ago the last resolution was started, if one was. A path that waits for it fails
/// after three seconds.
pub fn apply_resolution(answer: &mut ResolvedPath, neighbour: Option<&NeighbourEntry>, age: Option<Duration>) {
    let is_new = age.is_some_and(|age| age < GRACE);
    // One that was ready waits from now on.
    let is_waiting = matches!(answer.path.state, PathState::Resolving | PathState::Unreachable);
    let is_over = is_waiting && age.is_some_and(|age| age >= TIMEOUT);
    let is_old_failure = |entry: &&NeighbourEntry| is_new && entry.state == NeighbourState::Unreachable;
    apply_neighbour(&mut answer.path, neighbour.filter(|entry| !is_old_failure(entry)));
    if is_over && answer.path.state == PathState::Resolving {
        answer.path.state = PathState::Unreachable;
    }
    let has_failed = answer.path.state == PathState::Unreachable;
    answer.reason = if has_failed { Reason::NoNeighbour } else { Reason::None };
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Mac;
    use tickwire_stack::path::PathInfo;

    const LIMITS: ResolutionLimits =
        ResolutionLimits { outstanding: 1, interval: Duration::from_secs(2), neighbours: 3 };

    fn address(last: u8) -> Address {
        Address::v4([10, 0, 0, last])
    }

    #[test]
    fn a_neighbour_is_resolved_at_most_once_per_interval() {
        let mut history = ResolutionHistory::new(LIMITS);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        assert!(history.admit(5, address(1), start));
        assert!(!history.admit(5, address(1), after(1999)));
        assert!(history.admit(6, address(1), after(1999)), "another interface");
        assert!(history.admit(5, address(1), after(2000)));
        assert_eq!(history.age(5, address(1), after(2500)), Some(Duration::from_millis(500)));
        assert_eq!(history.age(5, address(2), after(2500)), None);
    }

    #[test]
    fn the_number_of_neighbours_per_interval_is_bounded() {
        let mut history = ResolutionHistory::new(LIMITS);
        let start = Instant::now();
        assert_eq!([1, 2, 3, 4].map(|n| history.admit(5, address(n), start)), [true, true, true, false]);
        let later = start + LIMITS.interval;
        assert!(history.admit(5, address(1), later));
        assert!(history.admit(5, address(4), later), "old ones make room");
        assert_eq!(history.age(5, address(2), later), None);
    }

    #[test]
    fn a_clock_that_steps_back_does_no_harm() {
        let mut history = ResolutionHistory::new(LIMITS);
        let start = Instant::now() + Duration::from_secs(9);
        assert!(history.admit(5, address(1), start));
        assert!(!history.admit(5, address(1), start - Duration::from_secs(1)));
    }

    #[test]
    fn old_failures_do_not_count_and_silence_becomes_one() {
        let entry = |state, mac| NeighbourEntry { interface: 5, address: address(1), mac, state };
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        let failed = entry(NeighbourState::Unreachable, None);
        let incomplete = entry(NeighbourState::Incomplete, None);
        let stale = entry(NeighbourState::Stale, mac);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (neighbour, age, state, reason) in [
            (Some(failed), seconds(0), PathState::Resolving, Reason::None),
            (Some(failed), seconds(1), PathState::Unreachable, Reason::NoNeighbour),
            (Some(failed), None, PathState::Unreachable, Reason::NoNeighbour),
            (Some(incomplete), seconds(2), PathState::Resolving, Reason::None),
            (Some(incomplete), seconds(3), PathState::Unreachable, Reason::NoNeighbour),
            (None, seconds(2), PathState::Resolving, Reason::None),
            (None, seconds(3), PathState::Unreachable, Reason::NoNeighbour),
            (None, None, PathState::Resolving, Reason::None),
            (Some(stale), seconds(60), PathState::Ready, Reason::None),
        ] {
            let path = PathInfo { state: PathState::Resolving, ..PathInfo::default() };
            let mut answer = ResolvedPath { path, next_hop: None, reason: Reason::None };
            apply_resolution(&mut answer, neighbour.as_ref(), age);
            assert_eq!((answer.path.state, answer.reason), (state, reason), "{neighbour:?} {age:?}");
            apply_resolution(&mut answer, neighbour.as_ref(), age);
            assert_eq!((answer.path.state, answer.reason), (state, reason), "the same once more");
        }
        // The kernel has forgotten a neighbour that was known.
        let path = PathInfo { state: PathState::Ready, ..PathInfo::default() };
        let mut answer = ResolvedPath { path, next_hop: None, reason: Reason::None };
        apply_resolution(&mut answer, None, seconds(60));
        assert_eq!(answer.path.state, PathState::Resolving);
    }
}
