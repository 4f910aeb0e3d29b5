//! Winsock's own functions, as this library calls them for itself.

use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use std::os::windows::io::BorrowedHandle;
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{
    INVALID_SOCKET, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, SOCKADDR_INET, TIMEVAL,
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

/// Binds a socket.
pub(crate) fn bind(handle: Handle, local: Endpoint) -> Result<()> {
    let (name, size) = sockaddr::from_endpoint(local, 0);
    // SAFETY: an address of this length.
    done(unsafe { winsock::BIND.get()(handle, (&raw const name).cast(), size) })
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

/// Whether the kernel has something to read for a socket, or a connection to accept.
pub(crate) fn is_readable(handle: Handle) -> bool {
    // A set of one: the count, and the socket (`FD_SET`).
    let mut set = [1, handle];
    let now = TIMEVAL { tv_sec: 0, tv_usec: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: a set of one socket, which the count says, and no others.
    unsafe { winsock::SELECT.get()(0, set.as_mut_ptr().cast(), none, none, &raw const now) == 1 }
}
