//! Telling the program that a request is complete: in its `OVERLAPPED`, and by what it has named
//! there: an event, the handle's completion port, or a completion routine.

use super::port::CompletionPort;
use super::status;
use crate::hook::reentrancy;
use crate::lane::exit_gate;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Release;
use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, NTSTATUS, STATUS_PENDING};
use windows_sys::Win32::Networking::WinSock::LPWSAOVERLAPPED_COMPLETION_ROUTINE;
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetCurrentThreadId, QueueUserAPC, ResetEvent, SetEvent,
};

/// What a program's completion routine is.
type RoutineFn = unsafe extern "system" fn(error: u32, bytes: u32, request: *mut OVERLAPPED, flags: u32);

/// A completion routine, and the thread that is to run it.
#[derive(Debug)]
struct Routine {
    function: RoutineFn,
    thread: OwnedHandle,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// An NTSTATUS.
    pub(crate) status: NTSTATUS,
    /// How many bytes were moved.
    pub(crate) bytes: usize,
    /// `MSG_PARTIAL`, of a request that receives.
    pub(crate) flags: u32,
}

/// How a handle tells of its completions.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandleMode {
    /// Its port.
    pub(crate) port: Option<Arc<CompletionPort>>,
    /// Requests that succeed at once are not posted (`FILE_SKIP_COMPLETION_PORT_ON_SUCCESS`).
    pub(crate) skips_success: bool,
}

/// A request of the program that is not complete.
#[derive(Debug)]
pub(crate) struct Request {
    overlapped: *mut OVERLAPPED,
    /// What is posted to the port.
    context: usize,
    /// The program's event. Its lowest bit: nothing is to be posted to the port.
    event: usize,
    routine: Option<Routine>,
    thread: u32,
}

// SAFETY: the `OVERLAPPED` is the program's, which does not use it until the request is complete;
// any thread of its process can access it.
unsafe impl Send for Request {}

impl Request {
    /// Begins a request.
    ///
    /// # Errors
    /// If the process has too many handles.
    ///
    /// # Safety
    /// The structure is there until the request is complete, and nothing else changes it.
    pub(crate) unsafe fn begin(
        overlapped: *mut OVERLAPPED,
        routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
    ) -> io::Result<Self> {
        let routine = match routine {
            Some(function) => Some(Routine { function, thread: current_thread()? }),
            None => None,
        };
        // SAFETY: as the caller promises.
        let event = unsafe { (*overlapped).hEvent.addr() };
        // SAFETY: as the caller promises.
        let request = unsafe { Self::begin_native(overlapped.cast(), event, overlapped.addr()) };
        Ok(Self { routine, ..request })
    }

    /// Begins a request as a system call has it: with a status block, an event (its lowest bit:
    /// nothing is posted), and what is posted to the port.
    ///
    /// # Safety
    /// As for [`Request::begin`], for the status block.
    pub(crate) unsafe fn begin_native(block: *mut IO_STATUS_BLOCK, event: usize, context: usize) -> Self {
        // A status block is what an `OVERLAPPED` begins with. Nothing else of that is touched.
        let overlapped = block.cast::<OVERLAPPED>();
        // SAFETY: as the caller promises.
        unsafe {
            (&raw mut (*overlapped).InternalHigh).write(0);
            (&raw mut (*overlapped).Internal).write(STATUS_PENDING as usize);
        }
        if !event_of(event).is_null() {
            // SAFETY: the program's event; if it is none, nothing happens.
            unsafe { ResetEvent(event_of(event)) };
        }
        // SAFETY: no memory is passed.
        let thread = unsafe { GetCurrentThreadId() };
        Self { overlapped, context, event, routine: None, thread }
    }

    /// Whether it is the one of this structure.
    pub(crate) fn is(&self, overlapped: *const OVERLAPPED) -> bool {
        std::ptr::eq(self.overlapped, overlapped)
    }

    /// The address of its structure.
    pub(crate) fn address(&self) -> usize {
        self.overlapped.addr()
    }

    /// The thread that has begun it.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// The call that has begun it tells the program that it has failed.
    pub(crate) fn fail(self, ended: Ended) {
        // SAFETY: as `begin` demands.
        unsafe {
            (&raw mut (*self.overlapped).InternalHigh).write(ended.bytes);
            AtomicUsize::from_ptr(&raw mut (*self.overlapped).Internal).store(ended.status as usize, Release);
        }
    }

    /// Tells the program that it is complete. `is_at_once`: the call that has begun it returns that
    /// to the program, too.
    pub(crate) fn complete(self, ended: Ended, mode: &HandleMode, is_at_once: bool) {
        let Self { overlapped, context, event, routine, .. } = self;
        // SAFETY: as `begin` demands. From the moment at which the status is there the structure is
        // the program's again.
        unsafe {
            (&raw mut (*overlapped).InternalHigh).write(ended.bytes);
            AtomicUsize::from_ptr(&raw mut (*overlapped).Internal).store(ended.status as usize, Release);
        }
        if let Some(routine) = routine {
            routine.queue(ended, overlapped);
            return;
        }
        if !event_of(event).is_null() {
            // SAFETY: the program's event; if it is none, nothing happens.
            unsafe { SetEvent(event_of(event)) };
        }
        let is_skipped = event & 1 != 0 || is_at_once && mode.skips_success && ended.status >= 0;
        if let (Some(port), false) = (&mode.port, is_skipped) {
            port.post(context, ended.status, ended.bytes);
        }
    }
}

fn event_of(event: usize) -> HANDLE {
    std::ptr::with_exposed_provenance_mut(event & !1)
}

/// What the routine of a request gets.
struct RoutineCall {
    function: RoutineFn,
    error: u32,
    bytes: u32,
    overlapped: *mut OVERLAPPED,
    flags: u32,
}

impl Routine {
    /// Has the thread call the routine when it waits for that.
    fn queue(self, ended: Ended, overlapped: *mut OVERLAPPED) {
        let error = status::error(ended.status).map_or(0, |error| error.0.cast_unsigned());
        let call = RoutineCall {
            function: self.function,
            error,
            bytes: u32::try_from(ended.bytes).unwrap_or(u32::MAX),
            overlapped,
            flags: ended.flags,
        };
        let call = Box::into_raw(Box::new(call));
        // SAFETY: an open thread; the function takes the box.
        let is_queued = unsafe { QueueUserAPC(Some(run), self.thread.as_raw_handle(), call.expose_provenance()) };
        if is_queued == 0 {
            // The thread has ended. SAFETY: the box, which nothing else has.
            drop(unsafe { Box::from_raw(call) });
        }
    }
}

/// Runs a completion routine, on the thread that has begun the request.
unsafe extern "system" fn run(call: usize) {
    // SAFETY: the box that was passed, once.
    let call = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<RoutineCall>(call)) };
    // The request may have been cancelled because the process ends.
    exit_gate::pass();
    // SAFETY: the program's function, with what belongs to its request.
    reentrancy::outside(|| unsafe { (call.function)(call.error, call.bytes, call.overlapped, call.flags) });
}

/// A handle of the calling thread.
fn current_thread() -> io::Result<OwnedHandle> {
    let mut handle = null_mut();
    // SAFETY: pseudo handles, and room for the result.
    let copied = unsafe {
        DuplicateHandle(
            GetCurrentProcess(),
            GetCurrentThread(),
            GetCurrentProcess(),
            &raw mut handle,
            0,
            0,
            DUPLICATE_SAME_ACCESS,
        )
    };
    if copied == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new handle.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}
