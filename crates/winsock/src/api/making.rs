//! Making, opening and closing sockets.

use super::{call, call_waiting};
use crate::hook::boundary::{self, WinsockError};
use crate::hook::winsock;
use crate::names::{endpoint, put};
use crate::notice::record;
use crate::real::{self, Kind};
use crate::socket::{Handled, Socket, State, kernel_polling, poll, table};
use tickwire_lane::control::Reason;
use tickwire_stack::tcp::Shutdown;
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{
    AF_UNSPEC, INVALID_SOCKET, SD_BOTH, SD_RECEIVE, SD_SEND, SOCK_DGRAM, SOCK_STREAM, SOCKADDR, SOCKET, SOCKET_ERROR,
    WSAEOPNOTSUPP, WSAPROTOCOL_INFOA, WSAPROTOCOL_INFOW,
};

/// Notes a socket that the kernel has made, if it is one of TCP or UDP.
fn note(made: SOCKET, family: i32, kind: i32) -> SOCKET {
    let family = u16::try_from(family).ok().and_then(sockaddr::family);
    let kind = match kind {
        SOCK_STREAM => Some(Kind::Stream),
        SOCK_DGRAM => Some(Kind::Datagram),
        _ => None,
    };
    if let (Some(family), Some(kind)) = (family, kind)
        && made != INVALID_SOCKET
        && !crate::hook::reentrancy::is_inside()
    {
        boundary::caught((), || know(Socket::new(made, family, kind)));
    }
    made
}

/// A handle is this socket from now on. If another one had it, that was closed by a way that is not
/// known here (`DUPLICATE_CLOSE_SOURCE`): what the lane has of it ends.
fn know(socket: Socket) {
    let handle = socket.handle;
    if let Some(before) = table::insert(handle, socket) {
        poll::closing(handle);
        let closing = before.close();
        drop(before);
        closing.into_iter().for_each(|closing| closing.go_on(None));
    }
}

pub(super) unsafe extern "system" fn socket(family: i32, kind: i32, protocol: i32) -> SOCKET {
    // SAFETY: no memory is passed.
    note(unsafe { winsock::SOCKET.get()(family, kind, protocol) }, family, kind)
}

pub(super) unsafe extern "system" fn wsa_socket_w(
    family: i32,
    kind: i32,
    protocol: i32,
    info: *const WSAPROTOCOL_INFOW,
    group: u32,
    flags: u32,
) -> SOCKET {
    // SAFETY: the caller's arguments, unchanged.
    let made = unsafe { winsock::WSA_SOCKET_W.get()(family, kind, protocol, info, group, flags) };
    // One that another process has made stays the kernel's.
    if info.is_null() { note(made, family, kind) } else { made }
}

pub(super) unsafe extern "system" fn wsa_socket_a(
    family: i32,
    kind: i32,
    protocol: i32,
    info: *const WSAPROTOCOL_INFOA,
    group: u32,
    flags: u32,
) -> SOCKET {
    // SAFETY: the caller's arguments, unchanged.
    let made = unsafe { winsock::WSA_SOCKET_A.get()(family, kind, protocol, info, group, flags) };
    if info.is_null() { note(made, family, kind) } else { made }
}

/// The program closes its handle of a socket: what the lane has of it ends. The kernel's socket is
/// still to be closed.
pub(super) fn closed(socket: SOCKET) -> Result<(), WinsockError> {
    let Some(known) = table::remove(socket) else { return Ok(()) };
    poll::closing(socket);
    let closing = known.close();
    let listener = known.accepts_of().and_then(table::get);
    listener.iter().for_each(|listener| listener.cancel_accepting(socket));
    let Some(closing) = closing else { return Ok(()) };
    // It holds the port, too.
    drop(known);
    // Its port stays taken until the connection has ended, by a handle of which the program knows
    // nothing: its own is no socket's any more. (The kernel's socket of an accepted connection has
    // no port.)
    let kept = if closing.has_own_port() { real::duplicate(socket) } else { None };
    closing.go_on(kept);
    Ok(())
}

pub(super) unsafe extern "system" fn close_socket(socket: SOCKET) -> i32 {
    let close = || closed(socket).map(|()| None);
    // SAFETY: no memory is passed.
    call(SOCKET_ERROR, close, || unsafe { winsock::CLOSE_SOCKET.get()(socket) })
}

pub(super) unsafe extern "system" fn bind(socket: SOCKET, name: *const SOCKADDR, len: i32) -> i32 {
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { winsock::BIND.get()(socket, name, len) };
    if result != 0 {
        return result;
    }
    let bound = || {
        if let Some(known) = table::get(socket) {
            known.bound();
        }
        Ok(Some(0))
    };
    call(SOCKET_ERROR, bound, || 0)
}

pub(super) unsafe extern "system" fn listen(socket: SOCKET, backlog: i32) -> i32 {
    let refuse = || match table::get(socket).map(|known| (known.state(), known.is_established())) {
        // The kernel's socket has no connection.
        Some((State::Tcp { .. }, true)) => Err(WinsockError::IS_CONNECTED),
        Some((State::Tcp { .. }, false)) => Err(WinsockError::INVALID),
        _ => Ok(None),
    };
    // SAFETY: no memory is passed.
    let result = call(SOCKET_ERROR, refuse, || unsafe { winsock::LISTEN.get()(socket, backlog) });
    if result != 0 {
        return result;
    }
    let listening = || {
        if let Some(known) = table::get(socket) {
            known.listening(u32::try_from(backlog).unwrap_or(0).clamp(1, 4096));
        }
        Ok(Some(0))
    };
    call(SOCKET_ERROR, listening, || 0)
}

pub(super) unsafe extern "system" fn accept(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> SOCKET {
    // SAFETY: the caller's arguments.
    call_waiting(
        socket,
        INVALID_SOCKET,
        || unsafe { accept_ours(socket, name, len) },
        || of_kernel(socket, unsafe { winsock::ACCEPT.get()(socket, name, len) }),
    )
}

/// A connection that the kernel has accepted, for a listener of which the lane has a half, perhaps.
pub(super) fn of_kernel(listener: SOCKET, accepted: SOCKET) -> SOCKET {
    let after = || {
        let Some(known) = table::get(listener) else { return };
        if known.has_kernel_half() {
            if accepted != INVALID_SOCKET {
                known.hand_on_by_kernel(accepted);
            }
            known.enable_events(record::ACCEPT);
        }
        if accepted != INVALID_SOCKET {
            kernel_polling::note_traffic();
            know(known.accepted_by_kernel(accepted));
        }
    };
    boundary::caught((), after);
    accepted
}

/// # Safety
/// As the documentation of `accept` has it.
pub(super) unsafe fn accept_ours(
    socket: SOCKET,
    name: *mut SOCKADDR,
    len: *mut i32,
) -> Result<Option<SOCKET>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    // SAFETY: as the caller promises.
    let has_room = name.is_null() || len.is_null() || unsafe { *len } >= sockaddr::size(known.family) as i32;
    if !has_room && known.on_lane().is_some() {
        return Err(WinsockError::FAULT);
    }
    let accepted = known.accept();
    if !matches!(accepted, Ok(Handled::Kernel)) {
        known.enable_events(record::ACCEPT);
    }
    let Some((made, remote)) = accepted?.ours() else { return Ok(None) };
    let handle = made.handle;
    know(made);
    table::get(handle).iter().for_each(|made| known.hand_on(made));
    // SAFETY: as the caller promises.
    unsafe { put((known.family, remote), name, len) }?;
    Ok(Some(handle))
}

/// Whether a name is of no family: with that a datagram socket gives its peer up.
///
/// # Safety
/// So many bytes may be read there.
unsafe fn has_no_family(name: *const SOCKADDR, len: i32) -> bool {
    // SAFETY: as the caller promises.
    !name.is_null() && len as usize >= size_of::<SOCKADDR>() && unsafe { (*name).sa_family } == AF_UNSPEC
}

pub(super) unsafe extern "system" fn connect(socket: SOCKET, name: *const SOCKADDR, len: i32) -> i32 {
    let connect = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        // SAFETY: the caller's arguments.
        let Some(remote) = (unsafe { endpoint(name, len) }) else {
            // SAFETY: the caller's arguments.
            if unsafe { has_no_family(name, len) } {
                known.forget_peer()?;
            }
            return Ok(None);
        };
        Ok(known.connect(remote)?.ours().map(|()| 0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, connect, || unsafe { winsock::CONNECT.get()(socket, name, len) })
}

pub(super) unsafe extern "system" fn shutdown(socket: SOCKET, how: i32) -> i32 {
    let shut = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        let how = match how {
            SD_RECEIVE => Shutdown::Read,
            SD_SEND => Shutdown::Write,
            SD_BOTH => Shutdown::Both,
            _ => return Err(WinsockError::INVALID),
        };
        Ok(known.shutdown(how)?.ours().map(|()| 0))
    };
    // SAFETY: no memory is passed.
    call(SOCKET_ERROR, shut, || unsafe { winsock::SHUTDOWN.get()(socket, how) })
}

/// The program passes a socket to another process, which knows only the kernel's. A connection of
/// the lane cannot be passed.
fn passed(socket: SOCKET) -> Result<Option<i32>, WinsockError> {
    match table::get(socket) {
        Some(known) if !known.leave_lane(Reason::Passed) => Err(WinsockError(WSAEOPNOTSUPP)),
        _ => Ok(None),
    }
}

pub(super) unsafe extern "system" fn wsa_duplicate_socket_w(
    socket: SOCKET,
    process: u32,
    info: *mut WSAPROTOCOL_INFOW,
) -> i32 {
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, || passed(socket), || unsafe { winsock::WSA_DUPLICATE_SOCKET_W.get()(socket, process, info) })
}

pub(super) unsafe extern "system" fn wsa_duplicate_socket_a(
    socket: SOCKET,
    process: u32,
    info: *mut WSAPROTOCOL_INFOA,
) -> i32 {
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, || passed(socket), || unsafe { winsock::WSA_DUPLICATE_SOCKET_A.get()(socket, process, info) })
}
