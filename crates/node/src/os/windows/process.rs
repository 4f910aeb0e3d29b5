//! The process and its host.

use crate::os::ProcessorTime;
use std::time::Duration;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::SystemInformation::{ComputerNameDnsHostname, GetComputerNameExW};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

/// Characters of a host's name: more than DNS allows.
const NAME: usize = 256;

/// The host's name; empty if it has none.
pub(crate) fn host_name() -> String {
    let mut name = [0; NAME];
    let mut length = NAME as u32;
    // SAFETY: room for as many characters as the call is told.
    let is_there = unsafe { GetComputerNameExW(ComputerNameDnsHostname, name.as_mut_ptr(), &raw mut length) } != 0;
    let known = name.get(..length as usize).filter(|_| is_there).unwrap_or_default();
    String::from_utf16_lossy(known)
}

/// Windows has no such limit.
pub(crate) const fn take_descriptors() {}

/// Rust's standard library sleeps by timers of high resolution, where Windows has them.
pub(crate) const fn set_exact_timers() {}

/// The processor time of this process so far, if the system says so.
pub(crate) fn processor_time() -> Option<ProcessorTime> {
    const NONE: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    let [mut begun, mut ended, mut system, mut user] = [NONE; 4];
    // SAFETY: the handle stands for this process at all times; places for the results.
    let is_there =
        unsafe { GetProcessTimes(GetCurrentProcess(), &raw mut begun, &raw mut ended, &raw mut system, &raw mut user) }
            != 0;
    is_there.then(|| ProcessorTime { user: duration(user), system: duration(system), ready: None })
}

/// From units of 100 ns.
fn duration(time: FILETIME) -> Duration {
    let count = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(count.saturating_mul(100))
}
