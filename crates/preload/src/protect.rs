//! The lane's own descriptors: at high numbers, out of the program's way, and entered in the table so that its `close` spares them.

use crate::c::sys;
use crate::errno::Result;
use crate::fd::{Entry, TABLE};
use core::ffi::c_int;

/// Where the lane's descriptors begin, counted down from the limit of this process.
const BELOW_LIMIT: c_int = 128;

/// Moves a descriptor to a high number, close-on-exec, and protects it.
pub(crate) fn keep(fd: c_int) -> Result<c_int> {
    let limit = sys::descriptor_limit();
    let floor = (limit - BELOW_LIMIT).max(limit / 2);
    let moved = sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor).or_else(|_| sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3));
    sys::close(fd);
    let moved = moved?;
    TABLE.set(moved, Entry::Lane);
    Ok(moved)
}

/// Closes a protected descriptor.
pub(crate) fn release(fd: c_int) {
    if TABLE.get(fd) == Entry::Lane {
        TABLE.set(fd, Entry::Foreign);
        sys::close(fd);
    }
}
