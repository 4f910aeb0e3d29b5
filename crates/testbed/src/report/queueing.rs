//! Queueing delays, by timing (slide 6 of 2015).

use crate::outcome::{Run, Times, Timing};

/// The queueing delays of one timing: each message's latency less the minimum of its stream in all
/// compared runs. This removes what is constant for a stream (the path, its own transmission, the
/// program's latency).
#[derive(Clone, Debug)]
pub struct Queueing {
    /// The timing.
    pub timing: Timing,
    /// The delays of all messages of all streams.
    pub delays: Times,
    /// Ratio of the 99th percentile in the synchronised run to this run's, if the synchronised run
    /// was measured.
    pub below_synchronised: Option<f64>,
}

/// The queueing delays of each run, in their order.
#[must_use]
pub fn queueing(runs: &[Run]) -> Vec<Queueing> {
    let least = |stream: usize| runs.iter().filter_map(|run| Some(run.streams.get(stream)?.histogram.first()?.0)).min();
    let delays = |run: &Run| {
        let mut all = Times::default();
        for (index, stream) in run.streams.iter().enumerate() {
            let least = least(index).unwrap_or(0);
            let over: Vec<(u64, u64)> =
                stream.histogram.iter().map(|&(ns, count)| (ns.saturating_sub(least), count)).collect();
            all.add(&Times::from_pairs(&over));
        }
        all
    };
    let all: Vec<(Timing, Times)> = runs.iter().map(|run| (run.timing, delays(run))).collect();
    let p99 = |times: &Times| (times.count() > 0).then(|| times.summary().p99_ns as f64);
    let worst = all.iter().find(|(timing, _)| *timing == Timing::Synchronised).and_then(|(_, times)| p99(times));
    all.into_iter()
        .map(|(timing, delays)| {
            let below_synchronised = worst.zip(p99(&delays)).map(|(worst, own)| worst / own);
            Queueing { timing, delays, below_synchronised }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Carrier, StreamFigures, Usage};

    fn run(timing: Timing, histograms: &[&[(u64, u64)]]) -> Run {
        let streams =
            histograms.iter().map(|pairs| StreamFigures { histogram: pairs.to_vec(), ..StreamFigures::default() });
        Run {
            carrier: Carrier::Kernel,
            timing,
            rate: 1,
            duration_ns: 1,
            streams: streams.collect(),
            consumer: Usage::default(),
            diverted: None,
            accelerated: None,
            drops: Vec::new(),
            faults: Vec::new(),
        }
    }

    #[test]
    fn a_delay_is_what_is_above_the_least_of_the_stream_in_any_run() {
        let synchronised = run(Timing::Synchronised, &[&[(150_000, 1), (600_000, 9)], &[(5_000_000, 10)]]);
        let scheduled = run(Timing::Scheduled, &[&[(100_000, 10)], &[(4_900_000, 9), (5_000_000, 1)]]);
        let found = queueing(&[synchronised, scheduled]);
        let summaries: Vec<_> = found.iter().map(|one| one.delays.summary()).collect();
        // The histogram's resolution is three digits.
        let about = |ns: u64, expected: u64| ns.abs_diff(expected) <= expected / 500;
        assert!(about(summaries[0].max_ns, 500_000) && about(summaries[0].min_ns, 50_000), "{summaries:?}");
        assert!(about(summaries[1].max_ns, 100_000) && summaries[1].min_ns == 1, "{summaries:?}");
        assert_eq!((summaries[0].count, summaries[1].count), (20, 20));
        assert_eq!(found[0].below_synchronised, Some(1.0));
        assert!((found[1].below_synchronised.unwrap() - 5.0).abs() < 0.02);
    }

    #[test]
    fn without_a_synchronised_run_or_without_messages_there_is_nothing_to_compare_with() {
        let found = queueing(&[run(Timing::Scheduled, &[&[(5, 1)]])]);
        assert_eq!(found[0].below_synchronised, None);
        let found = queueing(&[run(Timing::Synchronised, &[&[]]), run(Timing::Scheduled, &[&[(5, 1)]])]);
        assert_eq!((found[0].delays.count(), found[1].below_synchronised), (0, None));
        assert!(queueing(&[]).is_empty());
    }
}
