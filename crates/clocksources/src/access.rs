//! The duration of a reading: two readings of the processor's counter with the measured one between
//! them (section IV-C of the paper).

use crate::load::CounterLoad;
use crate::reach::Counter;
use hdrhistogram::Histogram;
use serde::Serialize;
use tickclock::{CounterKind, Scale, counter};

/// Upper limit of a duration in ns; longer ones are recorded as this.
const LONGEST_NS: u64 = 10_000_000_000;

/// The durations of readings of one counter under one load, in ns. They include the two readings
/// around it: see the row `(nothing)`.
#[derive(Clone, Debug, Serialize)]
pub struct Access {
    /// The counter.
    pub counter: String,
    /// The load.
    pub load: CounterLoad,
    /// Number of readings.
    pub reads: u64,
    /// The quickest.
    pub min_ns: f64,
    /// A quarter took less.
    pub p25_ns: f64,
    /// Half of them took longer.
    pub p50_ns: f64,
    /// A quarter took longer.
    pub p75_ns: f64,
    /// One in twenty took longer.
    pub p95_ns: f64,
    /// One in a hundred took longer.
    pub p99_ns: f64,
    /// One in a thousand took longer.
    pub p999_ns: f64,
    /// The slowest.
    pub max_ns: f64,
    /// The latency profile.
    pub profile: Vec<Longer>,
}

/// The part of the readings that took longer than `ns`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Longer {
    /// The duration in ns.
    pub ns: f64,
    /// The part, from 0 to 1.
    pub part: f64,
}

/// The name of the row with the duration of the measurement itself.
pub(crate) const NOTHING: &str = "(nothing)";

/// Measures one counter; `None` measures the overhead of the measurement.
pub(crate) fn measure(
    what: Option<&Counter>,
    load: CounterLoad,
    reads: u64,
    stamp: CounterKind,
    scale: Scale,
) -> Access {
    let ticks = (LONGEST_NS as f64 / scale.period()) as u64;
    let mut histogram = Histogram::<u64>::new_with_max(ticks.max(2), 3).expect("bounds are in order");
    for _ in 0..reads {
        let before = counter::read(stamp);
        if let Some(what) = what {
            std::hint::black_box(what.read());
        }
        let after = counter::read(stamp);
        histogram.saturating_record(after.since(before) as u64);
    }
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 * scale.period();
    let mut longer = histogram.len();
    let profile = histogram
        .iter_recorded()
        .map(|step| {
            longer -= step.count_since_last_iteration();
            Longer { ns: step.value_iterated_to() as f64 * scale.period(), part: longer as f64 / reads as f64 }
        })
        .collect();
    Access {
        counter: what.map_or(NOTHING, |what| &what.name).to_owned(),
        load,
        reads,
        min_ns: histogram.min() as f64 * scale.period(),
        p25_ns: at(0.25),
        p50_ns: at(0.5),
        p75_ns: at(0.75),
        p95_ns: at(0.95),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: histogram.max() as f64 * scale.period(),
        profile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_order_and_the_profile_falls_to_nothing() {
        let (stamp, _) = tickwire_timekeeper::hardware::choose();
        let scale = tickwire_timekeeper::hardware::nominal(stamp).unwrap();
        let (found, _) = crate::reach::all();
        let raw = found.iter().find(|counter| counter.name == "CLOCK_MONOTONIC_RAW").unwrap();
        let nothing = measure(None, CounterLoad::Idle, 1000, stamp, scale);
        let access = measure(Some(raw), CounterLoad::Idle, 1000, stamp, scale);
        assert_eq!((&*nothing.counter, &*access.counter), (NOTHING, "CLOCK_MONOTONIC_RAW"));
        for a in [&nothing, &access] {
            let figures = [a.min_ns, a.p25_ns, a.p50_ns, a.p75_ns, a.p95_ns, a.p99_ns, a.p999_ns];
            assert!(figures.is_sorted(), "{figures:?}");
            assert!(a.profile.is_sorted_by(|a, b| a.ns < b.ns && a.part > b.part), "{:?}", a.profile);
            assert_eq!(a.profile.last().unwrap().part, 0.0);
        }
        assert!(access.min_ns > nothing.min_ns, "a reading takes time");
    }
}
