//! The counters of this machine. Clocks use those of [`read`]; the two on the bus (`Hpet`,
//! `AcpiPm`) serve only for comparison, and only on Linux.

#[cfg(target_os = "linux")]
mod acpi_pm;
#[cfg(target_os = "linux")]
mod hpet;
mod moved;
#[cfg(unix)]
mod raw;
#[cfg(windows)]
#[path = "performance.rs"]
mod raw;

#[cfg(target_os = "linux")]
pub use acpi_pm::AcpiPm;
#[cfg(target_os = "linux")]
pub use hpet::Hpet;
pub use moved::Moved;
#[cfg(windows)]
pub use raw::performance_count;

use tickwire_clockpage::{Count, CounterKind};

/// Reads a counter after all earlier instructions are complete.
#[inline]
#[must_use]
pub fn read(kind: CounterKind) -> Count {
    match kind {
        CounterKind::Tsc => tsc(),
        CounterKind::Cntvct => cntvct(),
        CounterKind::MonotonicRaw => raw::read(),
    }
}

/// Reads a counter, possibly before earlier instructions are complete, at half the cost.
#[inline]
#[must_use]
pub fn read_unordered(kind: CounterKind) -> Count {
    match kind {
        CounterKind::Tsc => tsc_unordered(),
        CounterKind::Cntvct => cntvct_unordered(),
        CounterKind::MonotonicRaw => raw::read(),
    }
}

/// Whether this program reads the same counter values as the other programs of the machine,
/// including those in other time namespaces.
///
/// # Errors
/// It cannot be determined; only for [`CounterKind::MonotonicRaw`].
pub fn is_common(kind: CounterKind) -> Result<(), Moved> {
    match kind {
        CounterKind::MonotonicRaw => raw::moved().map(|_| ()),
        CounterKind::Tsc | CounterKind::Cntvct => Ok(()),
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

/// Whether the processor says that its TSC runs at one rate in all of its sleep states (CPUID
/// 8000_0007H, EDX bit 8; Intel SDM volume 3, "Invariant TSC").
#[must_use]
pub fn has_invariant_tsc() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const POWER: u32 = 0x8000_0007;
        #[allow(unused_unsafe, reason = "it is safe from Rust 1.94 on")]
        let leaf = |number: u32| {
            // SAFETY: every x86-64 processor has the instruction; it touches no memory.
            unsafe { core::arch::x86_64::__cpuid(number) }
        };
        leaf(0x8000_0000).eax >= POWER && leaf(POWER).edx & 1 << 8 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[inline]
fn tsc() -> Count {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it; it touches no memory. Without a fence RDTSC may
    // execute before earlier instructions (Intel SDM, RDTSC).
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
        // SAFETY: Linux lets every program read the virtual counter; the instruction touches no
        // memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
        Count(count)
    }
    #[cfg(not(target_arch = "aarch64"))]
    Count(0)
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
