//! The event that a library sets in its program's process.

use super::done;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::DuplicateHandle;
use windows_sys::Win32::System::Threading::{CreateEventW, EVENT_MODIFY_STATE, GetCurrentProcess};

/// An event that stays set.
#[derive(Debug)]
pub(crate) struct LoadedEvent(OwnedHandle);

/// Another handle of the event, which can only set it. A process that is made while this exists
/// inherits it, with the same value.
#[derive(Debug)]
pub(crate) struct InheritedEvent(OwnedHandle);

impl LoadedEvent {
    /// Makes an event that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no attributes and no name are passed.
        let handle = unsafe { CreateEventW(null(), 1, 0, null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made and has no other owner.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }

    pub(crate) fn inherited(&self) -> io::Result<InheritedEvent> {
        let mut copy = null_mut();
        // SAFETY: this process, an open handle, and a place for the result.
        done(unsafe {
            let this = GetCurrentProcess();
            DuplicateHandle(this, self.0.as_raw_handle(), this, &raw mut copy, EVENT_MODIFY_STATE, 1, 0)
        })?;
        // SAFETY: the handle was just made and has no other owner.
        Ok(InheritedEvent(unsafe { OwnedHandle::from_raw_handle(copy) }))
    }
}

impl AsHandle for LoadedEvent {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}

impl InheritedEvent {
    /// The handle's value.
    pub(crate) fn value(&self) -> usize {
        self.0.as_raw_handle().addr()
    }
}
