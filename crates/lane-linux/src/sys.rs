//! Results of system calls.

use std::io;

/// The result, or the thread's error number if it is negative.
pub(crate) fn answer(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
