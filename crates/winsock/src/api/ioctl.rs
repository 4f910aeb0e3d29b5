//! `WSAIoctl` and `ioctlsocket`.

use super::accepting::{accept_ex, connect_ex, disconnect_ex, get_accept_ex_sockaddrs};
use super::call;
use super::scattered::wsa_recv_msg;
use super::transmitting::{transmit_file, transmit_packets};
use crate::extensions::{
    ACCEPT_EX, CONNECT_EX, DISCONNECT_EX, GET_ACCEPT_EX_SOCKADDRS, TRANSMIT_FILE, TRANSMIT_PACKETS, WSA_RECV_MSG,
};
use crate::hook::boundary::{WinsockError, caught};
use crate::hook::{reentrancy, winsock};
use crate::lane::lane;
use crate::program_memory::check_writable;
use crate::socket::State;
use crate::socket::table;
use std::ffi::c_void;
use windows_sys::Win32::Networking::WinSock::{
    FIONBIO, FIONREAD, LPWSAOVERLAPPED_COMPLETION_ROUTINE, SIO_GET_EXTENSION_FUNCTION_POINTER, SIO_KEEPALIVE_VALS,
    SIO_UDP_CONNRESET, SIOCATMARK, SOCKET, SOCKET_ERROR,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::core::GUID;

/// How many bytes a socket of the lane has to be received; `None` if the kernel has it.
fn waiting(socket: SOCKET) -> Result<Option<u32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    let Some(id) = known.on_lane() else { return Ok(None) };
    let Ok(lane) = lane() else { return Ok(None) };
    let bytes = match known.state() {
        // Windows says how long the first datagram is.
        State::Udp { id, .. } => lane.enter(|access| access.stack.udp_next_len(id))?.map_or(0, |len| len as u32),
        _ => lane.enter(|access| access.stack.socket_row(id).map(|row| row.rx_queue.get()))?,
    };
    Ok(Some(bytes))
}

/// What `SIOCATMARK` says of a connection of the lane: not whether the next byte is the urgent one.
fn is_past_mark(socket: SOCKET) -> Result<Option<u32>, WinsockError> {
    let Some(State::Tcp { id, .. }) = table::get(socket).map(|known| known.state()) else { return Ok(None) };
    let Ok(lane) = lane() else { return Ok(None) };
    Ok(Some(u32::from(!lane.enter(|access| access.stack.tcp_at_mark(id))?)))
}

pub(super) unsafe extern "system" fn ioctl_socket(socket: SOCKET, command: i32, argument: *mut u32) -> i32 {
    if matches!(command, FIONREAD | SIOCATMARK) && !argument.is_null() {
        let ours = || {
            check_writable(argument, 4)?;
            let bytes = if command == FIONREAD { waiting(socket)? } else { is_past_mark(socket)? };
            // SAFETY: the caller's argument.
            Ok(bytes.map(|bytes| unsafe { argument.write(bytes) }).map(|()| 0))
        };
        // SAFETY: the caller's arguments, unchanged.
        return call(SOCKET_ERROR, ours, || unsafe { winsock::IOCTL_SOCKET.get()(socket, command, argument) });
    }
    if command == FIONBIO && !argument.is_null() {
        // SAFETY: the caller's argument.
        let is_nonblocking = || unsafe { argument.read() } != 0;
        let ours = || change_blocking(socket, is_nonblocking());
        return call(SOCKET_ERROR, ours, || {
            // SAFETY: the caller's arguments, unchanged.
            let result = unsafe { winsock::IOCTL_SOCKET.get()(socket, command, argument) };
            if result == 0 {
                caught((), || note_blocking(socket, is_nonblocking()));
            }
            result
        });
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { winsock::IOCTL_SOCKET.get()(socket, command, argument) }
}

/// `FIONBIO`.
fn change_blocking(socket: SOCKET, is_nonblocking: bool) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    Ok(known.change_blocking(is_nonblocking)?.ours().map(|()| 0))
}

/// The kernel has changed whether a socket blocks.
fn note_blocking(socket: SOCKET, is_nonblocking: bool) {
    table::get(socket).iter().for_each(|known| known.set_nonblocking(is_nonblocking));
}

pub(super) unsafe extern "system" fn wsa_ioctl(
    socket: SOCKET,
    code: u32,
    input: *const c_void,
    input_len: u32,
    output: *mut c_void,
    output_len: u32,
    returned: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    let ours = || {
        if code.cast_signed() == FIONBIO && input_len >= 4 && !input.is_null() {
            // SAFETY: the caller's argument.
            let is_nonblocking = unsafe { input.cast::<u32>().read_unaligned() } != 0;
            let changed = change_blocking(socket, is_nonblocking)?;
            if changed.is_some() && !returned.is_null() {
                // SAFETY: the caller's argument.
                unsafe { returned.write(0) };
            }
            return Ok(changed);
        }
        let is_mark = code.cast_signed() == SIOCATMARK;
        if !is_mark && code.cast_signed() != FIONREAD || output.is_null() || output_len < 4 || !overlapped.is_null() {
            return Ok(None);
        }
        if returned.is_null() {
            return Err(WinsockError::FAULT);
        }
        let bytes = if is_mark { is_past_mark(socket)? } else { waiting(socket)? };
        // SAFETY: the caller's arguments.
        let write = |bytes: u32| unsafe {
            output.cast::<u32>().write_unaligned(bytes);
            returned.write(4);
        };
        Ok(bytes.map(write).map(|()| 0))
    };
    let is_inside = reentrancy::is_inside();
    // SAFETY: the caller's arguments, unchanged.
    let result = call(SOCKET_ERROR, ours, || unsafe {
        winsock::WSA_IOCTL.get()(socket, code, input, input_len, output, output_len, returned, overlapped, routine)
    });
    if result == 0 && !is_inside {
        // SAFETY: the caller's arguments, which the real function has read or filled.
        caught((), || unsafe { done(socket, code, (input, input_len), (output, output_len)) });
    }
    result
}

/// Follows what Winsock has done.
///
/// # Safety
/// So many bytes can be read and written.
unsafe fn done(socket: SOCKET, code: u32, (input, input_len): (*const c_void, u32), output: (*mut c_void, u32)) {
    let number = || {
        let has_number = input_len >= 4 && !input.is_null();
        // SAFETY: as the caller promises. (A truth value may have one byte; then it has no more.)
        if has_number { unsafe { input.cast::<u32>().read_unaligned() } } else { 0 }
    };
    let known = || table::get(socket);
    match code {
        code if code.cast_signed() == FIONBIO && input_len >= 4 && !input.is_null() => {
            note_blocking(socket, number() != 0);
        }
        SIO_UDP_CONNRESET => known().iter().for_each(|known| known.report_unreachable(number() != 0)),
        SIO_KEEPALIVE_VALS if input_len as usize >= size_of::<[u32; 3]>() && !input.is_null() => {
            // SAFETY: as the caller promises.
            let [is_on, idle_ms, interval_ms] = unsafe { input.cast::<[u32; 3]>().read_unaligned() };
            known().iter().for_each(|known| known.keep_alive(is_on != 0, idle_ms, interval_ms));
        }
        SIO_GET_EXTENSION_FUNCTION_POINTER
            if input_len as usize >= size_of::<GUID>() && output.1 as usize >= size_of::<*mut c_void>() =>
        {
            // SAFETY: as the caller promises.
            unsafe {
                let id = input.cast::<GUID>().read_unaligned();
                let place = output.0.cast::<*mut c_void>();
                if let Some(ours) = extension(&id, place.read_unaligned()) {
                    place.write_unaligned(ours);
                }
            }
        }
        _ => {}
    }
}

/// This library's function for an extension of Winsock, whose real function is kept.
fn extension(id: &GUID, real: *mut c_void) -> Option<*mut c_void> {
    macro_rules! one_of {
        ($( $extension:ident => $function:path, )*) => {
            $(
                if $extension.is(id) {
                    $extension.note(real);
                    return Some($function as *mut c_void);
                }
            )*
        };
    }
    one_of! {
        ACCEPT_EX => accept_ex,
        GET_ACCEPT_EX_SOCKADDRS => get_accept_ex_sockaddrs,
        CONNECT_EX => connect_ex,
        DISCONNECT_EX => disconnect_ex,
        TRANSMIT_FILE => transmit_file,
        TRANSMIT_PACKETS => transmit_packets,
        WSA_RECV_MSG => wsa_recv_msg,
    }
    None
}
