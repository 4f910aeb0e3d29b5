//! The promises for the figures.

use super::rows::{self, Row};
use super::topology::Measured;
use crate::bench::harness::host_pairs::Ends;
use crate::bench::harness::{Bound, Outcome, Verdict};

/// The rows whose round trips a second are compared with the kernel's, and the least allowed ratio.
const RATES: [(&str, f64); 5] = [
    (rows::FOUR, 1.0),
    (rows::SIXTEEN, 1.0),
    (rows::IDLE_THREADS, 0.9),
    (rows::IDLE_PROCESSES, 0.9),
    (rows::REAL_TIME, 0.9),
];

/// All promises whose rows were measured.
pub(super) fn check(outcomes: &[Outcome<&'static Row, Measured>]) -> Vec<Verdict> {
    let of = |name: &str, ends: Ends| -> Option<Measured> {
        outcomes.iter().find(|outcome| outcome.cell.name == name && outcome.cell.ends == ends)?.median()
    };
    let mut verdicts = Vec::new();
    let mut judge = |promise: String, ours: Option<f64>, kernels: Option<f64>, bound: Bound| {
        let measured = ours.zip(kernels).map(|(ours, kernels)| ours / kernels);
        verdicts.extend(measured.map(|measured| Verdict::new(promise, measured, bound)));
    };
    for (name, least) in RATES {
        for ends in [Ends::Client, Ends::Both] {
            let rate = |ends| of(name, ends)?.rate;
            let promise = format!("{name}, {ends}: round trips a second over the kernel's, at least");
            judge(promise, rate(ends), rate(Ends::Kernel), Bound::AtLeast(least));
        }
    }
    for ends in [Ends::Client, Ends::Both] {
        let p50 = |ends| Some(of(rows::OWN_STREAM, ends)?.latency.p50_ns as f64);
        let promise = format!("{}, {ends}: p50 over the kernel's, at most", rows::OWN_STREAM);
        judge(promise, p50(ends), p50(Ends::Kernel), Bound::AtMost(1.2));
    }
    if let Some(sends) = of(rows::SENDS, Ends::Client) {
        let promise = format!("{}: the slowest, in ms, at most", rows::SENDS);
        verdicts.push(Verdict::new(promise, sends.latency.max_ns as f64 / 1e6, Bound::AtMost(1.0)));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;

    #[test]
    fn each_promise_is_judged_by_rows_of_one_name_and_left_out_without_them() {
        let told = |outcomes: &[Outcome<&'static Row, Measured>]| -> Vec<(f64, bool)> {
            check(outcomes).iter().map(|verdict| (verdict.measured, verdict.kept() == Some(true))).collect()
        };
        let kernel = outcome(rows::IDLE_THREADS, Ends::Kernel, 100.0, 1);
        assert_eq!(told(&[kernel]), []);
        let rows = [
            outcome(rows::IDLE_THREADS, Ends::Kernel, 100.0, 1),
            outcome(rows::IDLE_THREADS, Ends::Client, 90.0, 1),
            outcome(rows::IDLE_THREADS, Ends::Both, 80.0, 1),
            outcome(rows::SENDS, Ends::Client, 1.0, 1_100_000),
        ];
        assert_eq!(told(&rows), [(0.9, true), (0.8, false), (1.1, false)]);
    }
}
