//! The operating system's clocks beside the counter, in ns.

#[cfg(unix)]
use nix::time::{ClockId, clock_gettime};
#[cfg(windows)]
use std::time::SystemTime;
#[cfg(windows)]
use tickclock::{CounterKind, counter};

/// A kernel clock in ns.
#[cfg(unix)]
#[must_use]
pub fn now(clock: ClockId) -> i64 {
    // It cannot fail for these clocks; a failure would show as a step.
    clock_gettime(clock).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// CLOCK_MONOTONIC.
#[cfg(unix)]
#[must_use]
pub fn monotonic() -> i64 {
    now(ClockId::CLOCK_MONOTONIC)
}

/// The performance counter, which nothing sets or steers.
#[cfg(windows)]
#[must_use]
pub fn monotonic() -> i64 {
    counter::read(CounterKind::MonotonicRaw).0.cast_signed()
}

/// CLOCK_REALTIME: the system clock, in Unix time.
#[cfg(unix)]
#[must_use]
pub fn realtime() -> i64 {
    now(ClockId::CLOCK_REALTIME)
}

/// The system clock, in Unix time.
#[cfg(windows)]
#[must_use]
pub fn realtime() -> i64 {
    // One that is set to before 1970 is as wrong as one that shows 1970.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
