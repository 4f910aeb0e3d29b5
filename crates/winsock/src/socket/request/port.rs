//! The completion port of a handle, and posting to it.

use crate::hook::ntdll;
use crate::real::Handle;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use windows_sys::Win32::Foundation::NTSTATUS;

/// `FILE_COMPLETION_INFORMATION`: what a program passes to give a handle a port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CompletionInformation {
    /// The port; 0: none any more.
    pub(crate) port: Handle,
    /// What comes with each completion of the handle.
    pub(crate) key: usize,
}

/// A completion port, as a handle has it.
#[derive(Debug)]
pub(crate) struct CompletionPort {
    port: OwnedHandle,
    key: usize,
}

/// How many completions this library has posted.
static POSTED: AtomicU64 = AtomicU64::new(0);

impl CompletionPort {
    /// The port of a handle, which has just got it. The kernel keeps a port for as long as a handle
    /// has it; so does this value, by a handle of its own.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub(crate) fn new(information: CompletionInformation) -> io::Result<Arc<Self>> {
        let port = std::ptr::with_exposed_provenance_mut(information.port);
        // SAFETY: the kernel has just accepted the program's handle. If the program closes it in
        // the meantime, copying fails, or this is another object of the program's own.
        let port = unsafe { BorrowedHandle::borrow_raw(port) }.try_clone_to_owned()?;
        Ok(Arc::new(Self { port, key: information.key }))
    }

    /// Posts a completion.
    pub(crate) fn post(&self, context: usize, status: NTSTATUS, bytes: usize) {
        // SAFETY: a port that is open; the context is only a number.
        unsafe {
            ntdll::NT_SET_IO_COMPLETION.get()(self.port.as_raw_handle(), self.key, context, status, bytes);
        }
        POSTED.fetch_add(1, Relaxed);
    }
}

/// Changes when this library posts a completion.
pub(crate) fn posted() -> u64 {
    POSTED.load(Relaxed)
}
