//! `AcceptEx`, `GetAcceptExSockaddrs`, `ConnectEx`, `DisconnectEx`.

use super::call;
use super::overlapped::{AtOnce, begin};
use crate::extensions::{
    ACCEPT_EX, CONNECT_EX, DISCONNECT_EX, EXPORTED_GET_ACCEPT_EX_SOCKADDRS, GET_ACCEPT_EX_SOCKADDRS,
};
use crate::hook::boundary::{WinsockError, caught};
use crate::names::endpoint;
use crate::program_memory::check_writable;
use crate::real;
use crate::socket::request::accept::{Accept, AcceptPlace, written_address};
use crate::socket::request::connect::Connect;
use crate::socket::request::send::{Piece, Send};
use crate::socket::request::{Parts, Work};
use crate::socket::table;
use crate::socket::{Kind, Socket, State};
use std::ffi::c_void;
use std::ptr::null_mut;
use tickwire_lane::control::Reason;
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKET, TF_REUSE_SOCKET};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::core::BOOL;

/// Why the kernel has a listener, and will have what is accepted of it; `None` if it has none. One
/// that is not known here comes from another process.
fn reason_of_kernel(listener: Option<&Socket>) -> Option<Reason> {
    match listener.map(Socket::state) {
        None => Some(Reason::Passed),
        Some(State::Kernel { reason, .. }) => Some(reason),
        Some(_) => None,
    }
}

pub(super) unsafe extern "system" fn accept_ex(
    listener: SOCKET,
    socket: SOCKET,
    buffer: *mut c_void,
    receive_len: u32,
    local_len: u32,
    remote_len: u32,
    received: *mut u32,
    overlapped: *mut OVERLAPPED,
) -> BOOL {
    let place = AcceptPlace {
        buffer: buffer.cast(),
        receive_len: receive_len as usize,
        local_len: local_len as usize,
        remote_len: remote_len as usize,
    };
    let ours = || {
        let known = table::get(listener);
        if let Some(reason) = reason_of_kernel(known.as_deref()) {
            table::get(socket).map(|accepting| accepting.leave_lane(reason));
            return Ok(None);
        }
        let Some(known) = known.filter(|known| matches!(known.state(), State::Listener { .. })) else {
            return Ok(None);
        };
        if overlapped.is_null() {
            return Ok(None);
        }
        match table::get(socket) {
            Some(accepting) if accepting.kind == Kind::Stream && matches!(accepting.state(), State::Idle) => {
                accepting.accept_of(listener);
            }
            Some(_) => return Err(WinsockError::INVALID),
            None => return Err(WinsockError::NOT_A_SOCKET),
        }
        // Each address needs 16 bytes more than it is long.
        let least = sockaddr::size(known.family) + 16;
        if place.local_len < least || place.remote_len < least {
            return Err(WinsockError::INVALID);
        }
        // Of a buffer for much data all of it is not looked at: the addresses lie at its end.
        let addresses = buffer.cast::<u8>().wrapping_add(place.receive_len);
        check_writable(buffer, place.receive_len)?;
        check_writable(addresses, place.local_len.saturating_add(place.remote_len))?;
        let work = Work::Accept(Accept::new(socket, place));
        // SAFETY: the caller's arguments.
        unsafe { begin(&known, (overlapped, None), work, AtOnce { bytes: received, flags: null_mut() }) }
            .map(|()| Some(TRUE))
    };
    call(FALSE, ours, || match ACCEPT_EX.real(listener) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe {
            original(listener, socket, buffer, receive_len, local_len, remote_len, received, overlapped)
        },
        None => FALSE,
    })
}

pub(super) unsafe extern "system" fn get_accept_ex_sockaddrs(
    buffer: *mut c_void,
    receive_len: u32,
    local_len: u32,
    remote_len: u32,
    local: *mut *mut SOCKADDR,
    local_size: *mut i32,
    remote: *mut *mut SOCKADDR,
    remote_size: *mut i32,
) {
    let places =
        [(receive_len, local_len, local, local_size), (receive_len + local_len, remote_len, remote, remote_size)];
    // SAFETY: the caller's buffer, which is as long as it says, and its places for the results.
    let is_ours = caught(false, || unsafe {
        places.into_iter().all(|(offset, room, at, size)| {
            let Some((address, len)) =
                written_address(buffer.cast::<u8>().wrapping_add(offset as usize), room as usize)
            else {
                return false;
            };
            if !at.is_null() && !size.is_null() {
                at.write(address.cast());
                size.write(len);
            }
            true
        })
    });
    let original = || GET_ACCEPT_EX_SOCKADDRS.known().or_else(|| EXPORTED_GET_ACCEPT_EX_SOCKADDRS.if_loaded());
    if !is_ours && let Some(original) = original() {
        // SAFETY: the caller's arguments, unchanged.
        unsafe { original(buffer, receive_len, local_len, remote_len, local, local_size, remote, remote_size) };
    }
}

pub(super) unsafe extern "system" fn connect_ex(
    socket: SOCKET,
    name: *const SOCKADDR,
    name_len: i32,
    data: *mut u8,
    len: u32,
    sent: *mut u32,
    overlapped: *mut OVERLAPPED,
) -> BOOL {
    let ours = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        // SAFETY: the caller's arguments.
        let Some(remote) = (unsafe { endpoint(name, name_len) }) else { return Ok(None) };
        // (A socket that is not bound is refused by the original.)
        if overlapped.is_null() || known.kind != Kind::Stream || real::name(socket)?.port == 0 {
            return Ok(None);
        }
        // SAFETY: the caller's arguments.
        let first = unsafe { Parts::one_to_send(data, if data.is_null() { 0 } else { len }) }?;
        if known.start_connection(remote)?.ours().is_none() {
            return Ok(None);
        }
        // SAFETY: the caller's arguments.
        unsafe {
            let pieces = [Piece::Memory(first)];
            let work = Work::Connect(Connect { first: Send::new(pieces, None, false) });
            begin(&known, (overlapped, None), work, AtOnce { bytes: sent, flags: null_mut() }).map(|()| Some(TRUE))
        }
    };
    call(FALSE, ours, || match CONNECT_EX.real(socket) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe { original(socket, name, name_len, data, len, sent, overlapped) },
        None => FALSE,
    })
}

pub(super) unsafe extern "system" fn disconnect_ex(
    socket: SOCKET,
    overlapped: *mut OVERLAPPED,
    flags: u32,
    reserved: u32,
) -> BOOL {
    let ours = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        if !matches!(known.state(), State::Tcp { .. }) {
            return Ok(None);
        }
        known.disconnect(flags & TF_REUSE_SOCKET != 0)?;
        if overlapped.is_null() {
            return Ok(Some(TRUE));
        }
        let at_once = AtOnce { bytes: null_mut(), flags: null_mut() };
        // SAFETY: the caller's arguments.
        unsafe { begin(&known, (overlapped, None), Work::Nothing, at_once) }.map(|()| Some(TRUE))
    };
    call(FALSE, ours, || match DISCONNECT_EX.real(socket) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe { original(socket, overlapped, flags, reserved) },
        None => FALSE,
    })
}
