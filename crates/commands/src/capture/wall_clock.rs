//! Converts the packets' timestamps, by a clock that is never set, to the time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The offset between the two clocks, taken once: so timestamps within a file never jump, even if
/// the system clock is set.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    offset: Duration,
}

impl WallClock {
    /// Reads both clocks several times and keeps the pair that was read fastest. `monotonic_ns`
    /// reads the clock by which packets are stamped, in ns.
    ///
    /// # Errors
    /// Those of `monotonic_ns`.
    pub fn new<E>(mut monotonic_ns: impl FnMut() -> Result<u64, E>) -> Result<Self, E> {
        let mut best: Option<(u64, Duration)> = None;
        for _ in 0..16 {
            let before = monotonic_ns()?;
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let gap = monotonic_ns()?.saturating_sub(before);
            if best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, wall.saturating_sub(Duration::from_nanos(before + gap / 2))));
            }
        }
        Ok(Self { offset: best.unwrap_or_default().1 })
    }

    #[cfg(test)]
    pub(super) fn fixed(offset: Duration) -> Self {
        Self { offset }
    }

    /// The Unix time of a timestamp in ns.
    #[must_use]
    pub fn at(&self, monotonic_ns: u64) -> Duration {
        self.offset + Duration::from_nanos(monotonic_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::time::Instant;

    #[test]
    fn now_is_now() {
        let begin = Instant::now();
        let monotonic = || Ok::<_, Infallible>(begin.elapsed().as_nanos() as u64);
        let clock = WallClock::new(monotonic).unwrap();
        let ours = clock.at(begin.elapsed().as_nanos() as u64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(now.abs_diff(ours) < Duration::from_millis(100), "{now:?} {ours:?}");
    }
}
