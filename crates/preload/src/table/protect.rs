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

/// How many descriptors the kernel's table of this process would have room for without the lane's, which are at high numbers. `None` without `/proc`.
pub(crate) fn room_of_program() -> Option<c_int> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<c_int>().ok());
    let highest = numbers.filter(|&fd| TABLE.get(fd) != Entry::Lane).max().unwrap_or(0);
    Some(room_for(highest))
}

/// The size of the kernel's table with this descriptor (`alloc_fdtable` of Linux).
fn room_for(highest: c_int) -> c_int {
    const SMALLEST: c_int = 64;
    const STEP: u32 = 128;
    if highest < SMALLEST { SMALLEST } else { ((highest as u32 / STEP + 1).next_power_of_two() * STEP) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_table_is_as_large_as_it_would_be_without_us() {
        let sizes = [0, 63, 64, 127, 128, 255, 256, 1023, 1024, 20_000].map(room_for);
        assert_eq!(sizes, [64, 64, 128, 128, 256, 256, 512, 1024, 2048, 32_768]);
        let kept = keep(sys::eventfd().unwrap()).unwrap();
        let room = room_of_program().unwrap();
        assert!(room < kept, "{room}, ours is {kept}");
        release(kept);
    }

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
