//! Socket addresses in the program's memory.

use super::guarded;
use crate::sys::errno::{Errno, Result};
use libc::{sockaddr, socklen_t};
use tickwire_linux_abi::sockaddr::{MAX_NAME, STORAGE};

/// The longest possible one.
pub(crate) const LONGEST: socklen_t = STORAGE as socklen_t;

/// Whether the kernel, for which a length is signed, refuses it before it reads any of the data.
pub(crate) fn is_negative(len: socklen_t) -> bool {
    len > i32::MAX as socklen_t
}

/// Reads a socket address as it is, cut to what an IP address can have; `None` for a null pointer.
///
/// # Errors
/// `EINVAL` if the length is negative, as the kernel sees it, or longer than any address; `EFAULT`
/// if it is not accessible.
///
/// # Safety
/// `address` is the program's to give.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<Option<([u8; MAX_NAME], usize)>> {
    if address.is_null() {
        return Ok(None);
    }
    if len > LONGEST {
        return Err(Errno(libc::EINVAL));
    }
    let mut bytes = [0u8; MAX_NAME];
    let n = (len as usize).min(MAX_NAME);
    // SAFETY: there is room for `n`.
    if !unsafe { guarded::copy(address.cast(), bytes.as_mut_ptr(), n) } {
        return Err(guarded::FAULT);
    }
    Ok(Some((bytes, n)))
}

/// Stores a name in the program's memory, cut to its room, and returns the whole length there.
///
/// # Errors
/// `EINVAL` if the room is negative, as the kernel sees it; `EFAULT` if a location is not
/// accessible.
///
/// # Safety
/// The locations are the program's to give.
pub(crate) unsafe fn store(name: &[u8], address: *mut sockaddr, len: *mut socklen_t) -> Result<()> {
    if address.is_null() {
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    let room = unsafe { guarded::load(len) }?;
    if is_negative(room) {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: by the caller's promise; at most `room` bytes are written.
    unsafe {
        if !guarded::copy(name.as_ptr(), address.cast(), name.len().min(room as usize)) {
            return Err(guarded::FAULT);
        }
        guarded::store(name.len() as socklen_t, len)
    }
}
