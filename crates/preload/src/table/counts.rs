//! How many descriptors of this process refer to each description. The last one ends this process's
//! reference to the socket.

use crate::table::fd::{Entry, LIMIT, TABLE};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Relaxed, Ordering::SeqCst, fence};

/// How many descriptors of this process refer to each description.
static COUNTS: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];

/// Another descriptor of this process refers to a description.
pub(crate) fn add(index: u32) {
    COUNTS[index as usize].fetch_add(1, AcqRel);
}

/// The same, if any does already. Returns whether it did.
pub(crate) fn add_again(index: u32) -> bool {
    let more = |count: u32| (count != 0).then_some(count + 1);
    let counted = COUNTS[index as usize].fetch_update(AcqRel, Relaxed, more).is_ok();
    // Either `drop_last` sees the count, or the caller sees that another descriptor is being
    // closed.
    fence(SeqCst);
    counted
}

/// Whether any descriptor of this process refers to it.
pub(crate) fn is_counted(index: u32) -> bool {
    COUNTS[index as usize].load(Relaxed) != 0
}

/// A descriptor of this process does not refer to it any more. Returns whether that was the last.
pub(crate) fn drop_last(index: u32) -> bool {
    fence(SeqCst);
    // The counts are not maintained any more if the lane has ended meanwhile.
    COUNTS[index as usize].fetch_update(AcqRel, Relaxed, |count| count.checked_sub(1)) == Ok(1)
}

/// No descriptor of this process refers to it any more: it is a kernel socket, its lane has ended,
/// or it is only the parent's.
pub(crate) fn forget(index: u32) {
    COUNTS[index as usize].store(0, Relaxed);
}

/// Enters a new descriptor of a description into the table.
pub(crate) fn enter(fd: c_int, entry: Entry) {
    if let Some(index) = entry.description() {
        add(index);
    }
    TABLE.set(fd, entry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn only_what_is_counted_is_counted_again() {
        let fd = testing::socket(libc::SOCK_DGRAM);
        let index = TABLE.get(fd).description().unwrap();
        assert!(add_again(index));
        assert!(!drop_last(index));
        assert!(is_counted(index));
        assert!(!add_again(LIMIT as u32 - 1));
        testing::close(fd);
    }
}
