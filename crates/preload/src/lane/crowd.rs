//! Whether more threads of the machine are runnable than it has processors.
//!
//! Then the program that a thread is about to wait for may have to run on the thread's own
//! processor first. So the thread yields before it polls, and not only after some microseconds of
//! polling. Where each thread has a processor, a yield would keep two that talk to each other on
//! one.

use crate::sys;
use crate::table::protect;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::cell::Cell;
use tickwire_stack::time::{Instant, Span};

/// The interval between checks: one takes a microsecond or two, a system call.
const BETWEEN: Span = Span::from_millis(5);

/// This many of the last checks count.
const LOOKS: u32 = 8;

thread_local! {
    static OWN: Cell<Crowd> = const { Cell::new(Crowd { next: Instant::from_nanos(0), seen: 0 }) };
}

/// The checks of one thread.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    /// When it checks again.
    next: Instant,
    /// The last checks, the latest in the lowest bit: whether there were more runnable threads than
    /// processors.
    seen: u8,
}

impl Crowd {
    fn saw(&mut self, now: Instant, crowded: bool) {
        self.next = now + BETWEEN;
        self.seen = self.seen << 1 | u8::from(crowded);
    }

    /// True in half of the checks or more.
    fn is_there(self) -> bool {
        self.seen.count_ones() >= LOOKS / 2
    }
}

/// Whether the machine is overloaded, by the calling thread's recent checks.
pub(crate) fn is_there(now: Instant) -> bool {
    let mut own = OWN.get();
    if now >= own.next {
        own.saw(now, look().is_some_and(|running| running > PROCESSORS.load(Relaxed)));
        OWN.set(own);
    }
    own.is_there()
}

/// The descriptor of the kernel's file; -1: it is not open. A check may run in a handler that has
/// interrupted `malloc`, or in a thread that may be cancelled, so it opens no descriptor and
/// allocates no memory.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// How many processors the machine has. Like that file, it ignores affinity limits.
static PROCESSORS: AtomicU32 = AtomicU32::new(u32::MAX);

/// Before the first wait.
pub(super) fn prepare() {
    PROCESSORS.store(sys::processors_online(), Relaxed);
    if FILE.load(Relaxed) < 0
        && let Ok(fd) = sys::open_to_read(c"/proc/loadavg").and_then(protect::keep)
        && FILE.compare_exchange(-1, fd, Relaxed, Relaxed).is_err()
    {
        protect::release(fd);
    }
}

/// How many threads of the machine are runnable (proc_loadavg(5)).
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
        assert_eq!(crate::exports::counting::uses(|| looked = look()), 0, "of the heap");
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
