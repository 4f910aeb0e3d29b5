//! The process at the other end of a connection: pulling handles out of it, and putting handles
//! into it.

use super::handles::HandleGrant;
use super::sys::{handle_value, wait};
use crate::sys::own;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;
use windows_sys::Win32::Foundation::{DUPLICATE_CLOSE_SOURCE, DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE};
use windows_sys::Win32::System::Pipes::GetNamedPipeClientProcessId;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, PROCESS_DUP_HANDLE, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
};

/// A client's process. No other process gets its number while this exists.
#[derive(Debug)]
pub(super) struct ClientProcess {
    handle: Arc<OwnedHandle>,
    id: u32,
}

/// The number of the process that opened the client's end of a pipe.
pub(super) fn client_of(pipe: BorrowedHandle<'_>) -> io::Result<u32> {
    let mut id = 0;
    // SAFETY: an open pipe, and a place for the result.
    let done = unsafe { GetNamedPipeClientProcessId(pipe.as_raw_handle(), &raw mut id) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

impl ClientProcess {
    /// Opens the process of this number.
    pub(super) fn open(id: u32) -> io::Result<Self> {
        let access = PROCESS_DUP_HANDLE | PROCESS_SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION;
        // SAFETY: the call takes numbers only.
        let handle = unsafe { OpenProcess(access, 0, id) };
        // SAFETY: the result of that call.
        let handle = Arc::new(unsafe { own(handle) }?);
        if wait((*handle).as_handle(), Duration::ZERO)? {
            return Err(io::Error::other("it has ended"));
        }
        Ok(Self { handle, id })
    }

    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn handle(&self) -> BorrowedHandle<'_> {
        (*self.handle).as_handle()
    }

    /// Copies the client's handle of this value into the service, with the same rights.
    pub(super) fn pull(&self, value: u64) -> io::Result<OwnedHandle> {
        let theirs = handle_value(value).ok_or_else(|| io::Error::other("no handle has such a value"))?;
        let mut ours = null_mut();
        // SAFETY: two processes, a value of any kind, and a place for the result.
        let done = unsafe {
            DuplicateHandle(
                self.handle.as_raw_handle(),
                theirs,
                GetCurrentProcess(),
                &raw mut ours,
                0,
                0,
                DUPLICATE_SAME_ACCESS,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the result of that call.
        unsafe { own(ours) }
    }

    /// Copies a handle of the service's into the client.
    pub(super) fn put(&self, grant: HandleGrant<'_>) -> io::Result<RemoteHandle> {
        let mut theirs: HANDLE = null_mut();
        let options = if grant.access.is_some() { 0 } else { DUPLICATE_SAME_ACCESS };
        // SAFETY: two processes, an open handle, and a place for the result.
        let done = unsafe {
            DuplicateHandle(
                GetCurrentProcess(),
                grant.handle.as_raw_handle(),
                self.handle.as_raw_handle(),
                &raw mut theirs,
                grant.access.unwrap_or(0),
                0,
                options,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(RemoteHandle { process: Arc::clone(&self.handle), value: theirs as usize })
    }
}

/// A handle in a client's process of which the client does not know yet. It is closed there, unless
/// it is [left to the client](RemoteHandle::leave).
#[derive(Debug)]
pub(super) struct RemoteHandle {
    process: Arc<OwnedHandle>,
    /// Null once the client owns it.
    value: usize,
}

impl RemoteHandle {
    /// Its value there.
    pub(super) const fn value(&self) -> u64 {
        self.value as u64
    }

    /// The client has its value, and owns it.
    pub(super) fn leave(mut self) {
        self.value = 0;
    }
}

impl Drop for RemoteHandle {
    fn drop(&mut self) {
        if self.value == 0 {
            return;
        }
        // If the process has ended, so has the handle.
        // SAFETY: the handle is one that the service has made there, and nothing else knows it.
        unsafe {
            DuplicateHandle(
                self.process.as_raw_handle(),
                self.value as HANDLE,
                null_mut(),
                null_mut(),
                0,
                0,
                DUPLICATE_CLOSE_SOURCE,
            )
        };
    }
}
