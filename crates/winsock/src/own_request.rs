//! Overlapped requests of this library's own, which it waits for at once. Nothing of them comes to
//! the completion port that the program has given the handle.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use windows_sys::Win32::Foundation::{HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::{CreateEventW, WaitForSingleObject};

/// A request.
pub(crate) struct OwnRequest {
    event: OwnedHandle,
    overlapped: OVERLAPPED,
}

impl OwnRequest {
    /// A request at an offset; of a socket, at 0.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub(crate) fn new(offset: u64) -> io::Result<Self> {
        // SAFETY: an event without a name.
        let event = unsafe { CreateEventW(null(), 1, 0, null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new handle.
        let event = unsafe { OwnedHandle::from_raw_handle(event) };
        let mut overlapped = OVERLAPPED::default();
        overlapped.Anonymous.Anonymous.Offset = offset as u32;
        overlapped.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
        // With this bit nothing is posted to a port.
        overlapped.hEvent = event.as_raw_handle().map_addr(|address| address | 1);
        Ok(Self { event, overlapped })
    }

    /// For the call that begins it. If that call says that the request is under way,
    /// [`OwnRequest::finish`] must follow.
    pub(crate) fn overlapped(&mut self) -> *mut OVERLAPPED {
        &raw mut self.overlapped
    }

    /// The event that is set when it is complete, for a system call.
    pub(crate) fn event(&self) -> HANDLE {
        self.event.as_raw_handle()
    }

    /// Waits until the request is complete; after so many milliseconds it is cancelled. Returns how
    /// many bytes were moved.
    ///
    /// # Errors
    /// What the request has ended with.
    ///
    /// # Safety
    /// The request is under way on this handle, which is open.
    pub(crate) unsafe fn finish(&mut self, handle: HANDLE, longest_ms: u32) -> io::Result<u32> {
        let mut count = 0;
        // SAFETY: as the caller promises.
        let is_done = unsafe {
            if WaitForSingleObject(self.event.as_raw_handle(), longest_ms) != WAIT_OBJECT_0 {
                CancelIoEx(handle, self.overlapped());
            }
            GetOverlappedResult(handle, self.overlapped(), &raw mut count, 1) != 0
        };
        if is_done { Ok(count) } else { Err(io::Error::last_os_error()) }
    }
}
