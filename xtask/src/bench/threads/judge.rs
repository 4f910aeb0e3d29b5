//! The promises for the figures.

use super::report::Outcome;
use super::rows;
use super::topology::Measured;
use crate::bench::rivals::Ends;
use crate::bench::targets::Verdict;

/// All promises whose rows were measured.
pub(super) fn check(outcomes: &[Outcome]) -> Vec<Verdict> {
    let of = |name: &str, ends: Ends| -> Option<Measured> {
        outcomes.iter().find(|outcome| outcome.row.name == name && outcome.row.ends == ends)?.median()
    };
    let mut verdicts = Vec::new();
    for (name, least) in [
        (rows::FOUR, 1.0),
        (rows::SIXTEEN, 1.0),
        (rows::IDLE_THREADS, 0.9),
        (rows::IDLE_PROCESSES, 0.9),
        (rows::REAL_TIME, 0.9),
    ] {
        for ends in [Ends::Client, Ends::Both] {
            let rate = |ends| of(name, ends)?.rate;
            if let Some((ours, kernels)) = rate(ends).zip(rate(Ends::Kernel)) {
                let measured = ours / kernels;
                let promise = format!("{name}, {ends}: round trips a second over the kernel's, at least");
                verdicts.push(Verdict { promise, measured, bound: least, kept: measured >= least });
            }
        }
    }
    for ends in [Ends::Client, Ends::Both] {
        let p50 = |ends| Some(of(rows::OWN_STREAM, ends)?.latency.p50_ns as f64);
        if let Some((ours, kernels)) = p50(ends).zip(p50(Ends::Kernel)) {
            let measured = ours / kernels;
            let promise = format!("{}, {ends}: p50 over the kernel's, at most", rows::OWN_STREAM);
            verdicts.push(Verdict { promise, measured, bound: 1.2, kept: measured <= 1.2 });
        }
    }
    if let Some(sends) = of(rows::SENDS, Ends::Client) {
        let measured = sends.latency.max_ns as f64 / 1e6;
        let promise = format!("{}: the slowest, in ms, at most", rows::SENDS);
        verdicts.push(Verdict { promise, measured, bound: 1.0, kept: measured <= 1.0 });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;

    #[test]
    fn each_promise_is_judged_by_rows_of_one_name_and_left_out_without_them() {
        let told = |outcomes: &[Outcome]| -> Vec<(f64, bool)> {
            check(outcomes).iter().map(|verdict| (verdict.measured, verdict.kept)).collect()
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
