//! Overlapped requests, as calls begin them and ask for their results.

use super::call;
use crate::hook::boundary::{WinsockError, answer_or};
use crate::hook::{ntdll, winsock};
use crate::lane::{Waited, exit_gate, lane, lane_if_begun};
use crate::socket::Socket;
use crate::socket::poll::{self, Which};
use crate::socket::request::{Begun, Request, Work, status};
use crate::socket::table;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{
    FALSE, HANDLE, NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_NOT_FOUND, STATUS_PENDING, STATUS_SUCCESS, TRUE,
};
use windows_sys::Win32::Networking::WinSock::{
    LPWSAOVERLAPPED_COMPLETION_ROUTINE, MSG_PARTIAL, SOCKET, WSA_IO_INCOMPLETE, WSA_IO_PENDING, WSAENOBUFS,
};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};
use windows_sys::Win32::System::Threading::{GetCurrentThreadId, INFINITE};
use windows_sys::core::BOOL;

/// Where a call puts the results of a request that is complete at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtOnce {
    /// How many bytes were moved; may be null.
    pub(super) bytes: *mut u32,
    /// `MSG_PARTIAL`; may be null.
    pub(super) flags: *mut u32,
}

/// Begins a request on a socket of the lane. The result is that of Winsock's calls.
///
/// # Safety
/// The structure and the request's memory are the program's, and are there until the request is
/// complete.
pub(super) unsafe fn begin(
    socket: &Socket,
    (overlapped, routine): (*mut OVERLAPPED, LPWSAOVERLAPPED_COMPLETION_ROUTINE),
    work: Work,
    at_once: AtOnce,
) -> Result<(), WinsockError> {
    let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
    if routine.is_some() && socket.has_port() {
        return Err(WinsockError::INVALID);
    }
    // SAFETY: as the caller promises.
    let request = unsafe { Request::begin(overlapped, routine) }.map_err(|_| WinsockError(WSAENOBUFS))?;
    let begun = socket.begin_request(request, work, lane);
    if let Begun::Done(ended) | Begun::Failed(ended) = begun {
        // SAFETY: as the caller promises.
        unsafe {
            if !at_once.bytes.is_null() {
                at_once.bytes.write(ended.bytes as u32);
            }
            if !at_once.flags.is_null() {
                at_once.flags.write(ended.flags);
            }
        }
    }
    match begun {
        Begun::Done(_) => Ok(()),
        Begun::Failed(ended) => Err(status::error(ended.status).unwrap_or(WinsockError::DEFECT)),
        Begun::Pending => Err(WinsockError(WSA_IO_PENDING)),
    }
}

/// The socket of a handle, if it is on the lane.
fn on_lane(handle: usize) -> Option<Arc<Socket>> {
    table::get(handle).filter(|socket| socket.on_lane().is_some())
}

/// The status of a request. When it is complete, the bytes have been written before.
///
/// # Safety
/// The structure is there.
unsafe fn status_of(request: *const OVERLAPPED) -> NTSTATUS {
    // SAFETY: as the caller promises; it is only read.
    let status = unsafe { AtomicUsize::from_ptr((&raw const (*request).Internal).cast_mut()) };
    status.load(Acquire) as NTSTATUS
}

/// Waits until a request on a socket of the lane is complete: polling at first.
///
/// # Safety
/// The structure is there.
unsafe fn wait(socket: &Socket, request: *const OVERLAPPED, timeout_ms: u32) -> bool {
    let Some(lane) = lane_if_begun() else { return false };
    let until = (timeout_ms != INFINITE).then(|| Instant::now() + Duration::from_millis(timeout_ms.into()));
    // SAFETY: as the caller promises.
    let is_complete = || unsafe { status_of(request) } != STATUS_PENDING;
    match lane.wait(until, |_| is_complete().then_some(())) {
        Waited::Done(()) => true,
        Waited::TimedOut => false,
        // What waits fails now: the original would wait for it without end.
        Waited::Lost => {
            socket.advance();
            is_complete()
        }
    }
}

pub(super) unsafe extern "system" fn wsa_get_overlapped_result(
    socket: SOCKET,
    request: *const OVERLAPPED,
    bytes: *mut u32,
    waits: BOOL,
    flags: *mut u32,
) -> BOOL {
    let result = || {
        let Some(known) = on_lane(socket) else { return Ok(None) };
        if request.is_null() || bytes.is_null() || flags.is_null() {
            return Err(WinsockError::FAULT);
        }
        // SAFETY: the caller's arguments.
        unsafe {
            if status_of(request) == STATUS_PENDING && !(waits != FALSE && wait(&known, request, INFINITE)) {
                return Err(WinsockError(WSA_IO_INCOMPLETE));
            }
            let ended = status_of(request);
            bytes.write((*request).InternalHigh as u32);
            flags.write(if ended == STATUS_BUFFER_OVERFLOW { MSG_PARTIAL } else { 0 });
            status::error(ended).map_or(Ok(Some(TRUE)), Err)
        }
    };
    // SAFETY: the caller's arguments, unchanged.
    call(FALSE, result, || unsafe { winsock::WSA_GET_OVERLAPPED_RESULT.get()(socket, request, bytes, waits, flags) })
}

/// Waits for a request on a socket of the lane, so that the original need not: it could not.
///
/// # Safety
/// As the documentation of `GetOverlappedResult` has it.
unsafe fn wait_first(file: HANDLE, request: *const OVERLAPPED, timeout_ms: u32) {
    if request.is_null() || timeout_ms == 0 {
        return;
    }
    let Some(known) = on_lane(file.addr()) else { return };
    // SAFETY: as the caller promises.
    unsafe {
        if status_of(request) == STATUS_PENDING {
            wait(&known, request, timeout_ms);
        }
    }
    exit_gate::pass();
}

pub(super) unsafe extern "system" fn get_overlapped_result(
    file: HANDLE,
    request: *const OVERLAPPED,
    bytes: *mut u32,
    waits: BOOL,
) -> BOOL {
    let first = || {
        // SAFETY: the caller's arguments.
        unsafe { wait_first(file, request, if waits == FALSE { 0 } else { INFINITE }) };
        Ok(None)
    };
    // SAFETY: the caller's arguments, unchanged.
    answer_or(FALSE, first, || unsafe { ntdll::GET_OVERLAPPED_RESULT.get()(file, request, bytes, waits) })
}

pub(super) unsafe extern "system" fn get_overlapped_result_ex(
    file: HANDLE,
    request: *const OVERLAPPED,
    bytes: *mut u32,
    timeout_ms: u32,
    is_alertable: BOOL,
) -> BOOL {
    let first = || {
        // A thread that is to run completion routines meanwhile waits in the original.
        if is_alertable == FALSE {
            // SAFETY: the caller's arguments.
            unsafe { wait_first(file, request, timeout_ms) };
        }
        Ok(None)
    };
    // SAFETY: the caller's arguments, unchanged.
    answer_or(FALSE, first, || unsafe {
        ntdll::GET_OVERLAPPED_RESULT_EX.get()(file, request, bytes, timeout_ms, is_alertable)
    })
}

/// What a call that cancels has to say: `None` if the kernel has the handle, or requests of it.
fn cancelled(file: HANDLE, is_it: impl Fn(&Request) -> bool, are_polls: bool) -> Option<bool> {
    Some(on_lane(file.addr())?.cancel(is_it) || are_polls)
}

pub(super) unsafe extern "system" fn nt_cancel_io_file(file: HANDLE, status: *mut IO_STATUS_BLOCK) -> NTSTATUS {
    // SAFETY: no memory is passed.
    let thread = unsafe { GetCurrentThreadId() };
    let ours = || {
        let are_polls = poll::cancel(file.addr(), Which::Thread(thread));
        Ok(cancelled(file, |request| request.thread() == thread, are_polls).map(|_| STATUS_SUCCESS))
    };
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe { ntdll::NT_CANCEL_IO_FILE.get()(file, status) };
    // SAFETY: the caller's place for the status.
    unsafe { cancel(ours, original, status) }
}

pub(super) unsafe extern "system" fn nt_cancel_io_file_ex(
    file: HANDLE,
    request: *const IO_STATUS_BLOCK,
    status: *mut IO_STATUS_BLOCK,
) -> NTSTATUS {
    let is_it = |own: &Request| request.is_null() || own.is(request.cast());
    let are_polls = Cell::new(false);
    let ours = || {
        let which = if request.is_null() { Which::All } else { Which::Request(request.addr()) };
        are_polls.set(poll::cancel(file.addr(), which));
        let is_any = match cancelled(file, is_it, are_polls.get()) {
            // It was this one, and there is no other.
            None if are_polls.get() && !request.is_null() => Some(true),
            is_any => is_any,
        };
        Ok(is_any.map(|is_any| if is_any { STATUS_SUCCESS } else { STATUS_NOT_FOUND }))
    };
    // SAFETY: the caller's arguments, unchanged.
    let original = || match unsafe { ntdll::NT_CANCEL_IO_FILE_EX.get()(file, request, status) } {
        STATUS_NOT_FOUND if are_polls.get() => STATUS_SUCCESS,
        outcome => outcome,
    };
    // SAFETY: the caller's place for the status.
    unsafe { cancel(ours, original, status) }
}

/// # Safety
/// The status may be written, or is null.
unsafe fn cancel(
    ours: impl FnOnce() -> Result<Option<NTSTATUS>, WinsockError>,
    original: impl FnOnce() -> NTSTATUS,
    status: *mut IO_STATUS_BLOCK,
) -> NTSTATUS {
    let mut is_ours = false;
    let outcome = answer_or(STATUS_NOT_FOUND, || ours().inspect(|outcome| is_ours = outcome.is_some()), original);
    if is_ours && !status.is_null() {
        // SAFETY: as the caller promises.
        unsafe {
            (*status).Anonymous.Status = outcome;
            (*status).Information = 0;
        }
    }
    outcome
}
