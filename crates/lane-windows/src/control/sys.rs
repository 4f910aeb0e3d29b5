//! Handles that come as values, and events that stay set.

use crate::event::wait_for;
use crate::private_object;
use crate::sys::own;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null;
use std::time::Duration;
use windows_sys::Win32::Foundation::{GetHandleInformation, HANDLE};
use windows_sys::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent};

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
        let attributes = private_object::attributes()?;
        // SAFETY: valid attributes, and no name.
        let handle = unsafe { CreateEventW(&raw const attributes, 1, 0, null()) };
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
    Ok(wait_for(&[handle], Some(timeout))?.is_some())
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
    fn an_event_stays_set_until_it_is_reset() {
        let event = Event::new().unwrap();
        event.set().unwrap();
        assert!(event.is_set() && event.is_set());
        event.reset();
        assert!(!event.is_set());
    }
}
