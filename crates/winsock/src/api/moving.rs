//! Sending and receiving.

use super::{call, call_waiting};
use crate::hook::boundary::{self, WinsockError};
use crate::hook::winsock;
use crate::names::{endpoint, put};
use crate::notice::record;
use crate::program_memory::{check_readable, check_writable};
use crate::socket::{Kind, ReceiveFlags, Received, Socket, kernel_polling, table};
use std::ptr::{null, null_mut};
use tickwire_stack::addr::{Endpoint, Family};
use windows_sys::Win32::Networking::WinSock::{MSG_OOB, MSG_PEEK, MSG_WAITALL, SOCKADDR, SOCKET, SOCKET_ERROR};

/// A program's bytes. Lengths below zero reach beyond all memory.
///
/// # Safety
/// So many bytes may be read there, and do not change during the call.
pub(super) unsafe fn bytes<'a>(data: *const u8, len: impl TryInto<usize>) -> Result<&'a [u8], WinsockError> {
    let len = len.try_into().map_err(|_| WinsockError::FAULT)?;
    check_readable(data, len)?;
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(WinsockError::FAULT),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// A program's buffer. Lengths below zero reach beyond all memory.
///
/// # Safety
/// So many bytes may be written there, and nothing else uses them during the call.
pub(super) unsafe fn buffer<'a>(data: *mut u8, len: impl TryInto<usize>) -> Result<&'a mut [u8], WinsockError> {
    let len = len.try_into().map_err(|_| WinsockError::FAULT)?;
    check_writable(data, len)?;
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(WinsockError::FAULT),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(data, len) }),
    }
}

/// What a program asks for when it receives.
pub(super) const fn receive_flags(flags: i32) -> ReceiveFlags {
    ReceiveFlags { is_peek: flags & MSG_PEEK != 0, is_all: flags & MSG_WAITALL != 0, is_urgent: flags & MSG_OOB != 0 }
}

pub(super) unsafe extern "system" fn send(socket: SOCKET, data: *const u8, len: i32, flags: i32) -> i32 {
    // SAFETY: the caller's arguments; no name.
    call(
        SOCKET_ERROR,
        || unsafe { send_ours(socket, data, len, flags, null(), 0) },
        || unsafe { winsock::SEND.get()(socket, data, len, flags) },
    )
}

pub(super) unsafe extern "system" fn send_to(
    socket: SOCKET,
    data: *const u8,
    len: i32,
    flags: i32,
    name: *const SOCKADDR,
    name_len: i32,
) -> i32 {
    // SAFETY: the caller's arguments.
    call(
        SOCKET_ERROR,
        || unsafe { send_ours(socket, data, len, flags, name, name_len) },
        || unsafe { winsock::SEND_TO.get()(socket, data, len, flags, name, name_len) },
    )
}

/// Whether a destination is none that a datagram socket can send to.
pub(super) fn is_wrong(socket: &Socket, to: Option<Endpoint>, name: *const SOCKADDR) -> bool {
    let is_other = |to: Endpoint| socket.family == Family::V4 && to.address.family() != Family::V4;
    socket.kind == Kind::Datagram && !name.is_null() && to.is_none_or(is_other)
}

/// # Safety
/// As the documentation of `sendto` has it.
unsafe fn send_ours(
    socket: SOCKET,
    data: *const u8,
    len: i32,
    flags: i32,
    name: *const SOCKADDR,
    name_len: i32,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    // SAFETY: as the caller promises.
    let (data, to) = unsafe { (bytes(data, len)?, endpoint(name, name_len)) };
    if is_wrong(&known, to, name) {
        // The kernel says what is wrong.
        return Ok(None);
    }
    let sent = if flags & MSG_OOB != 0 { known.send_urgent(data) } else { known.send(data, to) };
    Ok(sent?.ours().map(|sent| sent as i32))
}

pub(super) unsafe extern "system" fn recv(socket: SOCKET, data: *mut u8, len: i32, flags: i32) -> i32 {
    // SAFETY: the caller's arguments; no room for a name.
    call_waiting(
        socket,
        SOCKET_ERROR,
        || unsafe { receive_ours(socket, data, len, flags, null_mut(), null_mut()) },
        || of_kernel(socket, unsafe { winsock::RECV.get()(socket, data, len, flags) }),
    )
}

pub(super) unsafe extern "system" fn recv_from(
    socket: SOCKET,
    data: *mut u8,
    len: i32,
    flags: i32,
    name: *mut SOCKADDR,
    name_len: *mut i32,
) -> i32 {
    // SAFETY: the caller's arguments.
    call_waiting(
        socket,
        SOCKET_ERROR,
        || unsafe { receive_ours(socket, data, len, flags, name, name_len) },
        || of_kernel(socket, unsafe { winsock::RECV_FROM.get()(socket, data, len, flags, name, name_len) }),
    )
}

/// The result of a call by which the kernel has received, perhaps for its half of a socket of the
/// lane.
pub(super) fn of_kernel(socket: SOCKET, result: i32) -> i32 {
    let after = || {
        let Some(known) = table::get(socket) else { return };
        if result >= 0 {
            kernel_polling::note_traffic();
        }
        if known.has_kernel_half() {
            known.enable_events(record::READ);
        }
    };
    boundary::caught((), after);
    result
}

/// # Safety
/// As the documentation of `recvfrom` has it.
unsafe fn receive_ours(
    socket: SOCKET,
    data: *mut u8,
    len: i32,
    flags: i32,
    name: *mut SOCKADDR,
    name_len: *mut i32,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    if !name.is_null() && name_len.is_null() {
        return Err(WinsockError::FAULT);
    }
    // SAFETY: as the caller promises.
    let buffer = unsafe { buffer(data, len)? };
    let Some(Received { length, from, is_cut }) = known.receive(buffer, receive_flags(flags))?.ours() else {
        return Ok(None);
    };
    if let Some(from) = from {
        // SAFETY: as the caller promises.
        unsafe { put((known.family, from), name, name_len) }?;
    }
    if is_cut { Err(WinsockError::MESSAGE_SIZE) } else { Ok(Some(length as i32)) }
}
