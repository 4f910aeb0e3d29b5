//! Options of kernel sockets.

use super::check;
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use core::ffi::c_int;
use libc::socklen_t;
use tickwire_linux_abi::option::ALGORITHM_NAME;

/// Sets an option whose value is of type `T`, plain data.
pub(crate) fn set_option<T: Copy>(fd: c_int, level: c_int, option: c_int, value: &T) -> Result<()> {
    // SAFETY: the value is as long as said.
    check(unsafe {
        real::setsockopt(fd, level, option, core::ptr::from_ref(value).cast(), size_of::<T>() as socklen_t)
    })
    .map(drop)
}

/// Sets an option to a value of bytes.
pub(crate) fn set_option_bytes(fd: c_int, level: c_int, option: c_int, value: &[u8]) -> Result<()> {
    // SAFETY: the value is as long as said.
    check(unsafe { real::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as socklen_t) }).map(drop)
}

/// The error with which the kernel refuses an option of any TCP socket, if it does. It is tried on
/// a temporary socket.
pub(crate) fn refused_by_kernel(level: c_int, option: c_int, value: &[u8]) -> Option<Errno> {
    let fd = super::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).ok()?;
    let refused = set_option_bytes(fd, level, option, value).err();
    super::close(fd);
    refused
}

/// Removes the socket filter, if there is one.
pub(crate) fn detach_filter(fd: c_int) -> Result<()> {
    let ignored: c_int = 0;
    // SAFETY: the value is as long as said.
    check(unsafe {
        real::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            (&raw const ignored).cast(),
            size_of::<c_int>() as socklen_t,
        )
    })
    .map(drop)
}

/// Reads an option that is a C int.
pub(crate) fn option(fd: c_int, level: c_int, option: c_int) -> Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: `len` says how long `value` is.
    check(unsafe { real::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Reads an option as bytes. Returns how many.
pub(crate) fn option_bytes(fd: c_int, level: c_int, option: c_int, value: &mut [u8]) -> Result<usize> {
    let mut len = value.len() as socklen_t;
    // SAFETY: `len` says how long `value` is.
    check(unsafe { real::getsockopt(fd, level, option, value.as_mut_ptr().cast(), &raw mut len) })?;
    Ok((len as usize).min(value.len()))
}

/// Reads the `linger` option: `None` if off, else seconds.
pub(crate) fn linger(fd: c_int) -> Option<u32> {
    let mut value = libc::linger { l_onoff: 0, l_linger: 0 };
    let mut len = size_of::<libc::linger>() as socklen_t;
    // SAFETY: `len` says how long `value` is.
    let got = unsafe { real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw mut value).cast(), &raw mut len) };
    (got == 0 && value.l_onoff != 0).then_some(value.l_linger.max(0) as u32)
}

/// The name of a TCP socket's congestion control, which ends with zeros.
pub(crate) fn congestion(fd: c_int) -> Option<[u8; ALGORITHM_NAME]> {
    let mut name = [0u8; ALGORITHM_NAME];
    let mut len = name.len() as socklen_t;
    // SAFETY: `len` says how long `name` is.
    let got = unsafe {
        real::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_mut_ptr().cast(), &raw mut len)
    };
    (got == 0).then_some(name)
}
