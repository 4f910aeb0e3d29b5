//! Kernel sockets: their calls and their names.

use super::descriptor::status;
use super::{called, check};
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use core::ffi::c_int;
use libc::socklen_t;
use tickwire_linux_abi::option::SO_NETNS_COOKIE;
use tickwire_linux_abi::sockaddr::{MAX_NAME, SocketName};
use tickwire_stack::addr::Endpoint;

/// A new kernel socket.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    // SAFETY: plain numbers.
    check(unsafe { real::socket(domain, kind, protocol) })
}

/// Binds a kernel socket.
pub(crate) fn bind(fd: c_int, address: &[u8]) -> Result<()> {
    // SAFETY: the slice is as long as said.
    check(unsafe { real::bind(fd, address.as_ptr().cast(), address.len() as socklen_t) }).map(drop)
}

/// Connects a kernel socket.
pub(crate) fn connect(fd: c_int, address: &[u8]) -> Result<()> {
    // SAFETY: the slice is as long as said.
    called(unsafe { libc::syscall(libc::SYS_connect, fd, address.as_ptr(), address.len()) }).map(drop)
}

/// Makes a kernel socket listen.
pub(crate) fn listen(fd: c_int, backlog: c_int) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { real::listen(fd, backlog) }).map(drop)
}

/// Shuts a kernel socket down.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { real::shutdown(fd, how) }).map(drop)
}

/// Accepts from a kernel socket; the peer's name is returned as bytes.
pub(crate) fn accept(fd: c_int, flags: c_int) -> Result<(c_int, [u8; MAX_NAME], usize)> {
    let mut bytes = [0u8; MAX_NAME];
    let mut len = MAX_NAME as socklen_t;
    // SAFETY: `len` says how long `bytes` is.
    let new =
        called(unsafe { libc::syscall(libc::SYS_accept4, fd, bytes.as_mut_ptr(), &raw mut len, flags) })? as c_int;
    Ok((new, bytes, (len as usize).min(MAX_NAME)))
}

/// The name of a kernel socket, if it is an IP one: its own, or its peer's.
pub(crate) fn socket_name(fd: c_int, peer: bool) -> Result<Endpoint> {
    let mut bytes = [0u8; MAX_NAME];
    let mut len = MAX_NAME as socklen_t;
    let (address, room) = (bytes.as_mut_ptr().cast(), &raw mut len);
    // SAFETY: `len` says how long `bytes` is.
    check(unsafe { if peer { real::getpeername(fd, address, room) } else { real::getsockname(fd, address, room) } })?;
    match SocketName::parse(&bytes[..(len as usize).min(MAX_NAME)]) {
        SocketName::Inet { endpoint, .. } => Ok(endpoint),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// A number that identifies the network namespace in which a socket was made.
pub(crate) fn namespace(fd: c_int) -> Result<u64> {
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as socklen_t;
    let (value, room) = ((&raw mut cookie).cast(), &raw mut len);
    // SAFETY: `len` says how much room there is for the value.
    check(unsafe { real::getsockopt(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, value, room) })?;
    Ok(cookie)
}

/// The inode of a socket, which identifies it in every process that has it; `None` if the
/// descriptor is not a socket.
pub(crate) fn socket_inode(fd: c_int) -> Option<u64> {
    let stat = status(fd)?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}
