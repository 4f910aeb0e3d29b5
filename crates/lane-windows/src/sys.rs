//! Small helpers for calls of Windows.

use std::io;
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};

/// A text that ends with a zero.
pub(crate) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The number of an error of Windows; 0 if it is none.
pub(crate) fn code(error: &io::Error) -> u32 {
    error.raw_os_error().map_or(0, i32::cast_unsigned)
}

/// Takes ownership of the result of a call.
///
/// # Safety
/// The handle is new and has no other owner; or it is null or invalid, and the last error says why.
pub(crate) unsafe fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
