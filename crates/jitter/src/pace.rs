//! Waiting for an instant.
//!
//! Instants are of CLOCK_MONOTONIC, which nobody sets: if the system clock is set, a wait ends all
//! the same.

use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tickwire_ntp::sandwich::now;

/// From one instant to the next.
pub const PERIOD: Duration = Duration::from_micros(500);
/// How long before the instant a watched wait's sleep ends, in ns: as that of `tickclock`.
const EARLY: i64 = 200_000;

/// How an instant is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Asleep until shortly before it, then watching the clock, as `tickclock::Clock::wait_until`.
    Watch,
    /// Asleep, as most programs do.
    Sleep,
}

impl Wait {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Watch, Self::Sleep];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watched wait",
            Self::Sleep => "plain sleep",
        }
    }

    /// Waits until CLOCK_MONOTONIC shows so many ns, and returns what it shows then, which is not
    /// less.
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
                // A signal ends it early: the clock is asked again in any case.
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
