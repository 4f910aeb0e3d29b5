//! Events of Windows.

use crate::card::CardWaker;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{CreateEventW, ResetEvent, SetEvent};

/// An event without a name.
#[derive(Debug)]
pub(crate) struct Event(OwnedHandle);

impl Event {
    /// One that is not set. `is_lasting`: it stays set until it is reset. Else it wakes one thread.
    pub(crate) fn new(is_lasting: bool) -> io::Result<Self> {
        // SAFETY: no attributes and no name are passed.
        let handle = unsafe { CreateEventW(null(), is_lasting.into(), 0, null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new handle, which nothing else owns.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle) }))
    }

    /// Its handle, which lives as long as this does.
    pub(crate) fn handle(&self) -> HANDLE {
        self.0.as_raw_handle()
    }

    pub(crate) fn reset(&self) {
        // SAFETY: an open handle of an event.
        unsafe { ResetEvent(self.handle()) };
    }
}

impl CardWaker for Event {
    fn wake(&self) {
        // SAFETY: an open handle of an event.
        unsafe { SetEvent(self.handle()) };
    }
}
