//! Windows' performance counter, in nanoseconds: what `CLOCK_MONOTONIC_RAW` is on Linux. It runs
//! from the machine's start at a rate that nothing steers, in steps of 100 ns on most machines.

use super::Moved;
use std::sync::OnceLock;
use tickwire_clockpage::Count;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

const SECOND: i128 = 1_000_000_000;

/// The counter.
pub(super) fn read() -> Count {
    // SAFETY: a place for the result; it does not fail from Windows XP on.
    performance_count(value(|place| unsafe { QueryPerformanceCounter(place) }))
}

/// A value of the performance counter, such as Windows' timestamps of packets are, as a count of
/// [`CounterKind::MonotonicRaw`](tickwire_clockpage::CounterKind::MonotonicRaw): in ns.
#[must_use]
pub fn performance_count(value: i64) -> Count {
    Count((i128::from(value) * SECOND / i128::from(frequency())) as u64)
}

fn frequency() -> i64 {
    static FREQUENCY: OnceLock<i64> = OnceLock::new();
    // SAFETY: a place for the result; it does not fail from Windows XP on.
    *FREQUENCY.get_or_init(|| value(|place| unsafe { QueryPerformanceFrequency(place) }).max(1))
}

fn value(read: impl FnOnce(*mut i64) -> i32) -> i64 {
    let mut value = 0;
    read(&raw mut value);
    value
}

/// There are no time namespaces.
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(super) fn moved() -> Result<i64, Moved> {
    Ok(0)
}
