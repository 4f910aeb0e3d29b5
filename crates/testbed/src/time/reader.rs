//! Repeated comparisons, with random pauses.

use super::experiment::ComparisonSpan;
use super::figures::Tally;
use super::reference::Reference;
use std::time::{Duration, Instant};
use tickclock::Clock;
use tickwire_sim::Rng;

/// Interval of progress reports.
const TELL: Duration = Duration::from_millis(250);

/// Compares a clock with its reference for the duration of `span`; calls `tell` regularly with the
/// seconds passed.
pub(super) fn read(
    reference: &mut dyn Reference,
    clock: &Clock,
    span: ComparisonSpan,
    mut tell: impl FnMut(f64),
) -> Tally {
    let mut tally = Tally::default();
    // Any seed will do, as long as the pauses are in phase with nothing.
    let mut rng = Rng::new(1);
    let pause = span.duration.as_secs_f64() / span.reads.max(1) as f64;
    let begin = Instant::now();
    let (mut next, mut told) = (begin, begin);
    loop {
        let now = Instant::now();
        let passed = now.duration_since(begin);
        if passed >= span.duration {
            return tally;
        }
        if now >= told {
            tell(passed.as_secs_f64());
            told = now + TELL;
        }
        tally.take(reference.compare(clock));
        next += Duration::from_secs_f64(pause * (0.5 + rng.uniform()));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
