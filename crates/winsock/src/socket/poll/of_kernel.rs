//! The kernel's part of a poll: sockets that only the kernel has. It polls them by a request of
//! this library's own, for which nothing is posted.

use super::layout::{PollInput, PollRecord};
use crate::hook::ntdll;
use crate::own_request::OwnRequest;
use crate::real::Handle;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, STATUS_INVALID_HANDLE, STATUS_PENDING};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, IO_STATUS_BLOCK_0};

/// `IOCTL_AFD_POLL`.
pub(crate) const POLL: u32 = 0x12024;

/// So long a poll may take that does not wait.
const AT_ONCE_MS: u32 = 100;

/// A poll that the kernel has under way. It is kept where it is until it [`has_ended`].
///
/// [`has_ended`]: KernelPoll::has_ended
#[derive(Debug)]
pub(super) struct KernelPoll {
    file: Handle,
    handles: Vec<Handle>,
    memory: *mut KernelMemory,
}

// SAFETY: the memory is this value's and the kernel's, and belongs to no thread.
unsafe impl Send for KernelPoll {}

/// What the kernel writes to while a poll is under way.
struct KernelMemory {
    status: IO_STATUS_BLOCK,
    records: Vec<u8>,
}

fn pending() -> IO_STATUS_BLOCK {
    IO_STATUS_BLOCK { Anonymous: IO_STATUS_BLOCK_0 { Status: STATUS_PENDING }, Information: 0 }
}

/// A handle of the driver by which these sockets are polled: any will do.
fn file_of(records: &[PollRecord]) -> Result<Handle, NTSTATUS> {
    records.first().map(|record| record.handle).ok_or(STATUS_INVALID_HANDLE)
}

/// Polls.
///
/// # Safety
/// The status block and the records are there, and left alone, until the request has ended.
unsafe fn poll(file: Handle, event: HANDLE, status: *mut IO_STATUS_BLOCK, records: *mut u8, len: usize) -> NTSTATUS {
    // SAFETY: as the caller promises. Nothing is posted for a request without a context.
    unsafe {
        ntdll::NT_DEVICE_IO_CONTROL_FILE.get()(
            std::ptr::with_exposed_provenance_mut(file),
            event,
            null(),
            null_mut(),
            status,
            POLL,
            records.cast(),
            len as u32,
            records.cast(),
            len as u32,
        )
    }
}

/// Which of these sockets are ready now.
///
/// # Errors
/// The status by which the kernel refuses one.
pub(super) fn ready_now(records: Vec<PollRecord>) -> Result<Vec<PollRecord>, NTSTATUS> {
    let file = file_of(&records)?;
    let input = PollInput::own(0, records);
    let mut bytes = input.output(&input.records);
    let mut request = OwnRequest::new(0).map_err(|_| STATUS_INVALID_HANDLE)?;
    let (overlapped, event) = (request.overlapped(), request.event());
    // SAFETY: an `OVERLAPPED` begins with a status block. The request has ended when this returns.
    unsafe {
        let status = poll(file, event, overlapped.cast(), bytes.as_mut_ptr(), bytes.len());
        if status == STATUS_PENDING {
            let file = std::ptr::with_exposed_provenance_mut(file);
            // Without an answer nothing is known to be ready: the output is still the input.
            if request.finish(file, AT_ONCE_MS).is_err() {
                return Ok(Vec::new());
            }
        } else if status < 0 {
            return Err(status);
        }
    }
    Ok(read(&bytes))
}

/// What the kernel has found.
fn read(bytes: &[u8]) -> Vec<PollRecord> {
    PollInput::read(bytes, bytes.len()).map_or_else(Vec::new, |output| output.records)
}

impl KernelPoll {
    /// Has the kernel set an event when one of these sockets is ready. The thread that calls this
    /// must not end before.
    ///
    /// # Errors
    /// The status by which the kernel refuses one.
    pub(super) fn start(records: Vec<PollRecord>, event: BorrowedHandle<'_>) -> Result<Self, NTSTATUS> {
        let file = file_of(&records)?;
        let handles = records.iter().map(|record| record.handle).collect();
        let input = PollInput::own(i64::MAX, records);
        let records = input.output(&input.records);
        let memory = Box::into_raw(Box::new(KernelMemory { status: pending(), records }));
        let begun = Self { file, handles, memory };
        // SAFETY: memory that lives until the request has ended. The event is open now, and the
        // kernel refers to it from then on.
        let status = unsafe {
            let records = &mut (*memory).records;
            poll(file, event.as_raw_handle(), &raw mut (*memory).status, records.as_mut_ptr(), records.len())
        };
        if status < 0 {
            // SAFETY: the kernel has not begun.
            unsafe { (*memory).status.Anonymous.Status = status };
            return Err(status);
        }
        Ok(begun)
    }

    /// Whether it polls this socket.
    pub(super) fn has(&self, handle: Handle) -> bool {
        self.handles.contains(&handle)
    }

    /// How it has ended; `None`: it has not.
    fn status(&self) -> Option<NTSTATUS> {
        // SAFETY: memory that lives as long as `self`. The kernel writes this word last.
        let status = unsafe { AtomicU32::from_ptr((&raw mut (*self.memory).status.Anonymous.Status).cast()) };
        let status = status.load(Acquire).cast_signed();
        (status != STATUS_PENDING).then_some(status)
    }

    /// Whether the kernel is done with its memory.
    pub(super) fn has_ended(&self) -> bool {
        self.status().is_some()
    }

    /// What it has found; `None`: it is under way.
    ///
    /// # Errors
    /// The status by which it has failed.
    pub(super) fn found(&self) -> Option<Result<Vec<PollRecord>, NTSTATUS>> {
        let status = self.status()?;
        if status < 0 {
            return Some(Err(status));
        }
        // SAFETY: the kernel is done with it.
        let records = unsafe { &(*self.memory).records };
        Some(Ok(read(records)))
    }

    /// Asks the kernel to end it, if it has not ended.
    pub(super) fn cancel(&self) {
        let mut outcome = pending();
        let file = std::ptr::with_exposed_provenance_mut(self.file);
        // SAFETY: the status block of the request, and room for the outcome. If the handle has been
        // closed, the request has been ended.
        unsafe { ntdll::NT_CANCEL_IO_FILE_EX.get()(file, &raw const (*self.memory).status, &raw mut outcome) };
    }
}

impl Drop for KernelPoll {
    fn drop(&mut self) {
        // While the kernel may write to it, the memory is left to it.
        if self.has_ended() {
            // SAFETY: the box of `start`, which nothing else refers to.
            drop(unsafe { Box::from_raw(self.memory) });
        }
    }
}
