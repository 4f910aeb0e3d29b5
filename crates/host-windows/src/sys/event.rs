//! An event that wakes one thread.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

/// An event that is reset by the thread that it wakes.
#[derive(Debug)]
pub(crate) struct Event {
    handle: OwnedHandle,
}

impl Event {
    /// Makes an event that is not set.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no security attributes and no name are passed.
        let handle = unsafe { CreateEventW(null(), 0, 0, null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made and has no other owner.
        Ok(Self { handle: unsafe { OwnedHandle::from_raw_handle(handle) } })
    }

    /// Sets it.
    pub(crate) fn set(&self) {
        // SAFETY: an event that lives as long as `self`.
        unsafe { SetEvent(self.handle.as_raw_handle()) };
    }
}

impl AsHandle for Event {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}
