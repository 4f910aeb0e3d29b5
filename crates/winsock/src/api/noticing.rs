//! Network events: `WSAEventSelect`, `WSAEnumNetworkEvents`, `WSAAsyncSelect`.

use super::call;
use crate::hook::boundary::{WinsockError, caught};
use crate::hook::winsock;
use crate::notice::{Target, record};
use crate::socket::table;
use std::ptr::with_exposed_provenance_mut;
use windows_sys::Win32::Foundation::{HANDLE, HWND};
use windows_sys::Win32::Networking::WinSock::{SOCKET, SOCKET_ERROR, WSAEVENT, WSANETWORKEVENTS};
use windows_sys::Win32::System::Threading::ResetEvent;

/// An event object as Winsock has it, as a handle.
fn handle_of(event: WSAEVENT) -> HANDLE {
    with_exposed_provenance_mut(event.cast_unsigned())
}

/// Has a target told of events; of none, if the program asks for none.
fn ask(
    socket: SOCKET,
    events: i32,
    target: impl FnOnce() -> std::io::Result<Target>,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket).filter(|known| !known.is_kernels()) else { return Ok(None) };
    let target = if events == 0 { None } else { Some(target().map_err(|_| WinsockError::INVALID)?) };
    Ok(known.ask_for_events(target, events.cast_unsigned())?.ours().map(|()| 0))
}

/// The result of a call by which the kernel tells of events. It has the socket not block from then
/// on, which calls that poll it must know.
fn of_kernel(socket: SOCKET, result: i32) -> i32 {
    if result == 0 {
        caught((), || table::get(socket).iter().for_each(|known| known.set_nonblocking(true)));
    }
    result
}

pub(super) unsafe extern "system" fn wsa_event_select(socket: SOCKET, event: WSAEVENT, events: i32) -> i32 {
    let select = || ask(socket, events, || Target::event(handle_of(event)));
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe { winsock::WSA_EVENT_SELECT.get()(socket, event, events) };
    call(SOCKET_ERROR, select, || of_kernel(socket, original()))
}

pub(super) unsafe extern "system" fn wsa_async_select(socket: SOCKET, window: HWND, message: u32, events: i32) -> i32 {
    let select = || ask(socket, events, || Target::window(window, message));
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe { winsock::WSA_ASYNC_SELECT.get()(socket, window, message, events) };
    call(SOCKET_ERROR, select, || of_kernel(socket, original()))
}

pub(super) unsafe extern "system" fn wsa_enum_network_events(
    socket: SOCKET,
    event: WSAEVENT,
    told: *mut WSANETWORKEVENTS,
) -> i32 {
    let enumerate = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        if told.is_null() {
            return Err(WinsockError::FAULT);
        }
        let reset = || {
            if event != 0 {
                // SAFETY: no memory is passed. What is no event is refused.
                unsafe { ResetEvent(handle_of(event)) };
            }
        };
        let Some((events, errors)) = known.take_events(reset) else { return Ok(None) };
        const { assert!(record::MOST == windows_sys::Win32::Networking::WinSock::FD_MAX_EVENTS as usize) };
        // SAFETY: the caller's argument.
        unsafe { told.write(WSANETWORKEVENTS { lNetworkEvents: events.cast_signed(), iErrorCode: errors }) };
        Ok(Some(0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, enumerate, || unsafe { winsock::WSA_ENUM_NETWORK_EVENTS.get()(socket, event, told) })
}
