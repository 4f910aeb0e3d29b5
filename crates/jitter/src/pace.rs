//! Waits for an instant.
//!
//! Instants are of CLOCK_MONOTONIC, which cannot be set, so a step of the system clock does not
//! affect a wait.

use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tickwire_stamping::cross_timestamp::now;

/// Interval between instants.
pub const PERIOD: Duration = Duration::from_micros(500);
/// How long before the instant the sleep of a watched wait ends, in ns, as in `tickclock`.
const EARLY: i64 = 200_000;

/// How to wait for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleep until shortly before it, then spin on the clock, as `tickclock::Clock::wait_until`
    /// does.
    Watch,
    /// Only sleep, as most programs do.
    Sleep,
}

impl Wait {
    /// Both waits.
    pub const ALL: [Self; 2] = [Self::Watch, Self::Sleep];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watched wait",
            Self::Sleep => "plain sleep",
        }
    }

    /// Waits until CLOCK_MONOTONIC reaches `due` ns, and returns its value then, which is not less.
    pub(crate) fn until(self, due: i64) -> i64 {
        let wake = match self {
            Self::Watch => due - EARLY,
            Self::Sleep => due,
        };
        loop {
            let now = now(ClockId::CLOCK_MONOTONIC);
            if now >= due {
                return now;
            }
            if now < wake {
                let wake = Duration::from_nanos(wake.unsigned_abs()).into();
                // A signal ends the sleep early; the loop reads the clock again in any case.
                let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &wake);
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_ends_before_its_instant_and_one_that_is_past_ends_at_once() {
        for wait in Wait::ALL {
            let begin = now(ClockId::CLOCK_MONOTONIC);
            for ns in [0, 1, 50_000, EARLY, 2_000_000] {
                let due = now(ClockId::CLOCK_MONOTONIC) + ns;
                assert!(wait.until(due) >= due, "{wait:?} {ns}");
            }
            assert!(wait.until(begin) > begin);
        }
    }
}
