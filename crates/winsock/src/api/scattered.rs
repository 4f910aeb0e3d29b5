//! The forms of Winsock 2 of the calls that connect, send and receive: several buffers, and
//! overlapped.

use super::moving::{buffer, bytes, is_wrong, of_kernel, receive_flags};
use super::overlapped::{AtOnce, begin};
use super::{call, call_waiting};
use crate::extensions::WSA_RECV_MSG;
use crate::hook::boundary::WinsockError;
use crate::hook::{reentrancy, winsock};
use crate::names::{endpoint, put};
use crate::program_memory::{check_readable, check_writable};
use crate::real;
use crate::socket::request::receive::{Receive, SenderPlace};
use crate::socket::request::send::{Piece, Send};
use crate::socket::request::{Parts, Work};
use crate::socket::table;
use crate::socket::{Kind, Received, State};
use std::borrow::Cow;
use std::ptr::{null, null_mut};
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{
    CF_ACCEPT, CF_DEFER, LPCONDITIONPROC, LPWSAOVERLAPPED_COMPLETION_ROUTINE, MSG_OOB, MSG_PARTIAL, QOS, SOCKADDR,
    SOCKADDR_INET, SOCKET, SOCKET_ERROR, WSABUF, WSAECONNREFUSED, WSAMSG, WSATRY_AGAIN,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

/// The most buffers of a call, and the most bytes in them that are copied at once.
const MOST_BUFFERS: u32 = 1 << 16;

/// The buffers of a call.
///
/// # Safety
/// There are so many of them, and each is as long as it says.
unsafe fn buffers<'a>(at: *const WSABUF, count: u32) -> Result<&'a [WSABUF], WinsockError> {
    match (at.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(WinsockError::FAULT),
        (false, count) if count > MOST_BUFFERS => Err(WinsockError::INVALID),
        (false, count) => {
            check_readable(at, count as usize * size_of::<WSABUF>())?;
            // SAFETY: as the caller promises.
            Ok(unsafe { std::slice::from_raw_parts(at, count as usize) })
        }
    }
}

/// What a call sends: one buffer as it is, several in a copy.
///
/// # Safety
/// Each may be read as far as it says, and does not change during the call.
unsafe fn gathered(list: &[WSABUF]) -> Result<Cow<'_, [u8]>, WinsockError> {
    if let [only] = list {
        // SAFETY: as the caller promises.
        return unsafe { bytes(only.buf, only.len) }.map(Cow::Borrowed);
    }
    let mut data = Vec::with_capacity(total(list));
    for part in list {
        // SAFETY: as the caller promises.
        data.extend_from_slice(unsafe { bytes(part.buf, part.len) }?);
    }
    Ok(Cow::Owned(data))
}

/// The bytes that all buffers have together.
fn total(list: &[WSABUF]) -> usize {
    list.iter().map(|buffer| buffer.len as usize).sum()
}

/// Writes received bytes into several buffers, in order.
///
/// # Safety
/// Each may be written as far as it says.
unsafe fn scatter(mut data: &[u8], list: &[WSABUF]) -> Result<(), WinsockError> {
    for part in list {
        let bytes = data.split_off(..data.len().min(part.len as usize)).unwrap_or_default();
        // SAFETY: as the caller promises.
        unsafe { buffer(part.buf, bytes.len()) }?.copy_from_slice(bytes);
    }
    Ok(())
}

/// How the program is told: by its structure, or by nothing but the call's return.
type Overlapped = (*mut OVERLAPPED, LPWSAOVERLAPPED_COMPLETION_ROUTINE);

/// # Safety
/// As the documentation of `WSASendTo` has it.
unsafe fn send_ours(
    socket: SOCKET,
    (list, count): (*const WSABUF, u32),
    (sent, flags): (*mut u32, u32),
    (name, name_len): (*const SOCKADDR, i32),
    overlapped: Overlapped,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    // SAFETY: as the caller promises.
    let to = unsafe { endpoint(name, name_len) };
    if is_wrong(&known, to, name) {
        // The kernel says what is wrong.
        return Ok(None);
    }
    let is_urgent = flags & MSG_OOB.cast_unsigned() != 0;
    if overlapped.0.is_null() {
        if sent.is_null() {
            return Err(WinsockError::FAULT);
        }
        // SAFETY: as the caller promises.
        let data = unsafe { gathered(buffers(list, count)?)? };
        let outcome = if is_urgent { known.send_urgent(&data) } else { known.send(&data, to) };
        let Some(length) = outcome?.ours() else { return Ok(None) };
        // SAFETY: as the caller promises.
        unsafe { sent.write(length as u32) };
        return Ok(Some(0));
    }
    if to.is_some() {
        known.open_for_sending()?;
    }
    if !matches!(known.state(), State::Udp { .. } | State::Tcp { .. }) {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let pieces = [Piece::Memory(unsafe { Parts::new(list, count)? })];
    let to = to.filter(|_| known.kind == Kind::Datagram);
    let at_once = AtOnce { bytes: sent, flags: null_mut() };
    let send = Send::new(pieces, to, false).urgent(is_urgent);
    // SAFETY: as the caller promises.
    unsafe { begin(&known, overlapped, Work::Send(send), at_once) }.map(|()| Some(0))
}

pub(super) unsafe extern "system" fn wsa_send(
    socket: SOCKET,
    list: *const WSABUF,
    count: u32,
    sent: *mut u32,
    flags: u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    // SAFETY: the caller's arguments.
    call(
        SOCKET_ERROR,
        || unsafe { send_ours(socket, (list, count), (sent, flags), (null(), 0), (overlapped, routine)) },
        || unsafe { winsock::WSA_SEND.get()(socket, list, count, sent, flags, overlapped, routine) },
    )
}

pub(super) unsafe extern "system" fn wsa_send_to(
    socket: SOCKET,
    list: *const WSABUF,
    count: u32,
    sent: *mut u32,
    flags: u32,
    name: *const SOCKADDR,
    name_len: i32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    // SAFETY: the caller's arguments.
    let ours = || unsafe { send_ours(socket, (list, count), (sent, flags), (name, name_len), (overlapped, routine)) };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, ours, || unsafe {
        winsock::WSA_SEND_TO.get()(socket, list, count, sent, flags, name, name_len, overlapped, routine)
    })
}

/// # Safety
/// As the documentation of `WSARecvFrom` has it.
unsafe fn receive_ours(
    socket: SOCKET,
    (list, count): (*const WSABUF, u32),
    (received, flags): (*mut u32, *mut u32),
    (name, name_len): (*mut SOCKADDR, *mut i32),
    overlapped: Overlapped,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    if flags.is_null() {
        return Err(WinsockError::FAULT);
    }
    // SAFETY: as the caller promises.
    let wanted = receive_flags(unsafe { flags.read() } as i32);
    if overlapped.0.is_null() && received.is_null() {
        return Err(WinsockError::FAULT);
    }
    if !overlapped.0.is_null() {
        if !matches!(known.state(), State::Udp { .. } | State::Tcp { .. }) {
            return Ok(None);
        }
        if known.is_receive_shut() {
            return Err(WinsockError::SHUT);
        }
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::new(list, count)? };
        parts.check_writable()?;
        let sender = SenderPlace::Name { name, len: name_len };
        let work = Work::Receive(Receive { parts, flags: wanted, sender });
        // SAFETY: as the caller promises.
        return unsafe { begin(&known, overlapped, work, AtOnce { bytes: received, flags }) }.map(|()| Some(0));
    }
    // SAFETY: as the caller promises.
    let list = unsafe { buffers(list, count)? };
    let received_here = if let [only] = list {
        // SAFETY: as the caller promises.
        known.receive(unsafe { buffer(only.buf, only.len)? }, wanted)?.ours()
    } else {
        for part in list {
            check_writable(part.buf, part.len as usize)?;
        }
        let mut data = vec![0; total(list)];
        let taken = known.receive(&mut data, wanted)?.ours();
        if let Some(Received { length, .. }) = taken {
            // SAFETY: as the caller promises.
            unsafe { scatter(&data[..length], list)? };
        }
        taken
    };
    let Some(Received { length, from, is_cut }) = received_here else { return Ok(None) };
    // SAFETY: as the caller promises.
    unsafe {
        if !received.is_null() {
            received.write(length as u32);
        }
        flags.write(if is_cut { MSG_PARTIAL } else { 0 });
        if let Some(from) = from {
            put((known.family, from), name, name_len)?;
        }
    }
    if is_cut { Err(WinsockError::MESSAGE_SIZE) } else { Ok(Some(0)) }
}

pub(super) unsafe extern "system" fn wsa_recv(
    socket: SOCKET,
    list: *const WSABUF,
    count: u32,
    received: *mut u32,
    flags: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    // SAFETY: the caller's arguments; no room for a name.
    let ours = || unsafe {
        receive_ours(socket, (list, count), (received, flags), (null_mut(), null_mut()), (overlapped, routine))
    };
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe { winsock::WSA_RECV.get()(socket, list, count, received, flags, overlapped, routine) };
    call_waiting(socket, SOCKET_ERROR, ours, || of_kernel(socket, original()))
}

pub(super) unsafe extern "system" fn wsa_recv_from(
    socket: SOCKET,
    list: *const WSABUF,
    count: u32,
    received: *mut u32,
    flags: *mut u32,
    name: *mut SOCKADDR,
    name_len: *mut i32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    // SAFETY: the caller's arguments.
    let ours =
        || unsafe { receive_ours(socket, (list, count), (received, flags), (name, name_len), (overlapped, routine)) };
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe {
        winsock::WSA_RECV_FROM.get()(socket, list, count, received, flags, name, name_len, overlapped, routine)
    };
    call_waiting(socket, SOCKET_ERROR, ours, || of_kernel(socket, original()))
}

pub(super) unsafe extern "system" fn wsa_connect(
    socket: SOCKET,
    name: *const SOCKADDR,
    len: i32,
    caller_data: *const WSABUF,
    callee_data: *mut WSABUF,
    qos: *const QOS,
    group_qos: *const QOS,
) -> i32 {
    let connect = || {
        let Some(known) = table::get(socket) else { return Ok(None) };
        // SAFETY: the caller's arguments.
        let Some(remote) = (unsafe { endpoint(name, len) }) else { return Ok(None) };
        Ok(known.connect(remote)?.ours().map(|()| 0))
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, connect, || unsafe {
        winsock::WSA_CONNECT.get()(socket, name, len, caller_data, callee_data, qos, group_qos)
    })
}

/// Takes a connection, and gives it up if the program's function does not want it. (The stack has
/// accepted it already, so that its peer sees a reset. It is the same if the function defers its
/// answer.)
///
/// # Safety
/// As the documentation of `WSAAccept` has it.
unsafe fn accept_on_condition(
    listener: SOCKET,
    (name, len): (*mut SOCKADDR, *mut i32),
    condition: LPCONDITIONPROC,
    context: usize,
) -> Result<Option<SOCKET>, WinsockError> {
    // SAFETY: as the caller promises.
    let accepted = unsafe { super::making::accept_ours(listener, name, len) }?;
    let known = accepted.and_then(table::get);
    let (Some(accepted), Some(known), Some(condition)) = (accepted, known, condition) else { return Ok(accepted) };
    let ends = known.ends()?;
    let [mut callee, mut caller] = [ends.0, ends.1].map(|end| sockaddr::for_socket(known.family, end));
    let id = |(address, size): &mut (SOCKADDR_INET, i32)| WSABUF {
        len: size.cast_unsigned(),
        buf: (&raw mut *address).cast(),
    };
    let (mut caller_id, mut callee_id) = (id(&mut caller), id(&mut callee));
    let mut none = WSABUF { len: 0, buf: null_mut() };
    let mut group = 0;
    // SAFETY: the program's function, with addresses that are there during the call.
    let answer = reentrancy::outside(|| unsafe {
        condition(
            &raw mut caller_id,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut callee_id,
            &raw mut none,
            &raw mut group,
            context,
        )
    });
    if answer == CF_ACCEPT as i32 {
        return Ok(Some(accepted));
    }
    known.abort();
    table::remove(accepted);
    real::close(accepted);
    Err(WinsockError(if answer == CF_DEFER as i32 { WSATRY_AGAIN } else { WSAECONNREFUSED }))
}

pub(super) unsafe extern "system" fn wsa_accept(
    socket: SOCKET,
    name: *mut SOCKADDR,
    len: *mut i32,
    condition: LPCONDITIONPROC,
    context: usize,
) -> SOCKET {
    let accept = || match table::get(socket) {
        // SAFETY: the caller's arguments.
        Some(_) if condition.is_none() => unsafe { super::making::accept_ours(socket, name, len) },
        // SAFETY: the caller's arguments.
        Some(_) => unsafe { accept_on_condition(socket, (name, len), condition, context) },
        None => Ok(None),
    };
    let failed = windows_sys::Win32::Networking::WinSock::INVALID_SOCKET;
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe { winsock::WSA_ACCEPT.get()(socket, name, len, condition, context) };
    call_waiting(socket, failed, accept, || super::making::of_kernel(socket, original()))
}

pub(super) unsafe extern "system" fn wsa_send_msg(
    socket: SOCKET,
    message: *const WSAMSG,
    flags: u32,
    sent: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    let ours = || {
        // SAFETY: the caller's arguments.
        let Some(message) = (unsafe { message.as_ref() }) else { return Err(WinsockError::FAULT) };
        let (list, name) =
            ((message.lpBuffers.cast_const(), message.dwBufferCount), (message.name.cast_const(), message.namelen));
        // SAFETY: the caller's arguments.
        unsafe { send_ours(socket, list, (sent, flags), name, (overlapped, routine)) }
    };
    // SAFETY: the caller's arguments, unchanged.
    call(SOCKET_ERROR, ours, || unsafe {
        winsock::WSA_SEND_MSG.get()(socket, message, flags, sent, overlapped, routine)
    })
}

pub(super) unsafe extern "system" fn wsa_recv_msg(
    socket: SOCKET,
    message: *mut WSAMSG,
    received: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32 {
    // SAFETY: the caller's arguments.
    let ours = || unsafe { receive_message(socket, message, received, (overlapped, routine)) };
    call_waiting(socket, SOCKET_ERROR, ours, || match WSA_RECV_MSG.real(socket) {
        // SAFETY: the caller's arguments, unchanged.
        Some(original) => unsafe { original(socket, message, received, overlapped, routine) },
        None => SOCKET_ERROR,
    })
}

/// # Safety
/// As the documentation of `WSARecvMsg` has it.
unsafe fn receive_message(
    socket: SOCKET,
    message: *mut WSAMSG,
    received: *mut u32,
    overlapped: Overlapped,
) -> Result<Option<i32>, WinsockError> {
    let Some(known) = table::get(socket) else { return Ok(None) };
    if message.is_null() {
        return Err(WinsockError::FAULT);
    }
    // SAFETY: as the caller promises.
    let (list, count, wanted) =
        unsafe { ((*message).lpBuffers, (*message).dwBufferCount, receive_flags((*message).dwFlags as i32)) };
    if !overlapped.0.is_null() {
        if !matches!(known.state(), State::Udp { .. }) {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        let parts = unsafe { Parts::new(list, count)? };
        parts.check_writable()?;
        let work = Work::Receive(Receive { parts, flags: wanted, sender: SenderPlace::Message(message) });
        let at_once = AtOnce { bytes: received, flags: null_mut() };
        // SAFETY: as the caller promises.
        return unsafe { begin(&known, overlapped, work, at_once) }.map(|()| Some(0));
    }
    // SAFETY: as the caller promises.
    unsafe {
        let mut flags = (*message).dwFlags;
        let name = ((*message).name, &raw mut (*message).namelen);
        let outcome =
            receive_ours(socket, (list.cast_const(), count), (received, &raw mut flags), name, (null_mut(), None));
        if !matches!(outcome, Ok(None)) {
            // There is none of what could be in it.
            (*message).Control.len = 0;
            (*message).dwFlags = flags;
        }
        outcome
    }
}
