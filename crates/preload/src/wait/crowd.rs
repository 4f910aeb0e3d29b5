//! Whether more threads of the machine want to run than it has processors.
//!
//! Then what a thread is about to wait for may have to run on its own processor first: it offers
//! that before it polls, and not only after some microseconds of it. Where each has a processor,
//! an offer would keep two that talk to each other on one.

use crate::base::inside;
use crate::c::sys;
use std::cell::Cell;
use std::sync::OnceLock;
use tickwire_stack::time::{Instant, Span};

/// A look takes some microseconds: three calls of the system.
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
        own.saw(now, look().is_some_and(|running| running > processors()));
        OWN.set(own);
    }
    own.is_there()
}

/// How many threads of the machine run or want to (proc_loadavg(5)).
fn look() -> Option<u32> {
    let _inside = inside::enter()?;
    running(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

fn running(loadavg: &str) -> Option<u32> {
    loadavg.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

/// How many processors the machine has: as that file, this knows of no limits to some of them.
fn processors() -> u32 {
    static ONLINE: OnceLock<u32> = OnceLock::new();
    *ONLINE.get_or_init(sys::processors_online)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_file_is_read() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running("0.20 0.18 0.12"), None);
        assert_eq!(running("0.20 0.18 0.12 x/80 1"), None);
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
