//! Names, options, and `ioctlsocket`.

use super::call;
use super::making::put;
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::lane::lane;
use crate::socket::State;
use crate::table;
use windows_sys::Win32::Networking::WinSock::{
    FIONBIO, FIONREAD, IPPROTO_TCP, SO_ERROR, SO_RCVTIMEO, SO_SNDTIMEO, SOCKADDR, SOCKET, SOCKET_ERROR, SOL_SOCKET,
    TCP_NODELAY,
};

pub(super) unsafe extern "system" fn get_sock_name(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> i32 {
    let local = || {
        // The kernel's socket of an accepted connection is bound nowhere. All others have the name
        // that the kernel has given them; one with a peer has the address that it sends from.
        let Some(known) = table::get(socket) else { return Ok(None) };
        let Ok(lane) = lane() else { return Ok(None) };
        let local = match known.state() {
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_endpoints(id))?.0,
            State::Udp { id, .. } => {
                let (local, peer) = lane.enter(|access| access.stack.udp_names(id))?;
                if peer.is_none() {
                    return Ok(None);
                }
                local
            }
            _ => return Ok(None),
        };
        // SAFETY: the caller's arguments.
        unsafe { put(local, name, len) }?;
        Ok(Some(0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, local, || unsafe { winsock::GET_SOCK_NAME.get()(socket, name, len) })
}

pub(super) unsafe extern "system" fn get_peer_name(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> i32 {
    let peer = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        let Ok(lane) = lane() else { return Ok(None) };
        let remote = match known.state() {
            State::Tcp { .. } if !known.has_connected() => return Err(WinsockError::NOT_CONNECTED),
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_endpoints(id))?.1,
            State::Udp { id, .. } => {
                lane.enter(|access| access.stack.udp_names(id))?.1.ok_or(WinsockError::NOT_CONNECTED)?
            }
            State::Listener { .. } => return Err(WinsockError::NOT_CONNECTED),
            State::Idle | State::Kernel { .. } => return Ok(None),
        };
        // SAFETY: the caller's arguments.
        unsafe { put(remote, name, len) }?;
        Ok(Some(0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, peer, || unsafe { winsock::GET_PEER_NAME.get()(socket, name, len) })
}

pub(super) unsafe extern "system" fn ioctl_socket(socket: SOCKET, command: i32, argument: *mut u32) -> i32 {
    if command == FIONREAD && !argument.is_null() {
        let waiting = || {
            let Some(known) = table::get(socket) else { return Ok(None) };
            let Some(id) = known.on_lane() else { return Ok(None) };
            let Ok(lane) = lane() else { return Ok(None) };
            let bytes = match known.state() {
                // Windows says how long the first datagram is.
                State::Udp { id, .. } => {
                    lane.enter(|access| access.stack.udp_next_len(id))?.map_or(0, |len| len as u32)
                }
                _ => lane.enter(|access| access.stack.socket_row(id).map(|row| row.rx_queue.get()))?,
            };
            // SAFETY: the caller's argument.
            unsafe { argument.write(bytes) };
            Ok(Some(0))
        };
        // SAFETY: the caller's arguments, unchanged.
        return call(SOCKET_ERROR, waiting, || unsafe { winsock::IOCTL_SOCKET.get()(socket, command, argument) });
    }
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { winsock::IOCTL_SOCKET.get()(socket, command, argument) };
    if result == 0
        && command == FIONBIO
        && let Some(known) = table::get(socket)
    {
        // SAFETY: the real function has read it.
        known.set_nonblocking(unsafe { *argument } != 0);
    }
    result
}

pub(super) unsafe extern "system" fn get_sock_opt(
    socket: SOCKET,
    level: i32,
    option: i32,
    value: *mut u8,
    len: *mut i32,
) -> i32 {
    let error = || {
        if (level, option) != (SOL_SOCKET, SO_ERROR) || value.is_null() || len.is_null() {
            return Ok(None);
        }
        let Some(known) = table::get(socket) else { return Ok(None) };
        let Ok(lane) = lane() else { return Ok(None) };
        let pending = match known.state() {
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_take_error(id))?,
            State::Udp { id, .. } => lane.enter(|access| access.stack.udp_take_error(id))?,
            State::Listener { .. } => None,
            State::Idle | State::Kernel { .. } => return Ok(None),
        };
        let number = pending.map_or(0, |error| WinsockError::from(error).0);
        // SAFETY: the caller's arguments.
        unsafe {
            if *len < 4 {
                return Err(WinsockError::FAULT);
            }
            value.cast::<i32>().write_unaligned(number);
            *len = 4;
        }
        Ok(Some(0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, error, || unsafe { winsock::GET_SOCK_OPT.get()(socket, level, option, value, len) })
}

pub(super) unsafe extern "system" fn set_sock_opt(
    socket: SOCKET,
    level: i32,
    option: i32,
    value: *const u8,
    len: i32,
) -> i32 {
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { winsock::SET_SOCK_OPT.get()(socket, level, option, value, len) };
    if result != 0 || len < 4 || value.is_null() {
        return result;
    }
    // SAFETY: the real function has read so many bytes.
    let number = unsafe { value.cast::<u32>().read_unaligned() };
    let set = || {
        let Some(known) = table::get(socket) else { return Ok(Some(0)) };
        match (level, option) {
            (SOL_SOCKET, SO_RCVTIMEO) => known.set_receive_timeout(number),
            (SOL_SOCKET, SO_SNDTIMEO) => known.set_send_timeout(number),
            (IPPROTO_TCP, TCP_NODELAY) => known.set_prompt(number != 0),
            _ => (),
        }
        Ok(Some(0))
    };
    call(SOCKET_ERROR, set, || 0)
}
