//! C's streams over sockets of ours.

use crate::base::locked::{Lock, Locked};
use core::ffi::c_int;

/// By address, to be flushed at the program's end; each with its descriptor.
static STREAMS: Lock<Vec<(usize, c_int)>> = Lock::new(Vec::new());

/// The list, locked; also held across fork.
pub(crate) fn list() -> Locked<'static, Vec<(usize, c_int)>> {
    STREAMS.lock()
}
