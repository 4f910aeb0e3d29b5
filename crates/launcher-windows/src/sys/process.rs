//! Waiting for processes, threads and events, and the end of a process.

use super::done;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use std::time::Duration;
use windows_sys::Win32::Foundation::{WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, INFINITE, TerminateProcess, WaitForMultipleObjects, WaitForSingleObject,
};

/// Windows' time in milliseconds, rounded up: a wait must not end early. `None` is without end.
fn milliseconds(time: Option<Duration>) -> u32 {
    let whole = |time: Duration| u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE - 1);
    time.map_or(INFINITE, whole)
}

/// Waits until a process or a thread has ended, or an event is set; a time of `None` is without
/// end. Returns whether it has.
pub(crate) fn wait(handle: BorrowedHandle<'_>, time: Option<Duration>) -> io::Result<bool> {
    // SAFETY: an open handle.
    match unsafe { WaitForSingleObject(handle.as_raw_handle(), milliseconds(time)) } {
        WAIT_OBJECT_0 => Ok(true),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(false),
    }
}

/// Waits for either of two handles, for at most this time.
pub(crate) fn wait_for_either(handles: [BorrowedHandle<'_>; 2], time: Duration) -> io::Result<()> {
    let raw = handles.map(|handle| handle.as_raw_handle());
    // SAFETY: so many open handles.
    match unsafe { WaitForMultipleObjects(raw.len() as u32, raw.as_ptr(), 0, milliseconds(Some(time))) } {
        WAIT_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: BorrowedHandle<'_>) -> bool {
    wait(process, Some(Duration::ZERO)).unwrap_or(false)
}

/// The exit code of a process that has ended.
pub(crate) fn exit_code(process: BorrowedHandle<'_>) -> io::Result<u32> {
    let mut code = 0;
    // SAFETY: an open process, and a place for the result.
    done(unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) })?;
    Ok(code)
}

/// Ends a process.
pub(crate) fn terminate(process: BorrowedHandle<'_>, code: u32) {
    // SAFETY: an open process. If it has ended already, nothing happens.
    unsafe { TerminateProcess(process.as_raw_handle(), code) };
}
