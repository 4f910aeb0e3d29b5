//! Whether more threads of the machine want to run than it has processors.
//!
//! Then what a thread is about to wait for may have to run on its own processor first: it offers
//! that before it polls, and not only after some microseconds of it. Where each has a processor,
//! an offer would keep two that talk to each other on one.

use crate::c::sys;
use crate::table::protect;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// A look takes a microsecond or two: a call of the system.
const BETWEEN: Span = Span::from_millis(5);

/// Of the last looks, so many count.
const LOOKS: u32 = 8;

thread_local! {
    static OWN: Cell<Crowd> = const { Cell::new(Crowd { next: Instant::from_nanos(0), seen: 0 }) };
}

/// What a thread has seen.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    /// When it looks again.
    next: Instant,
    /// The last looks, the latest in the lowest bit: whether there were more than processors.
    seen: u8,
}

impl Crowd {
    fn saw(&mut self, now: Instant, crowded: bool) {
        self.next = now + BETWEEN;
        self.seen = self.seen << 1 | u8::from(crowded);
    }

    /// Half of the looks.
    fn is_there(self) -> bool {
        self.seen.count_ones() >= LOOKS / 2
    }
}

/// Whether there is one, as the calling thread has seen lately.
pub(super) fn is_there(now: Instant) -> bool {
    let mut own = OWN.get();
    if now >= own.next {
        own.saw(now, look().is_some_and(|running| running > PROCESSORS.load(Relaxed)));
        OWN.set(own);
    }
    own.is_there()
}

/// The descriptor of the kernel's file; -1: it is not open. A wait may be that of a handler that
/// has interrupted `malloc`, or of a thread that may be cancelled: it opens none, and takes no
/// memory.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// How many processors the machine has: as that file, this knows of no limits to some of them.
static PROCESSORS: AtomicU32 = AtomicU32::new(u32::MAX);

/// Before the first wait.
pub(crate) fn prepare() {
    PROCESSORS.store(sys::processors_online(), Relaxed);
    if FILE.load(Relaxed) < 0
        && let Ok(fd) = sys::open_to_read(c"/proc/loadavg").and_then(protect::keep)
        && FILE.compare_exchange(-1, fd, Relaxed, Relaxed).is_err()
    {
        protect::release(fd);
    }
}

/// How many threads of the machine run or want to (proc_loadavg(5)).
fn look() -> Option<u32> {
    let mut text = [0; 64];
    let len = sys::read_from_begin(FILE.load(Relaxed), &mut text).ok()?;
    running(core::str::from_utf8(&text[..len]).ok()?)
}

fn running(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_file_is_read() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running("0.20 0.18 0.12"), None);
        assert_eq!(running("0.20 0.18 0.12 x/80 1"), None);
        prepare();
        prepare();
        let mut looked = None;
        assert_eq!(crate::c::counting::uses(|| looked = look()), 0, "of the heap");
        assert!(looked.is_some());
        assert!(look().is_some_and(|running| running > 0), "this thread runs");
    }

    #[test]
    fn one_look_makes_no_crowd_and_one_ends_none() {
        let at = |look: u64| Instant::from_nanos(1_000_000_000) + BETWEEN.times(look);
        let mut crowd = Crowd { next: Instant::from_nanos(0), seen: 0 };
        for look in 0..4 {
            assert!(!crowd.is_there());
            crowd.saw(at(look), true);
            assert_eq!(crowd.next, at(look + 1));
        }
        assert!(crowd.is_there());
        for look in 4..8 {
            crowd.saw(at(look), false);
            assert!(crowd.is_there(), "half of the looks");
        }
        crowd.saw(at(8), false);
        assert!(!crowd.is_there());
    }
}
