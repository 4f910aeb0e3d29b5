//! Converts the packets' timestamps, which count from boot, to the time of day.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The offset between the two clocks, taken once: so timestamps within a file never jump, even if
/// the system clock is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    offset: Duration,
}

impl WallClock {
    /// Reads both clocks several times and keeps the pair that was read fastest.
    pub(crate) fn new() -> nix::Result<Self> {
        let mut best: Option<(Duration, Duration)> = None;
        for _ in 0..16 {
            let before = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
            let wall = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
            let after = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
            let gap = after.saturating_sub(before);
            if best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, wall.saturating_sub(before + gap / 2)));
            }
        }
        Ok(Self { offset: best.unwrap_or_default().1 })
    }

    #[cfg(test)]
    pub(crate) fn fixed(offset: Duration) -> Self {
        Self { offset }
    }

    /// The Unix time of a timestamp.
    pub(crate) fn at(&self, monotonic_ns: u64) -> Duration {
        self.offset + Duration::from_nanos(monotonic_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn now_is_now() {
        let clock = WallClock::new().unwrap();
        let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ours = clock.at(u64::try_from(monotonic.as_nanos()).unwrap());
        assert!(now.abs_diff(ours) < Duration::from_millis(100), "{now:?} {ours:?}");
    }
}
