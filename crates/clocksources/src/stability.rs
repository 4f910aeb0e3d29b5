//! The stability of counters against a reference over time.

use crate::allan::{Deviation, deviation};
use crate::reach::Counter;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Interval between two samples of all counters.
const INTERVAL: Duration = Duration::from_millis(20);
/// Attempts for one sample; the one between the two closest readings of the reference counts.
const TRIES: usize = 4;

/// The stability of a counter.
#[derive(Clone, Debug, Serialize)]
pub struct Stability {
    /// The counter's name.
    pub counter: String,
    /// Its period in ns by the reference.
    pub period_ns: f64,
    /// Its Allan deviation over growing spans.
    pub allan: Vec<Deviation>,
}

/// The state of one counter during the measurement.
struct Watched<'a> {
    counter: &'a Counter,
    last: u64,
    /// Counts since the first sample, across wraps.
    total: u64,
    /// The reference's ns and the counts, since the first sample.
    looks: Vec<(f64, f64)>,
}

/// Samples all counters against `reference` for `length`.
pub(crate) fn watch(counters: &[Counter], reference: &Counter, length: Duration) -> Vec<Stability> {
    let others = counters.iter().filter(|counter| counter.name != reference.name);
    let mut watched: Vec<_> =
        others.map(|counter| Watched { counter, last: counter.read(), total: 0, looks: Vec::new() }).collect();
    let origin = reference.read();
    let begin = Instant::now();
    // Relative to the start, not to the last sample, so that the samples stay evenly spaced.
    let planned = (length.as_nanos() / INTERVAL.as_nanos()) as u32 + 1;
    for number in 0..planned {
        std::thread::sleep((begin + INTERVAL * number).saturating_duration_since(Instant::now()));
        for one in &mut watched {
            let (_, time, count) = (0..TRIES)
                .map(|_| {
                    let before = reference.read();
                    let count = one.counter.read();
                    let after = reference.read();
                    let width = after.wrapping_sub(before);
                    (width, before.wrapping_sub(origin) as i64 as f64 + width as f64 / 2.0, count)
                })
                .min_by_key(|&(width, ..)| width)
                .expect("tries");
            let passed = count.wrapping_sub(one.last) & (u64::MAX >> (64 - one.counter.bits()));
            one.total += passed;
            one.last = count;
            one.looks.push((time, one.total as f64));
        }
    }
    watched.into_iter().map(|one| evenness(&one.counter.name, &one.looks)).collect()
}

fn evenness(counter: &str, looks: &[(f64, f64)]) -> Stability {
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    let period_ns = (last.0 - first.0) / (last.1 - first.1);
    let phase: Vec<f64> = looks.iter().map(|&(time, count)| (count - first.1) * period_ns - (time - first.0)).collect();
    let interval = INTERVAL.as_secs_f64();
    Stability { counter: counter.to_owned(), period_ns, allan: deviation(&phase, interval) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_period_is_that_of_the_reference() {
        let looks: Vec<_> = (0..100).map(|i| (f64::from(i) * 2e7, f64::from(i) * 6e7)).collect();
        let even = evenness("x", &looks);
        assert!((even.period_ns - 1.0 / 3.0).abs() < 1e-12);
        assert!(even.allan.iter().all(|one| one.deviation < 1e-12), "{even:?}");
    }

    #[test]
    fn clocks_of_this_machine_agree_on_the_second() {
        let (counters, _) = crate::reach::all();
        let raw = counters.iter().find(|c| c.name == "CLOCK_MONOTONIC_RAW").unwrap();
        let all = watch(&counters, raw, Duration::from_millis(200));
        assert_eq!(all.len(), counters.len() - 1);
        let monotonic = all.iter().find(|one| one.counter == "CLOCK_MONOTONIC").unwrap();
        // The kernel steers one against the other by at most 500 ppm; a delayed sample adds some
        // error.
        assert!((monotonic.period_ns - 1.0).abs() < 0.1, "{monotonic:?}");
    }
}
