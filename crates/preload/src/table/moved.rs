//! Which kernel sockets have replaced others behind the program's descriptors.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The last connections that were handed over: the kernel sockets behind their descriptors, before
/// and after. A thread that waited in a call may wake when its description has been reused.
static MOVED: [[AtomicU64; 2]; 64] = [const { [const { AtomicU64::new(0) }; 2] }; 64];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The kernel socket `after` replaces `before`.
pub(crate) fn remember(before: u64, after: u64) {
    let [old, new] = &MOVED[NEXT.fetch_add(1, Relaxed) % MOVED.len()];
    new.store(after, Release);
    old.store(before, Release);
}

/// Whether the kernel socket `after` has replaced `before`.
pub(crate) fn has_moved(before: u64, after: u64) -> bool {
    before != 0 && MOVED.iter().any(|[old, new]| old.load(Acquire) == before && new.load(Acquire) == after)
}
