//! Calls of Windows: handles, events and waiting.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use std::time::Duration;
use windows_sys::Win32::Foundation::{
    GetHandleInformation, HANDLE, INVALID_HANDLE_VALUE, WAIT_FAILED, WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows_sys::Win32::System::Threading::{CreateEventW, INFINITE, ResetEvent, SetEvent, WaitForMultipleObjects};

/// The most handles that Windows waits for at once (`MAXIMUM_WAIT_OBJECTS`).
const MOST: usize = 64;

/// A text that ends with a zero.
pub(super) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The number of an error of Windows; 0 if it is none.
pub(super) fn code(error: &io::Error) -> u32 {
    error.raw_os_error().map_or(0, i32::cast_unsigned)
}

/// Takes ownership of the result of a call.
///
/// # Safety
/// The handle is new and has no other owner; or it is null or invalid, and the last error says why.
pub(super) unsafe fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// A value from a message as a handle, if it can be one.
///
/// Small negative values mean the calling process, its thread or its token (pseudo-handles): never
/// what another process wants to pass. Handles are multiples of 4.
pub(super) fn handle_value(value: u64) -> Option<HANDLE> {
    let value = i32::try_from(value).ok().filter(|value| *value > 0 && value % 4 == 0)?;
    Some(std::ptr::without_provenance_mut(value.cast_unsigned() as usize))
}

/// Takes ownership of a handle that the service has put into this process.
///
/// # Safety
/// The service has made it for this process, and said so once.
pub(super) unsafe fn adopt(value: u64) -> io::Result<OwnedHandle> {
    let handle = handle_value(value).ok_or(io::ErrorKind::InvalidData)?;
    let mut flags = 0;
    // SAFETY: any value is allowed; a place for the result.
    if unsafe { GetHandleInformation(handle, &raw mut flags) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    unsafe { own(handle) }
}

/// An event that stays set until it is reset.
#[derive(Debug)]
pub(super) struct Event(OwnedHandle);

impl Event {
    /// An event that is not set.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no attributes and no name.
        let handle = unsafe { CreateEventW(null(), 1, 0, null()) };
        // SAFETY: the result of that call.
        unsafe { own(handle) }.map(Self)
    }

    /// An event of the service's, in this process.
    pub(super) fn from_handle(handle: OwnedHandle) -> Self {
        Self(handle)
    }

    pub(super) fn set(&self) -> io::Result<()> {
        // SAFETY: an open handle.
        if unsafe { SetEvent(self.0.as_raw_handle()) } == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn reset(&self) {
        // SAFETY: an open handle of an event that may be changed: it cannot fail.
        unsafe { ResetEvent(self.0.as_raw_handle()) };
    }

    pub(super) fn is_set(&self) -> bool {
        wait(self.as_handle(), Duration::ZERO).unwrap_or(false)
    }
}

impl AsHandle for Event {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}

/// Waits for one handle. Returns whether it was set in time.
pub(super) fn wait(handle: BorrowedHandle<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(wait_any(&[handle], timeout)?.is_some())
}

/// Waits until one of at most 64 handles is set (the limit of Windows). Returns the place of the
/// first one that is; `None` if none was in time.
///
/// # Errors
/// `InvalidInput` for more handles, or for none; else an error of Windows.
pub fn wait_any(handles: &[BorrowedHandle<'_>], timeout: Duration) -> io::Result<Option<usize>> {
    if handles.is_empty() || handles.len() > MOST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Rounded up: it must not return early.
    let ms = timeout.as_nanos().div_ceil(1_000_000).min(u128::from(INFINITE - 1)) as u32;
    const { assert!(size_of::<BorrowedHandle<'_>>() == size_of::<HANDLE>()) };
    // SAFETY: so many open handles; a borrowed handle is a handle (`repr(transparent)`).
    let result = unsafe { WaitForMultipleObjects(handles.len() as u32, handles.as_ptr().cast(), 0, ms) };
    match result {
        WAIT_TIMEOUT => Ok(None),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        // An abandoned mutex also counts as set.
        set => Ok(Some((set - WAIT_OBJECT_0) as usize % 128)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_multiples_of_four_are_handles() {
        for value in [0, 1, 7, u64::MAX, u64::MAX - 1, u64::MAX - 3, 0x8000_0000, 0x1_0000_0004, 0xffff_fffc] {
            assert!(handle_value(value).is_none(), "{value:#x}");
        }
        assert_eq!(handle_value(0x44).map(|handle| handle as usize), Some(0x44));
    }

    #[test]
    fn the_first_handle_that_is_set_is_found() {
        let (a, b) = (Event::new().unwrap(), Event::new().unwrap());
        let both = [a.as_handle(), b.as_handle()];
        assert_eq!(wait_any(&both, Duration::from_millis(1)).unwrap(), None);
        b.set().unwrap();
        assert_eq!(wait_any(&both, Duration::from_secs(9)).unwrap(), Some(1));
        a.set().unwrap();
        b.reset();
        assert!(a.is_set() && !b.is_set());
        assert!(wait_any(&[], Duration::ZERO).is_err());
        assert!(wait_any(&[a.as_handle(); 65], Duration::ZERO).is_err());
    }
}
