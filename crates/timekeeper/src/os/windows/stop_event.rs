//! What ends a daemon.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

/// What ends a daemon: an object that is signalled, such as an event or a process that has ended.
pub type Stop<'a> = BorrowedHandle<'a>;

/// An event that ends a daemon.
#[derive(Debug)]
pub struct StopEvent(OwnedHandle);

impl StopEvent {
    /// An event that is not set yet.
    ///
    /// # Errors
    /// Windows makes none.
    pub fn new() -> io::Result<Self> {
        event().map(Self)
    }

    /// Ends the daemon that waits for it.
    pub fn set(&self) {
        // SAFETY: an open handle. It fails for other handles only.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }
}

impl AsHandle for StopEvent {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}

/// An event without a name that stays set.
pub(super) fn event() -> io::Result<OwnedHandle> {
    // SAFETY: no attributes and no name.
    let event = unsafe { CreateEventW(null(), 1, 0, null()) };
    if event.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made above, and nothing else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(event) })
}
