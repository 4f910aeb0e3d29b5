//! Windows.
//!
//! | module | purpose |
//! |---|---|
//! | `stop_event` | what ends a daemon |
//! | `waiter` | waiting for sockets and events |
//! | `report_pipe` | the named pipe for reports |
//! | `processors` | the processors, and running on one of them |
//!
//! `unsafe` is the calls of Windows in these, and a field of the system's shared page here.
#![allow(unsafe_code)]

mod processors;
mod report_pipe;
mod stop_event;
mod waiter;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsSocket;
use std::path::{Path, PathBuf};
use tickclock::{CounterKind, counter};
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;
use windows_sys::Win32::System::Performance::QueryPerformanceFrequency;

pub(crate) use processors::{pin, processors};
pub(crate) use report_pipe::{ReportClient, ReportListener, read_report, report_path};
pub(crate) use std::os::windows::io::BorrowedSocket;
pub use stop_event::{Stop, StopEvent};
pub(crate) use waiter::Waiter;

/// Where a host may have its table of leap seconds: Windows has none in a file.
pub(crate) const LEAP_TABLES: [&str; 0] = [];

/// The configuration file of the service, which has the clock's settings, too.
pub(crate) fn default_file() -> PathBuf {
    tickclock::service_path().with_file_name("tickwire.toml")
}

pub(crate) fn borrow(socket: &impl AsSocket) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// The clock that nothing steers, in ns: the performance counter.
pub(crate) fn unsteered() -> i64 {
    counter::read(CounterKind::MonotonicRaw).0.cast_signed()
}

/// How long the machine has slept since its start, in ns (`InterruptTimeBias` of
/// `KUSER_SHARED_DATA` in the WDK's ntddk.h). Under Wine always 0.
pub(crate) fn slept() -> i64 {
    /// Of the structure in every process, and of its field, which counts in 100 ns.
    const BIAS: usize = 0x7ffe_0000 + 0x3b0;
    // SAFETY: Windows maps this page, to be read only, at this address into every process.
    let bias = unsafe { std::ptr::with_exposed_provenance::<u64>(BIAS).read_volatile() };
    i64::try_from(bias).unwrap_or(i64::MAX).saturating_mul(100)
}

/// Why the TSC of this machine is not used, if it is not.
pub(crate) fn why_no_tsc() -> Option<&'static str> {
    /// The rates of the HPET and of the ACPI timer in Hz. Where Windows does not trust the TSC, one
    /// of them is its performance counter.
    const OTHERS: [i64; 2] = [14_318_180, 3_579_545];
    if !counter::has_invariant_tsc() {
        return Some("the TSC of this processor changes its speed or stops");
    }
    let mut frequency = 0;
    // SAFETY: a place for the result; it does not fail from Windows XP on.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    OTHERS.contains(&frequency).then_some("Windows does not trust the TSC: its performance counter is another one")
}

/// Opens a file of the daemon's own to be read. It follows no link.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// Whether a file is this user's or an administrator's: its directory decides which other users may
/// change it.
pub(crate) fn is_own(file: &File) -> io::Result<bool> {
    Ok(tickclock::foreign_owner(file)?.is_none())
}

/// Creates a file with the access list that its directory gives.
pub(crate) fn create_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}
