//! Windows' performance counter, in nanoseconds: what `CLOCK_MONOTONIC_RAW` is on Linux. It runs
//! from the machine's start at a rate that nothing steers, in steps of 100 ns on most machines.

use super::Moved;
use std::sync::OnceLock;
use tickwire_clockpage::Count;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

const SECOND: i128 = 1_000_000_000;

/// The counter.
pub(super) fn read() -> Count {
    static FREQUENCY: OnceLock<i64> = OnceLock::new();
    // SAFETY: a place for the result; it does not fail from Windows XP on.
    let frequency = *FREQUENCY.get_or_init(|| value(|place| unsafe { QueryPerformanceFrequency(place) }).max(1));
    // SAFETY: as above.
    let count = value(|place| unsafe { QueryPerformanceCounter(place) });
    Count((i128::from(count) * SECOND / i128::from(frequency)) as u64)
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
