//! Reading, writing and closing by the system calls for files, which a socket's handle is, too:
//! `ReadFile`, `WriteFile`, `CloseHandle`.

use super::making::closed;
use crate::hook::boundary::{WinsockError, answer_or, caught};
use crate::hook::{ntdll, reentrancy};
use crate::lane::{Lane, Waited, exit_gate, lane, lane_if_begun};
use crate::socket::request::receive::{Receive, SenderPlace};
use crate::socket::request::send::{Piece, Send};
use crate::socket::request::{Begun, Parts, Request, Work, file_modes, port, status};
use crate::socket::{ReceiveFlags, Socket, State, poll, table};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, STATUS_INVALID_HANDLE, STATUS_PENDING};
use windows_sys::Win32::Networking::WinSock::WSABUF;
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

/// What a system call moves, and how it tells of its end.
#[derive(Clone, Copy)]
struct Call {
    file: HANDLE,
    event: HANDLE,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    buffer: WSABUF,
}

/// The socket of a handle, if it can send and receive on the lane. (What Winsock itself does with a
/// file is for the kernel's half.)
fn on_lane(file: HANDLE) -> Option<Arc<Socket>> {
    let known = table::get(file.addr()).filter(|_| !reentrancy::is_in_original())?;
    matches!(known.state(), State::Udp { .. } | State::Tcp { .. }).then_some(known)
}

pub(super) unsafe extern "system" fn nt_read_file(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    buffer: *mut c_void,
    len: u32,
    offset: *const i64,
    key: *const u32,
) -> NTSTATUS {
    // SAFETY: the caller's arguments, unchanged.
    let original =
        || unsafe { ntdll::NT_READ_FILE.get()(file, event, routine, context, status, buffer, len, offset, key) };
    if !routine.is_null() || status.is_null() {
        return original();
    }
    let Some(known) = on_lane(file) else { return original() };
    let call = Call { file, event, context, status, buffer: WSABUF { len, buf: buffer.cast() } };
    // SAFETY: the caller's arguments.
    let parts = |call: &Call| unsafe { Parts::new(&raw const call.buffer, 1) };
    let receive = || {
        if known.is_receive_shut() {
            return Err(WinsockError::SHUT);
        }
        let sender = SenderPlace::Name { name: null_mut(), len: null_mut() };
        let parts = parts(&call)?;
        parts.check_writable()?;
        Ok(Work::Receive(Receive { parts, flags: ReceiveFlags::default(), sender }))
    };
    // SAFETY: the caller's arguments.
    answer_or(STATUS_INVALID_HANDLE, || unsafe { gated(&known, call, receive) }, original)
}

pub(super) unsafe extern "system" fn nt_write_file(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    buffer: *const c_void,
    len: u32,
    offset: *const i64,
    key: *const u32,
) -> NTSTATUS {
    // SAFETY: the caller's arguments, unchanged.
    let original =
        || unsafe { ntdll::NT_WRITE_FILE.get()(file, event, routine, context, status, buffer, len, offset, key) };
    if !routine.is_null() || status.is_null() {
        return original();
    }
    let Some(known) = on_lane(file) else { return original() };
    let call = Call { file, event, context, status, buffer: WSABUF { len, buf: buffer.cast_mut().cast() } };
    let send = || {
        // SAFETY: the caller's arguments.
        let parts = unsafe { Parts::new(&raw const call.buffer, 1) }?;
        Ok(Work::Send(Send::new([Piece::Memory(parts)], None, false)))
    };
    // SAFETY: the caller's arguments.
    answer_or(STATUS_INVALID_HANDLE, || unsafe { gated(&known, call, send) }, original)
}

/// As [`begin`]. While another thread ends the process, the call does not return.
///
/// # Safety
/// As the system call demands it.
unsafe fn gated(
    known: &Socket,
    call: Call,
    work: impl FnOnce() -> Result<Work, WinsockError>,
) -> Result<Option<NTSTATUS>, WinsockError> {
    // SAFETY: as the caller promises.
    let status = unsafe { begin(known, call, work) };
    exit_gate::pass();
    status
}

/// Begins a request. One that is not overlapped waits for its end here: the caller would wait for
/// the handle, which is the kernel's.
///
/// # Safety
/// As the system call demands it.
unsafe fn begin(
    known: &Socket,
    call: Call,
    work: impl FnOnce() -> Result<Work, WinsockError>,
) -> Result<Option<NTSTATUS>, WinsockError> {
    let Ok(lane) = lane() else { return Ok(None) };
    let work = match work() {
        Ok(work) => work,
        Err(error) => return Ok(Some(status::of_error(error))),
    };
    debug_assert_eq!(known.handle, call.file.addr());
    // Without a context nothing is posted.
    let event = call.event.addr() | usize::from(call.context.is_null());
    // SAFETY: as the caller promises.
    let request = unsafe { Request::begin_native(call.status, event, call.context.addr()) };
    let begun = known.begin_request(request, work, lane);
    lane.deliver();
    Ok(Some(match begun {
        Begun::Done(ended) | Begun::Failed(ended) => ended.status,
        Begun::Pending if call.event.is_null() && call.context.is_null() => {
            // SAFETY: as the caller promises; it is only read.
            let now = || unsafe { (&raw const (*call.status).Anonymous.Status).read_volatile() };
            if lane.wait(None, |_| (now() != STATUS_PENDING).then_some(())) == Waited::Lost {
                // What waits fails now, and does not use the caller's memory any more.
                known.advance();
            }
            // SAFETY: as the caller promises.
            unsafe { (*call.status).Anonymous.Status }
        }
        Begun::Pending => STATUS_PENDING,
    }))
}

/// A handle is closed. What is known of it is forgotten before: another one may have its number at
/// once.
pub(super) unsafe extern "system" fn nt_close(handle: HANDLE) -> NTSTATUS {
    // SAFETY: the caller's argument, unchanged.
    let original = || unsafe { ntdll::NT_CLOSE.get()(handle) };
    if (poll::is_any() || file_modes::is_any() || port::is_any()) && !reentrancy::is_inside() {
        let forget = || {
            poll::closing(handle.addr());
            file_modes::forget(handle.addr());
            port::closing(handle.addr());
        };
        caught((), forget);
    }
    if reentrancy::is_in_original() || table::get(handle.addr()).is_none() {
        return original();
    }
    let close = || {
        closed(handle.addr())?;
        lane_if_begun().into_iter().for_each(Lane::deliver);
        Ok(None)
    };
    answer_or(STATUS_INVALID_HANDLE, close, original)
}
