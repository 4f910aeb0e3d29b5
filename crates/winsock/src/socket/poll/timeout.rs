//! When a poll ends though nothing is the case.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Windows' time 0 (1601) is so many units of 100 ns before the one of Unix.
const UNIX_TIME_0: u64 = 116_444_736_000_000_000;

/// When a poll ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollEnd {
    /// The call returns what is the case.
    AtOnce,
    /// At a time.
    At(Instant),
    /// It waits for a socket.
    Never,
}

impl PollEnd {
    /// For a timeout in 100 ns: negative from now, positive as a time of the system.
    pub(super) fn of(timeout: i64) -> Self {
        // (A clock that is set before 1970 reads as 1970.)
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of_at(timeout, Instant::now(), UNIX_TIME_0 + (unix.as_nanos() / 100) as u64)
    }

    fn of_at(timeout: i64, now: Instant, system: u64) -> Self {
        let units = match timeout {
            0 => return Self::AtOnce,
            i64::MAX => return Self::Never,
            relative @ ..0 => relative.unsigned_abs(),
            absolute => absolute.unsigned_abs().saturating_sub(system),
        };
        let left = Duration::from_micros(units / 10) + Duration::from_nanos(units % 10 * 100);
        now.checked_add(left).map_or(Self::Never, Self::At)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_relative_or_times_of_the_system() {
        let now = Instant::now();
        let system = 133_000_000_000_000_000;
        let at = |time| PollEnd::At(now + time);
        for (timeout, end) in [
            (0, PollEnd::AtOnce),
            (i64::MAX, PollEnd::Never),
            (-1, at(Duration::from_nanos(100))),
            (-25_000_000, at(Duration::from_millis(2500))),
            (133_000_000_000_000_000, at(Duration::ZERO)),
            (1, at(Duration::ZERO)),
            (133_000_000_000_000_015, at(Duration::from_nanos(1500))),
        ] {
            assert_eq!(PollEnd::of_at(timeout, now, system), end, "{timeout}");
        }
        // The longest: some 29,000 years.
        let longest = PollEnd::of_at(i64::MIN, now, system);
        assert!(longest == PollEnd::Never || matches!(longest, PollEnd::At(at) if at > now));
    }

    #[test]
    fn a_time_of_the_system_that_is_over_ends_a_poll_now() {
        let begin = Instant::now();
        let PollEnd::At(at) = PollEnd::of(1) else { panic!("it does not end") };
        assert!(at >= begin && at <= Instant::now());
    }
}
