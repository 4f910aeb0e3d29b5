//! The lane's own descriptors: at numbers that the program cannot ask for, and entered in the table so that its `close` spares them.
//!
//! A descriptor's number may lie above the soft limit, if that was higher when it was made; `dup2` to such a number fails. Only where the hard limit leaves
//! no room are they at the highest numbers below, in the way of a program that wants just these.

use crate::base::errno::Result;
use crate::c::sys;
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;

/// Where the lane's descriptors begin, counted down from the limit of this process.
const BELOW_LIMIT: c_int = 128;

/// Moves a descriptor to a high number, close-on-exec, and protects it.
pub(crate) fn keep(fd: c_int) -> Result<c_int> {
    // A handler that jumped away in the midst would leave the limit raised.
    let _holding = crate::base::locked::Holding::new();
    let limit = sys::descriptor_limit();
    let floor = (limit - BELOW_LIMIT).max(limit / 2);
    let moved = sys::duplicate_above_limit(fd)
        .or_else(|_| sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, floor))
        .or_else(|_| sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_descriptors_are_beyond_the_programs_reach_and_its_limit_stays() {
        let limit = sys::descriptor_limit();
        sys::set_descriptor_limit(500).unwrap();
        let kept = keep(sys::eventfd().unwrap()).unwrap();
        assert!(kept >= 500, "{kept}");
        assert_eq!(sys::descriptor_limit(), 500);
        // SAFETY: plain numbers.
        assert_eq!(unsafe { crate::c::real::dup2(2, kept) }, -1);
        sys::ring(kept);
        release(kept);
        sys::set_descriptor_limit(limit).unwrap();
    }
}
