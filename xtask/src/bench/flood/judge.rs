//! What the figures must show: a connection on Tickwire keeps its latency within twice what it is without the flood.

use super::super::figures::Outcome;
use super::super::targets::Verdict;
use tickwire_bench::latency::Latency;

/// How many times slower a flood may make a connection, in the median.
const BOUND: f64 = 2.0;

/// One verdict for each flood that was measured on Tickwire beside none; the kernel's own ratio stands in its words.
pub(super) fn check(outcomes: &[Outcome]) -> Vec<Verdict> {
    let latency = |name: &str| outcomes.iter().find(|outcome| outcome.name == name).and_then(Outcome::latency);
    let ratio = |who: &str, flood: &str, figure: fn(&Latency) -> u64| {
        let (with, without) = (latency(&format!("{who}, {flood}"))?, latency(who)?);
        Some(figure(&with) as f64 / figure(&without).max(1) as f64)
    };
    let floods = outcomes.iter().filter_map(|outcome| outcome.name.strip_prefix("Tickwire, "));
    floods
        .filter_map(|flood| {
            let measured = ratio("Tickwire", flood, |l| l.p50_ns)?;
            let tail = ratio("Tickwire", flood, |l| l.p99_ns)?;
            let kernel = match (ratio("kernel", flood, |l| l.p50_ns), ratio("kernel", flood, |l| l.p99_ns)) {
                (Some(median), Some(tail)) => format!(" (kernel: {median:.2}, p99 {tail:.2})"),
                _ => String::new(),
            };
            let promise = format!("{flood}: p50 under the flood over p50 without; p99 {tail:.2}{kernel}");
            Some(Verdict { promise, measured, bound: BOUND, kept: measured <= BOUND })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Measured;

    fn row(name: &'static str, p50_ns: u64) -> Outcome {
        let latency = Latency { count: 1, min_ns: 1, p50_ns, p99_ns: p50_ns, p999_ns: p50_ns, max_ns: p50_ns, lost: 0 };
        Outcome { name, rounds: vec![Measured::Latency(latency)], failures: Vec::new() }
    }

    #[test]
    fn a_flood_is_held_against_none_and_not_against_the_kernel() {
        let verdicts = check(&[
            row("Tickwire", 10),
            row("kernel", 60),
            row("Tickwire, SYN", 15),
            row("kernel, SYN", 180),
            row("Tickwire, RST", 21),
        ]);
        let told: Vec<_> = verdicts.iter().map(|v| (v.measured, v.kept)).collect();
        assert_eq!(told, [(1.5, true), (2.1, false)]);
        assert!(verdicts[0].promise.ends_with("(kernel: 3.00, p99 3.00)"), "{}", verdicts[0].promise);
        assert_eq!(check(&[row("Tickwire, SYN", 15)]).len(), 0, "nothing to hold it against");
    }
}
