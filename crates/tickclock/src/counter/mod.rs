//! The counters of this machine. Clocks use those that [`read`] reads; the two on the bus ([`Hpet`], [`AcpiPm`]) are here to be compared with them.

mod acpi_pm;
mod hpet;

pub use acpi_pm::AcpiPm;
pub use hpet::Hpet;

use nix::time::{ClockId, clock_gettime};
use tickwire_clock::Count;
use tickwire_clock::page::CounterKind;

/// Reads a counter, not before anything that the program did earlier.
#[inline]
#[must_use]
pub fn read(kind: CounterKind) -> Count {
    match kind {
        CounterKind::Tsc => tsc(),
        CounterKind::Cntvct => cntvct(),
        CounterKind::MonotonicRaw => monotonic_raw(),
    }
}

/// Reads a counter, perhaps while something that the program did earlier is not complete yet: that costs half as much.
#[inline]
#[must_use]
pub fn read_unordered(kind: CounterKind) -> Count {
    match kind {
        CounterKind::Tsc => tsc_unordered(),
        CounterKind::Cntvct => cntvct_unordered(),
        CounterKind::MonotonicRaw => monotonic_raw(),
    }
}

/// Whether this processor has such a counter at all.
#[must_use]
pub const fn exists(kind: CounterKind) -> bool {
    match kind {
        CounterKind::Tsc => cfg!(target_arch = "x86_64"),
        CounterKind::Cntvct => cfg!(target_arch = "aarch64"),
        CounterKind::MonotonicRaw => true,
    }
}

#[inline]
fn tsc() -> Count {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it; it touches no memory. RDTSC may be executed before what precedes it unless a fence says otherwise (Intel SDM,
    // RDTSC).
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    tsc_unordered()
}

#[inline]
fn tsc_unordered() -> Count {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it; it touches no memory.
    return Count(unsafe { core::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    Count(0)
}

#[inline]
fn cntvct() -> Count {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it touches no memory. ISB keeps the read from being early (Arm ARM, D12.1.2).
    unsafe {
        core::arch::asm!("isb", options(nostack))
    };
    cntvct_unordered()
}

#[inline]
fn cntvct_unordered() -> Count {
    #[cfg(target_arch = "aarch64")]
    {
        let count;
        // SAFETY: Linux lets every program read the virtual counter; the instruction touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
        Count(count)
    }
    #[cfg(not(target_arch = "aarch64"))]
    Count(0)
}

fn monotonic_raw() -> Count {
    clock_gettime(ClockId::CLOCK_MONOTONIC_RAW)
        .map_or(Count(0), |now| Count(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_this_machine_run_forward() {
        for kind in [CounterKind::Tsc, CounterKind::Cntvct, CounterKind::MonotonicRaw] {
            if exists(kind) {
                let before = read(kind);
                std::thread::sleep(std::time::Duration::from_millis(1));
                assert!(read(kind) > before, "{kind:?}");
                let before = read_unordered(kind);
                std::thread::sleep(std::time::Duration::from_millis(1));
                assert!(read_unordered(kind) > before, "{kind:?}");
            }
        }
    }
}
