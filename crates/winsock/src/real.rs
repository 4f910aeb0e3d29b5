//! Winsock's own functions, as this library calls them for itself.

use crate::extensions::{ACCEPT_EX, GET_ACCEPT_EX_SOCKADDRS};
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::names::endpoint;
use crate::own_request::OwnRequest;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::null_mut;
use std::time::Duration;
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Foundation::{HANDLE, HWND};
use windows_sys::Win32::Networking::WinSock::{
    FD_ACCEPT, FD_READ, FIONBIO, FIONREAD, INVALID_SOCKET, IPPROTO_TCP, IPPROTO_UDP, MSG_PEEK, SO_REUSEADDR,
    SOCK_DGRAM, SOCK_STREAM, SOCKADDR_INET, SOL_SOCKET, TIMEVAL, WSA_IO_PENDING,
};

/// A handle, as programs have it.
pub(crate) type Handle = usize;

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

type Result<T> = core::result::Result<T, WinsockError>;

fn done(result: i32) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// The last error of Winsock.
pub(crate) fn last() -> WinsockError {
    // SAFETY: no memory is passed.
    WinsockError(unsafe { winsock::WSA_GET_LAST_ERROR.get()() })
}

/// Where a socket is bound; port 0: nowhere.
pub(crate) fn name(handle: Handle) -> Result<Endpoint> {
    let (mut name, mut size) = (sockaddr::none(), size_of::<SOCKADDR_INET>() as i32);
    // SAFETY: room for an address of any family, and for its length.
    let result = unsafe { winsock::GET_SOCK_NAME.get()(handle, (&raw mut name).cast(), &raw mut size) };
    // (A socket that is not bound has none.)
    if result != 0 { Ok(Endpoint::default()) } else { Ok(sockaddr::endpoint(&name).unwrap_or_default()) }
}

/// Binds a socket of this family.
pub(crate) fn bind(handle: Handle, family: Family, local: Endpoint) -> Result<()> {
    let (name, size) = sockaddr::for_socket(family, local);
    // SAFETY: an address of this length.
    done(unsafe { winsock::BIND.get()(handle, (&raw const name).cast(), size) })
}

/// Gives a datagram socket of this family a peer.
pub(crate) fn connect(handle: Handle, family: Family, peer: Endpoint) -> Result<()> {
    let (name, size) = sockaddr::for_socket(family, peer);
    // SAFETY: an address of this length.
    done(unsafe { winsock::CONNECT.get()(handle, (&raw const name).cast(), size) })
}

/// Whether a socket may be bound to a port that another one has (`SO_REUSEADDR`).
pub(crate) fn reuses_address(handle: Handle) -> bool {
    let (mut value, mut size) = (0_i32, size_of::<i32>() as i32);
    let place = (&raw mut value).cast();
    // SAFETY: room for so many bytes, and for their number.
    let read = unsafe { winsock::GET_SOCK_OPT.get()(handle, SOL_SOCKET, SO_REUSEADDR, place, &raw mut size) };
    read != 0 || value != 0
}

/// Makes a socket.
pub(crate) fn socket(family: Family, kind: Kind) -> Result<Handle> {
    let (kind, protocol) = match kind {
        Kind::Stream => (SOCK_STREAM, IPPROTO_TCP),
        Kind::Datagram => (SOCK_DGRAM, IPPROTO_UDP),
    };
    // SAFETY: no memory is passed.
    let made = unsafe { winsock::SOCKET.get()(sockaddr::family_number(family).into(), kind, protocol) };
    if made == INVALID_SOCKET { Err(last()) } else { Ok(made) }
}

/// Sets an option that the kernel has accepted for another socket.
pub(crate) fn set_option(handle: Handle, level: i32, option: i32, value: &[u8]) {
    // SAFETY: so many bytes.
    unsafe { winsock::SET_SOCK_OPT.get()(handle, level, option, value.as_ptr(), value.len() as i32) };
}

/// Another handle of a socket, to which the program's handle says nothing. `None` if the process
/// has too many.
pub(crate) fn duplicate(handle: Handle) -> Option<OwnedHandle> {
    handle_of(handle).try_clone_to_owned().ok()
}

/// Closes a socket.
pub(crate) fn close(handle: Handle) {
    // SAFETY: no memory is passed.
    unsafe { winsock::CLOSE_SOCKET.get()(handle) };
}

/// A socket as a handle, for the service.
pub(crate) fn handle_of(handle: Handle) -> BorrowedHandle<'static> {
    // SAFETY: if the program closes it meanwhile, the service's copy of it fails, or is one of
    // another socket of this program, which justifies no more than that.
    unsafe { BorrowedHandle::borrow_raw(std::ptr::with_exposed_provenance_mut(handle)) }
}

/// Has an event set whenever a datagram or a connection arrives for a socket of the kernel. From
/// then on it does not block.
pub(crate) fn signal_arrivals(handle: Handle, event: BorrowedHandle<'_>) {
    let arrivals = (FD_READ | FD_ACCEPT).cast_signed();
    // SAFETY: no memory is passed; an event that is open during the call, to which the kernel
    // refers from then on.
    unsafe { winsock::WSA_EVENT_SELECT.get()(handle, event.as_raw_handle() as isize, arrivals) };
}

/// Takes back [`signal_arrivals`]: for a socket that becomes the kernel's, or that a listener has
/// accepted, which inherits it.
pub(crate) fn signal_no_more(handle: Handle, is_nonblocking: bool) {
    ask_for_no_events(handle);
    set_nonblocking(handle, is_nonblocking);
}

/// Has the kernel tell of these events: an event object, or a window by a message. From then on the
/// socket does not block.
pub(crate) fn ask_for_events(handle: Handle, (event, window, message): (HANDLE, HWND, u32), events: u32) {
    let events = events.cast_signed();
    // SAFETY: no memory is passed; handles that are open during the call.
    unsafe {
        if window.is_null() {
            winsock::WSA_EVENT_SELECT.get()(handle, event as isize, events);
        } else {
            winsock::WSA_ASYNC_SELECT.get()(handle, window, message, events);
        }
    }
}

/// Has the kernel tell of no events.
pub(crate) fn ask_for_no_events(handle: Handle) {
    // SAFETY: no memory is passed.
    unsafe { winsock::WSA_EVENT_SELECT.get()(handle, 0, 0) };
}

/// Has the kernel's socket block, or not. It must not block while it tells of events.
pub(crate) fn set_nonblocking(handle: Handle, is_nonblocking: bool) {
    let mut argument = u32::from(is_nonblocking);
    // SAFETY: room for the argument.
    unsafe { winsock::IOCTL_SOCKET.get()(handle, FIONBIO, &raw mut argument) };
}

/// Whether the kernel has something to read for a socket, or a connection to accept.
pub(crate) fn is_readable(handle: Handle) -> bool {
    wait_readable(handle, Duration::ZERO) == 1
}

/// Waits until a call that receives or accepts at a socket of the kernel would return, for so long
/// at most. Returns whether it would: it may have an error to tell.
pub(crate) fn would_return(handle: Handle, time: Duration) -> bool {
    wait_readable(handle, time) != 0
}

/// `select` for one socket.
fn wait_readable(handle: Handle, time: Duration) -> i32 {
    // A set of one: the count, and the socket (`FD_SET`).
    let mut set = [1, handle];
    let tv_sec = i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
    let time = TIMEVAL { tv_sec, tv_usec: time.subsec_micros().cast_signed() };
    let none = std::ptr::null_mut();
    // SAFETY: a set of one socket, which the count says, and no others.
    unsafe { winsock::SELECT.get()(0, set.as_mut_ptr().cast(), none, none, &raw const time) }
}

/// How many bytes the kernel has for a socket; 0 also at its end, and for an empty datagram.
pub(crate) fn waiting_bytes(handle: Handle) -> u32 {
    let mut count = 0;
    // SAFETY: room for the count.
    let result = unsafe { winsock::IOCTL_SOCKET.get()(handle, FIONREAD, &raw mut count) };
    if result == 0 { count } else { 0 }
}

/// Receives a datagram of the kernel's half of a socket that does not block.
///
/// # Errors
/// [`WinsockError::WOULD_BLOCK`] if there is none; what the kernel says.
pub(crate) fn receive_now(handle: Handle, is_peek: bool) -> Result<(Vec<u8>, Endpoint)> {
    const LONGEST: usize = 1 << 16;
    let mut datagram = vec![0; LONGEST];
    let (mut name, mut size) = (sockaddr::none(), size_of::<SOCKADDR_INET>() as i32);
    let flags = if is_peek { MSG_PEEK } else { 0 };
    // SAFETY: room for so many bytes, for an address of any family, and for its length.
    let received = unsafe {
        winsock::RECV_FROM.get()(
            handle,
            datagram.as_mut_ptr(),
            LONGEST as i32,
            flags,
            (&raw mut name).cast(),
            &raw mut size,
        )
    };
    if received < 0 {
        return Err(last());
    }
    datagram.truncate(received as usize);
    Ok((datagram, sockaddr::endpoint(&name).unwrap_or_default()))
}

/// Receives the first bytes of a connection of the kernel, if there are any.
///
/// # Safety
/// So many bytes may be written there.
pub(crate) unsafe fn receive_first(handle: Handle, into: *mut u8, room: usize) -> Option<Result<usize>> {
    if !is_readable(handle) {
        return None;
    }
    // SAFETY: as the caller promises.
    let received = unsafe { winsock::RECV.get()(handle, into, i32::try_from(room).unwrap_or(i32::MAX), 0) };
    Some(if received < 0 { Err(last()) } else { Ok(received as usize) })
}

/// So long a request may take that is expected to be complete at once.
const AT_ONCE_MS: u32 = 100;

/// Has a socket take a connection that the kernel has for a listener. Returns its two ends.
///
/// # Errors
/// [`WinsockError::WOULD_BLOCK`] if there is none; what the kernel says.
pub(crate) fn accept_into(listener: Handle, socket: Handle) -> Result<(Endpoint, Endpoint)> {
    if !is_readable(listener) {
        return Err(WinsockError::WOULD_BLOCK);
    }
    const PLACE: u32 = size_of::<SOCKADDR_INET>() as u32 + 16;
    let (Some(accept_ex), Some(ends_of)) = (ACCEPT_EX.real(listener), GET_ACCEPT_EX_SOCKADDRS.real(listener)) else {
        return Err(WinsockError::INVALID);
    };
    let mut request = OwnRequest::new(0).map_err(|_| WinsockError::INVALID)?;
    let mut addresses = [0_u64; 2 * PLACE as usize / 8 + 1];
    let place = addresses.as_mut_ptr().cast();
    let mut received = 0;
    // SAFETY: room for two addresses; the request is complete before this returns.
    unsafe {
        if accept_ex(listener, socket, place, 0, PLACE, PLACE, &raw mut received, request.overlapped()) == 0 {
            match last() {
                WinsockError(WSA_IO_PENDING) => {
                    let listener = std::ptr::with_exposed_provenance_mut(listener);
                    request.finish(listener, AT_ONCE_MS).map_err(|_| WinsockError::WOULD_BLOCK)?;
                }
                error => return Err(error),
            }
        }
    }
    let (mut local, mut remote) = (null_mut(), null_mut());
    let (mut local_len, mut remote_len) = (0, 0);
    // SAFETY: what the call has filled, and room for the results, which point into it.
    unsafe {
        ends_of(place, 0, PLACE, PLACE, &raw mut local, &raw mut local_len, &raw mut remote, &raw mut remote_len);
        let ends = [(local, local_len), (remote, remote_len)].map(|(at, len)| endpoint(at, len).unwrap_or_default());
        Ok((ends[0], ends[1]))
    }
}

/// Sends a datagram by the kernel's socket, of this family. Returns how many bytes.
///
/// # Errors
/// What the kernel says.
pub(crate) fn send_to(handle: Handle, family: Family, data: &[u8], to: Option<Endpoint>) -> Result<usize> {
    let len = i32::try_from(data.len()).map_err(|_| WinsockError::MESSAGE_SIZE)?;
    // SAFETY: so many bytes; an address of this length, or none.
    let sent = unsafe {
        match to.map(|to| sockaddr::for_socket(family, to)) {
            Some((name, size)) => winsock::SEND_TO.get()(handle, data.as_ptr(), len, 0, (&raw const name).cast(), size),
            None => winsock::SEND.get()(handle, data.as_ptr(), len, 0),
        }
    };
    if sent < 0 { Err(last()) } else { Ok(sent as usize) }
}
