//! Standard input, output and error, for a new process.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// Copies of this process's standard handles that a new process inherits. One that this process
/// does not have is `None`.
#[derive(Debug)]
pub(super) struct StandardHandles([Option<OwnedHandle>; 3]);

impl StandardHandles {
    pub(super) fn copy() -> Self {
        Self([STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].map(|which| {
            // SAFETY: the call takes a number.
            inheritable(unsafe { GetStdHandle(which) })
        }))
    }

    /// Input, output and error.
    pub(super) fn raw(&self) -> [HANDLE; 3] {
        self.0.each_ref().map(|handle| handle.as_ref().map_or(null_mut(), AsRawHandle::as_raw_handle))
    }
}

fn inheritable(handle: HANDLE) -> Option<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return None;
    }
    let mut copy = null_mut();
    // SAFETY: this process, a handle of any kind, and a place for the result.
    let done = unsafe {
        let this = GetCurrentProcess();
        DuplicateHandle(this, handle, this, &raw mut copy, 0, 1, DUPLICATE_SAME_ACCESS)
    };
    // SAFETY: if it is done, the copy was just made and has no other owner.
    (done != 0).then(|| unsafe { OwnedHandle::from_raw_handle(copy) })
}
