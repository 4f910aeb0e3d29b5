//! The time of lanes: a clock that is never set, and the same in all processes.

use std::sync::OnceLock;
use tickwire_stack::time::Instant;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// Nanoseconds per second.
const SECOND: i64 = 1_000_000_000;

/// The current time, by the performance counter.
#[must_use]
pub fn now() -> Instant {
    static FREQUENCY: OnceLock<i64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: room for what the call writes. It succeeds on all versions of Windows that Rust's
        // standard library supports, and says the same until the machine's end.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.max(1)
    });
    let mut count = 0;
    // SAFETY: as above.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    // (Whole seconds apart, so that nothing overflows.)
    let nanos = count / frequency * SECOND + count % frequency * SECOND / frequency;
    Instant::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
