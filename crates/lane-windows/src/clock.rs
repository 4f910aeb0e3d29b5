//! The time of lanes: a clock that is never set, and the same in all processes.

use std::sync::OnceLock;
use tickwire_stack::time::Instant;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// Nanoseconds per second.
const SECOND: i64 = 1_000_000_000;

/// The current time, by the performance counter.
#[must_use]
pub fn now() -> Instant {
    let mut count = 0;
    // SAFETY: room for what the call writes. It succeeds on all versions of Windows that Rust's
    // standard library supports.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    at_count(count)
}

/// The time of a count of the performance counter, as drivers stamp packets.
#[must_use]
pub fn at_count(count: i64) -> Instant {
    static FREQUENCY: OnceLock<i64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: as above. It says the same until the machine's end.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.max(1)
    });
    // (Whole seconds apart, so that nothing overflows.)
    let seconds = (count / frequency).saturating_mul(SECOND);
    let nanos = seconds.saturating_add(count % frequency * SECOND / frequency);
    Instant::from_nanos(nanos.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_the_time_at_which_it_was_read() {
        let mut count = 0;
        let before = now();
        // SAFETY: room for what the call writes.
        unsafe { QueryPerformanceCounter(&raw mut count) };
        assert!((before..=now()).contains(&at_count(count)));
        assert_eq!(at_count(-5), Instant::from_nanos(0));
        assert!(at_count(i64::MAX) > before, "a count that no counter reaches");
    }

    #[test]
    fn time_goes_on_at_the_rate_of_the_systems_clock() {
        let (begin, system) = (now(), std::time::Instant::now());
        let mut last = begin;
        while system.elapsed().as_millis() < 20 {
            let time = now();
            assert!(time >= last);
            last = time;
        }
        let passed = last.as_nanos() - begin.as_nanos();
        assert!((15_000_000..1_000_000_000).contains(&passed), "{passed}");
    }
}
