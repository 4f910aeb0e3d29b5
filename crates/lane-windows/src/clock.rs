//! The time of lanes: a clock that is never set, and the same in all processes.

use tickwire_stack::time::Instant;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// Nanoseconds per second.
const SECOND: i64 = 1_000_000_000;

/// The current time, by the performance counter.
#[must_use]
pub fn now() -> Instant {
    let (mut count, mut frequency) = (0, 0);
    // SAFETY: each has room for what the call writes. Both succeed on all versions of Windows that
    // Rust's standard library supports.
    unsafe {
        QueryPerformanceCounter(&raw mut count);
        QueryPerformanceFrequency(&raw mut frequency);
    }
    let frequency = frequency.max(1);
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
