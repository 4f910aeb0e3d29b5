//! Whether the processors' counters agree: a clock is read on any of them.
//!
//! Two threads on two processors hand stamps to each other. A stamp that has come over cannot be
//! later than the counter that receives it; if it is, that counter is behind. In both directions
//! the quickest hand-over bounds by how much the two can differ at all: `back <= offset <= forth`,
//! as in an exchange with a server (RFC 5905 §8).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tickclock::{CounterKind, counter};

/// Hand-overs between two processors.
const ROUNDS: u32 = 500;
/// How long two processors may take; one that is busy is left out.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long all may take: of a machine with hundreds of processors some are left out.
const ALTOGETHER: Duration = Duration::from_millis(500);
/// How many looks at a stamp that has not come are made between two looks at the time.
const LOOKS: u32 = 1024;

/// What a comparison of processors has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// So many processors agree with the first one, to within so many counts.
    Within {
        /// How many were compared.
        processors: usize,
        /// How far two of them can be apart.
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
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return none };
    let mut processors = (0..CpuSet::count()).filter(|&processor| allowed.is_set(processor).unwrap_or(false));
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

/// By how many counts the second counter can be ahead of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    /// At most by this: the quickest hand-over to the second, by both counters.
    forth: i64,
    /// Behind at most by this: the quickest one back.
    back: i64,
}

impl Offset {
    /// What took less than no time shows that they are apart.
    fn apart(self) -> Option<u64> {
        let least = self.forth.min(self.back);
        (least < 0).then_some(least.unsigned_abs())
    }

    /// How far they can be apart.
    fn most(self) -> u64 {
        self.forth.max(self.back).unsigned_abs()
    }
}

/// Hands stamps to and fro between two processors; `None` if they had no time, or may not be used.
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

/// Runs something on one processor.
fn on<T>(processor: usize, run: impl FnOnce() -> Option<T>) -> Option<T> {
    let mut only = CpuSet::new();
    only.set(processor).ok()?;
    sched_setaffinity(Pid::from_raw(0), &only).ok()?;
    run()
}

/// Hands stamps over and takes those that come back; gives the quickest way back.
fn ask(kind: CounterKind, forth: &AtomicU64, back: &AtomicU64) -> Option<i64> {
    let until = Instant::now() + PATIENCE;
    let (mut last, mut quickest) = (0, i64::MAX);
    for _ in 0..ROUNDS {
        forth.store(stamp(kind), Ordering::Release);
        last = await_change(back, last, until)?;
        quickest = quickest.min(stamp(kind).wrapping_sub(last) as i64);
    }
    Some(quickest)
}

/// Takes stamps and hands others back; gives the quickest way forth.
fn answer(kind: CounterKind, forth: &AtomicU64, back: &AtomicU64) -> Option<i64> {
    let until = Instant::now() + PATIENCE;
    let (mut last, mut quickest) = (0, i64::MAX);
    for _ in 0..ROUNDS {
        last = await_change(forth, last, until)?;
        quickest = quickest.min(stamp(kind).wrapping_sub(last) as i64);
        back.store(stamp(kind), Ordering::Release);
    }
    Some(quickest)
}

/// The counter; never 0, which is what stands there before anything was handed over.
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
        // The other one may have to share this processor with us, if somebody forbade us the other.
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
    fn who_never_answers_is_left_out() {
        let silent = AtomicU64::new(0);
        assert_eq!(ask(CounterKind::MonotonicRaw, &AtomicU64::new(0), &silent), None);
    }
}
