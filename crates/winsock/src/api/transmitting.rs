//! `TransmitFile` and `TransmitPackets`.

use super::call;
use super::overlapped::{AtOnce, begin};
use crate::extensions::{TRANSMIT_FILE, TRANSMIT_PACKETS};
use crate::hook::boundary::WinsockError;
use crate::socket::request::file::FileRange;
use crate::socket::request::send::{Piece, Send};
use crate::socket::request::{Parts, Work};
use crate::socket::table;
use crate::socket::{Socket, State};
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{FALSE, HANDLE, TRUE};
use windows_sys::Win32::Networking::WinSock::{
    SOCKET, TF_DISCONNECT, TF_REUSE_SOCKET, TP_ELEMENT_FILE, TP_ELEMENT_MEMORY, TRANSMIT_FILE_BUFFERS,
    TRANSMIT_PACKETS_ELEMENT,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_CURRENT, SetFilePointerEx};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::core::BOOL;

/// The most elements of a call.
const MOST_ELEMENTS: u32 = 1 << 16;

/// Sends pieces: in a request, or until all is sent.
///
/// # Safety
/// The structure is null or the program's, and is there until the request is complete; so is the
/// memory of the pieces.
unsafe fn send_all(
    known: &Socket,
    pieces: Vec<Piece>,
    overlapped: *mut OVERLAPPED,
    flags: u32,
) -> Result<Option<BOOL>, WinsockError> {
    let mut send = Send::new(pieces, None, flags & (TF_DISCONNECT | TF_REUSE_SOCKET) != 0);
    if overlapped.is_null() {
        return known.send_all(&mut send).map(|()| Some(TRUE));
    }
    let at_once = AtOnce { bytes: null_mut(), flags: null_mut() };
    // SAFETY: as the caller promises.
    unsafe { begin(known, (overlapped, None), Work::Send(send), at_once) }.map(|()| Some(TRUE))
}

/// The piece of a file: from the request's offset, or from where the file stands.
///
/// # Safety
/// The structure is null or the program's.
unsafe fn file_piece(file: HANDLE, len: u32, overlapped: *mut OVERLAPPED) -> Result<Piece, WinsockError> {
    // SAFETY: as the caller promises.
    let offset = match unsafe { overlapped.as_ref() } {
        Some(request) => {
            // SAFETY: numbers.
            let (low, high) = unsafe { (request.Anonymous.Anonymous.Offset, request.Anonymous.Anonymous.OffsetHigh) };
            u64::from(high) << 32 | u64::from(low)
        }
        None => {
            let mut at = 0;
            // SAFETY: room for the result; a handle that is none is refused.
            if unsafe { SetFilePointerEx(file, 0, &raw mut at, FILE_CURRENT) } == 0 {
                return Err(WinsockError::INVALID);
            }
            at.cast_unsigned()
        }
    };
    // SAFETY: the program's handle.
    unsafe { FileRange::new(file, offset, (len > 0).then_some(len.into())) }.map(Piece::File)
}

pub(super) unsafe extern "system" fn transmit_file(
    socket: SOCKET,
    file: HANDLE,
    len: u32,
    len_of_send: u32,
    overlapped: *mut OVERLAPPED,
    around: *const TRANSMIT_FILE_BUFFERS,
    flags: u32,
) -> BOOL {
    let ours = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        if !matches!(known.state(), State::Tcp { .. }) {
            return Ok(None);
        }
        let mut pieces = Vec::new();
        // SAFETY: the caller's arguments.
        unsafe {
            let around = around.as_ref();
            if let Some(around) = around {
                pieces.push(Piece::Memory(Parts::one_to_send(around.Head.cast(), around.HeadLength)?));
            }
            if !file.is_null() {
                pieces.push(file_piece(file, len, overlapped)?);
            }
            if let Some(around) = around {
                pieces.push(Piece::Memory(Parts::one_to_send(around.Tail.cast(), around.TailLength)?));
            }
            send_all(&known, pieces, overlapped, flags)
        }
    };
    call(FALSE, ours, || match TRANSMIT_FILE.real(socket) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe { original(socket, file, len, len_of_send, overlapped, around, flags) },
        None => FALSE,
    })
}

pub(super) unsafe extern "system" fn transmit_packets(
    socket: SOCKET,
    elements: *const TRANSMIT_PACKETS_ELEMENT,
    count: u32,
    len_of_send: u32,
    overlapped: *mut OVERLAPPED,
    flags: u32,
) -> BOOL {
    let ours = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        if !matches!(known.state(), State::Tcp { .. }) {
            return Ok(None);
        }
        if elements.is_null() || count > MOST_ELEMENTS {
            return Err(WinsockError::INVALID);
        }
        // SAFETY: the caller's arguments.
        let elements = unsafe { std::slice::from_raw_parts(elements, count as usize) };
        let pieces = elements.iter().map(|element| {
            let len = element.cLength;
            // SAFETY: the caller's arguments; the kind says which of both there is.
            unsafe {
                if element.dwElFlags & TP_ELEMENT_MEMORY != 0 {
                    return Parts::one_to_send(element.Anonymous.pBuffer.cast(), len).map(Piece::Memory);
                }
                if element.dwElFlags & TP_ELEMENT_FILE == 0 {
                    return Err(WinsockError::INVALID);
                }
                let of_file = element.Anonymous.Anonymous;
                // -1: from where the file stands.
                match u64::try_from(of_file.nFileOffset) {
                    Ok(offset) => {
                        FileRange::new(of_file.hFile, offset, (len > 0).then_some(len.into())).map(Piece::File)
                    }
                    Err(_) => file_piece(of_file.hFile, len, null_mut()),
                }
            }
        });
        // SAFETY: the caller's arguments.
        unsafe { send_all(&known, pieces.collect::<Result<_, _>>()?, overlapped, flags) }
    };
    call(FALSE, ours, || match TRANSMIT_PACKETS.real(socket) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe { original(socket, elements, count, len_of_send, overlapped, flags) },
        None => FALSE,
    })
}
