//! What system calls answer.

use std::io;

/// The answer, or the thread's error number if there is none.
pub(crate) fn answer(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}
