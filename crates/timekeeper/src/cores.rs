//! Whether the processors' counters agree: the clock may be read on any processor.
//!
//! Two threads on two processors pass timestamps to each other. A timestamp later than the
//! receiver's counter shows that this counter is behind. The quickest transfer in each direction
//! bounds the offset: `-back <= offset <= forth`, as in an exchange with a server (RFC 5905 §8).

use crate::os::{pin, processors};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tickclock::{CounterKind, counter};

/// Round trips between two processors.
const ROUNDS: u32 = 500;
/// Timeout for two processors; one that is busy is left out.
const TIMEOUT: Duration = Duration::from_millis(20);
/// Time limit for all: on a machine with hundreds of processors some are left out.
const ALTOGETHER: Duration = Duration::from_millis(500);
/// Reads of the shared timestamp between two checks of the deadline.
const LOOKS: u32 = 1024;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The counters of so many processors agree with the first one's, to within so many counts.
    Within {
        /// How many were compared, including the first.
        processors: usize,
        /// How far one of them can be from the first.
        counts: u64,
    },
    /// A processor's counter is behind or ahead of the first one's by at least so many counts.
    Apart {
        /// The first one.
        first: usize,
        /// The other one.
        other: usize,
        /// By at least this.
        counts: u64,
    },
}

/// Compares the counters of the processors that this thread may run on.
#[must_use]
pub(crate) fn compare(kind: CounterKind) -> Agreement {
    let none = Agreement::Within { processors: 1, counts: 0 };
    let mut processors = processors().into_iter();
    let Some(first) = processors.next() else { return none };
    let begin = Instant::now();
    let (mut compared, mut widest) = (1, 0);
    for other in processors.take_while(|_| begin.elapsed() < ALTOGETHER) {
        let Some(offset) = hand_over(kind, [first, other]) else { continue };
        if let Some(counts) = offset.apart() {
            return Agreement::Apart { first, other, counts };
        }
        compared += 1;
        widest = widest.max(offset.most());
    }
    Agreement::Within { processors: compared, counts: widest }
}

/// Bounds on the offset of the second counter from the first, in counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    /// Ahead at most by this: the quickest transfer to the second, measured with both counters.
    forth: i64,
    /// Behind at most by this: the quickest transfer back.
    back: i64,
}

impl Offset {
    /// A transfer that took negative time shows that the counters are apart.
    fn apart(self) -> Option<u64> {
        let least = self.forth.min(self.back);
        (least < 0).then_some(least.unsigned_abs())
    }

    /// How far they can be apart.
    fn most(self) -> u64 {
        self.forth.max(self.back).unsigned_abs()
    }
}

/// Passes timestamps back and forth between two processors. `None` after a timeout, or if a thread
/// may not run on one of them.
fn hand_over(kind: CounterKind, [first, second]: [usize; 2]) -> Option<Offset> {
    let (forth, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut to, mut fro) = (None, None);
    thread::scope(|scope| {
        let other = scope.spawn(|| on(second, || answer(kind, &forth, &back)));
        to = scope.spawn(|| on(first, || ask(kind, &forth, &back))).join().ok().flatten();
        fro = other.join().ok().flatten();
    });
    Some(Offset { forth: fro?, back: to? })
}

/// Runs a function pinned to one processor.
fn on<T>(processor: usize, run: impl FnOnce() -> Option<T>) -> Option<T> {
    pin(processor)?;
    run()
}

/// Sends timestamps and receives those that come back; returns the quickest transfer back.
fn ask(kind: CounterKind, forth: &AtomicU64, back: &AtomicU64) -> Option<i64> {
    let until = Instant::now() + TIMEOUT;
    let (mut last, mut quickest) = (0, i64::MAX);
    for _ in 0..ROUNDS {
        forth.store(stamp(kind), Ordering::Release);
        last = await_change(back, last, until)?;
        quickest = quickest.min(stamp(kind).wrapping_sub(last) as i64);
    }
    Some(quickest)
}

/// Receives timestamps and sends others back; returns the quickest transfer forth.
fn answer(kind: CounterKind, forth: &AtomicU64, back: &AtomicU64) -> Option<i64> {
    let until = Instant::now() + TIMEOUT;
    let (mut last, mut quickest) = (0, i64::MAX);
    for _ in 0..ROUNDS {
        last = await_change(forth, last, until)?;
        quickest = quickest.min(stamp(kind).wrapping_sub(last) as i64);
        back.store(stamp(kind), Ordering::Release);
    }
    Some(quickest)
}

/// The counter, but never 0: that stands for "no timestamp yet".
fn stamp(kind: CounterKind) -> u64 {
    counter::read(kind).0.max(1)
}

fn await_change(place: &AtomicU64, last: u64, until: Instant) -> Option<u64> {
    loop {
        for _ in 0..LOOKS {
            let now = place.load(Ordering::Acquire);
            if now != last {
                return Some(now);
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= until {
            return None;
        }
        // Both threads may share this processor if the process's CPU affinity was restricted
        // meanwhile.
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_clock_is_the_same_on_all_processors() {
        let agreement = compare(CounterKind::MonotonicRaw);
        assert!(matches!(agreement, Agreement::Within { .. }), "{agreement:?}");
    }

    #[test]
    fn a_hand_over_that_took_less_than_no_time_shows_that_counters_are_apart() {
        assert_eq!(Offset { forth: 90, back: 110 }.apart(), None);
        assert_eq!(Offset { forth: 90, back: 110 }.most(), 110);
        assert_eq!(Offset { forth: -900, back: 1_100 }.apart(), Some(900));
        assert_eq!(Offset { forth: 1_100, back: -900 }.apart(), Some(900));
    }

    #[test]
    fn a_processor_that_never_answers_is_left_out() {
        let silent = AtomicU64::new(0);
        assert_eq!(ask(CounterKind::MonotonicRaw, &AtomicU64::new(0), &silent), None);
    }
}
