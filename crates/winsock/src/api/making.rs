//! Making, opening and closing sockets.

use super::call;
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::lane::lane;
use crate::real;
use crate::real::Kind;
use crate::socket::Socket;
use crate::table;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::Shutdown;
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{
    INVALID_SOCKET, SD_BOTH, SD_RECEIVE, SD_SEND, SOCK_DGRAM, SOCK_STREAM, SOCKADDR, SOCKADDR_INET, SOCKET,
    SOCKET_ERROR, WSAPROTOCOL_INFOA, WSAPROTOCOL_INFOW,
};

/// An address that a program passes. `None`: it is of another family than IPv4 and IPv6, or too
/// short.
///
/// # Safety
/// So many bytes may be read there.
pub(super) unsafe fn endpoint(name: *const SOCKADDR, len: i32) -> Option<Endpoint> {
    let mut copy = sockaddr::none();
    let len = usize::try_from(len).ok().filter(|_| !name.is_null())?.min(size_of::<SOCKADDR_INET>());
    // SAFETY: as the caller promises; there is room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(name.cast::<u8>(), (&raw mut copy).cast::<u8>(), len) };
    sockaddr::endpoint(&copy).filter(|found| len >= sockaddr::size(found.address.family()))
}

/// Puts an address where a program wants it, as far as there is room for all of it.
///
/// # Safety
/// `len` is null or points to the number of bytes that may be written at `name`.
pub(super) unsafe fn put(endpoint: Endpoint, name: *mut SOCKADDR, len: *mut i32) -> Result<(), WinsockError> {
    if name.is_null() || len.is_null() {
        return Ok(());
    }
    let (made, size) = sockaddr::from_endpoint(endpoint, 0);
    // SAFETY: as the caller promises.
    unsafe {
        if *len < size {
            return Err(WinsockError::FAULT);
        }
        std::ptr::copy_nonoverlapping((&raw const made).cast::<u8>(), name.cast::<u8>(), size as usize);
        *len = size;
    }
    Ok(())
}

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
        table::insert(made, Socket::new(made, family, kind));
    }
    made
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

pub(super) unsafe extern "system" fn close_socket(socket: SOCKET) -> i32 {
    let close = || {
        let Some(known) = table::remove(socket) else { return Ok(None) };
        match known.close() {
            Some(closing) => {
                // Its port stays taken until the connection has ended. The kernel's socket of an
                // accepted one has none.
                let has_port = closing.has_own_port();
                if let Ok(lane) = lane() {
                    lane.finish(Box::new(move |lane, at_end| {
                        if at_end.0 {
                            return closing.is_acknowledged(lane);
                        }
                        let has_ended = closing.has_ended(lane);
                        if has_ended && has_port {
                            real::close(socket);
                        }
                        has_ended
                    }));
                }
                Ok(has_port.then_some(0))
            }
            None => Ok(None),
        }
    };
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
    // SAFETY: no memory is passed.
    let result = unsafe { winsock::LISTEN.get()(socket, backlog) };
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
    call(
        INVALID_SOCKET,
        || unsafe { accept_ours(socket, name, len) },
        || unsafe { winsock::ACCEPT.get()(socket, name, len) },
    )
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
    let Some((made, remote)) = known.accept()?.ours() else { return Ok(None) };
    let handle = made.handle;
    table::insert(handle, made);
    // SAFETY: as the caller promises.
    unsafe { put(remote, name, len) }?;
    Ok(Some(handle))
}

pub(super) unsafe extern "system" fn connect(socket: SOCKET, name: *const SOCKADDR, len: i32) -> i32 {
    let connect = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        // SAFETY: the caller's arguments.
        let Some(remote) = (unsafe { endpoint(name, len) }) else { return Ok(None) };
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
