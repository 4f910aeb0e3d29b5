//! Names and options.

use super::call;
use super::moving::bytes;
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::lane::lane;
use crate::names::put_name;
use crate::program_memory::check_writable;
use crate::socket::State;
use crate::socket::table;
use windows_sys::Win32::Networking::WinSock::{
    SO_CONNECT_TIME, SO_ERROR, SO_UPDATE_ACCEPT_CONTEXT, SO_UPDATE_CONNECT_CONTEXT, SOCKADDR, SOCKET, SOCKET_ERROR,
    SOL_SOCKET,
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
        unsafe { put_name((known.family, local), name, len) }?;
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
        unsafe { put_name((known.family, remote), name, len) }?;
        Ok(Some(0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, peer, || unsafe { winsock::GET_PEER_NAME.get()(socket, name, len) })
}

/// Puts a number where a program wants the value of an option.
///
/// # Safety
/// `len` points to the number of bytes that may be written at `value`.
unsafe fn put_number(number: u32, value: *mut u8, len: *mut i32) -> Result<(), WinsockError> {
    check_writable(len, size_of::<i32>())?;
    // SAFETY: as the caller promises.
    unsafe {
        if *len < 4 {
            return Err(WinsockError::FAULT);
        }
        check_writable(value, 4)?;
        value.cast::<u32>().write_unaligned(number);
        *len = 4;
    }
    Ok(())
}

pub(super) unsafe extern "system" fn get_sock_opt(
    socket: SOCKET,
    level: i32,
    option: i32,
    value: *mut u8,
    len: *mut i32,
) -> i32 {
    let error = || {
        if level != SOL_SOCKET || !matches!(option, SO_ERROR | SO_CONNECT_TIME) || value.is_null() || len.is_null() {
            return Ok(None);
        }
        let Some(known) = table::get(socket) else { return Ok(None) };
        if option == SO_CONNECT_TIME {
            let is_ours = matches!(known.state(), State::Tcp { .. }) && known.has_connected();
            let Some(seconds) = known.connect_time_s().filter(|_| is_ours) else { return Ok(None) };
            // SAFETY: the caller's arguments.
            return unsafe { put_number(seconds, value, len) }.map(|()| Some(0));
        }
        let Ok(lane) = lane() else { return Ok(None) };
        let pending = match known.state() {
            State::Tcp { id, .. } => lane.enter(|access| access.stack.tcp_take_error(id))?,
            State::Udp { id, .. } => lane.enter(|access| access.stack.udp_take_error(id))?,
            State::Listener { .. } => None,
            State::Idle | State::Kernel { .. } => return Ok(None),
        };
        if let Some(error) = pending {
            known.note_failure(error.into());
        }
        let number = pending.map_or(0, |error| WinsockError::from(error).0);
        // SAFETY: the caller's arguments.
        unsafe { put_number(number.cast_unsigned(), value, len) }.map(|()| Some(0))
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
    if (!value.is_null() || len == 0) && is_context(socket, level, option) {
        return 0;
    }
    // SAFETY: the caller's arguments, unchanged.
    let result = unsafe { winsock::SET_SOCK_OPT.get()(socket, level, option, value, len) };
    if result != 0 || value.is_null() {
        return result;
    }
    let set = || {
        let Some(known) = table::get(socket) else { return Ok(Some(0)) };
        // SAFETY: the real function has read so many bytes.
        let value = unsafe { bytes(value, len)? };
        known.option_set(level, option, value).map(|()| Some(0))
    };
    call(SOCKET_ERROR, set, || 0)
}

/// Whether a program tells the kernel that `AcceptEx` or `ConnectEx` has made a connection, which
/// is the lane's: it is complete without.
fn is_context(socket: SOCKET, level: i32, option: i32) -> bool {
    let is_context = level == SOL_SOCKET && matches!(option, SO_UPDATE_ACCEPT_CONTEXT | SO_UPDATE_CONNECT_CONTEXT);
    is_context && table::get(socket).is_some_and(|known| matches!(known.state(), State::Tcp { .. }))
}
