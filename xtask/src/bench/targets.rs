//! The promises: ratios between rows of one run.

use super::figures::Outcome;
use tickwire_bench::latency::Latency;

/// One promise, and whether the figures keep it.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The promise.
    pub(crate) promise: String,
    /// What was measured.
    pub(crate) measured: f64,
    /// The bound of the promise.
    pub(crate) bound: f64,
    /// Whether it is kept.
    pub(crate) kept: bool,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

struct Rows<'a>(&'a [Outcome]);

impl Rows<'_> {
    fn latency(&self, name: &str) -> Option<Latency> {
        self.0.iter().find(|o| o.name == name)?.latency()
    }

    fn rate(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|o| o.name == name)?.rate()
    }
}

/// All promises whose rows were measured. `lane_bytes`: memory of a lane, 0 if none was seen.
pub(crate) fn check(outcomes: &[Outcome], lane_bytes: u64) -> Vec<Verdict> {
    let rows = Rows(outcomes);
    let mut verdicts = Vec::new();
    let mut judge = |promise: String, measured: Option<f64>, bound: Bound| {
        if let Some(measured) = measured {
            let (bound, kept) = match bound {
                Bound::AtMost(bound) => (bound, measured <= bound),
                Bound::AtLeast(bound) => (bound, measured >= bound),
            };
            verdicts.push(Verdict { promise, measured, bound, kept });
        }
    };
    let ratio = |a: Option<Latency>, b: Option<Latency>, figure: fn(&Latency) -> u64| {
        Some(figure(&a?) as f64 / figure(&b?) as f64)
    };
    let p50: fn(&Latency) -> u64 = |l| l.p50_ns;
    let p99: fn(&Latency) -> u64 = |l| l.p99_ns;
    let p999: fn(&Latency) -> u64 = |l| l.p999_ns;
    let floor = |row: &str| ratio(rows.latency(row), rows.latency("UDP kernel, spinning"), p50);
    judge(
        "raw floor of the lane, native, p50 over the kernel's spinning UDP".into(),
        floor("raw lane, native"),
        Bound::AtMost(0.55),
    );
    judge(
        "raw floor of the lane, tc, p50 over the kernel's spinning UDP".into(),
        floor("raw lane, tc"),
        Bound::AtMost(0.65),
    );
    for transport in ["UDP", "TCP"] {
        let row = |what: &str| rows.latency(&format!("{transport} {what}"));
        // Each of our rows with the kernel's row that it is compared with, and the bounds of p50,
        // p99 and p99.9.
        for (what, ours, kernels, bounds) in [
            ("spinning", "Tickwire, spinning", "kernel, spinning", [Some(0.7), Some(0.7), Some(1.0)]),
            ("sleeping", "Tickwire, sleeping", "kernel, blocking", [Some(1.0), Some(1.0), None]),
            ("adaptive against blocking", "Tickwire, adaptive", "kernel, blocking", [Some(0.5), Some(0.8), None]),
            ("one end, sleeping", "Tickwire to kernel, sleeping", "kernel, blocking", [Some(0.95), Some(0.95), None]),
            ("one end, adaptive against blocking", "Tickwire to kernel", "kernel, blocking", [Some(1.0); 3]),
            ("processors busy", "Tickwire, processors busy", "kernel, processors busy", [Some(1.0), Some(1.0), None]),
            (
                "processors busy, real-time priority granted",
                "Tickwire, processors busy, real-time priority granted",
                "kernel, processors busy",
                [Some(1.0), Some(1.0), None],
            ),
            (
                "ordinary program beside the service",
                "kernel beside service",
                "kernel, blocking",
                [Some(1.05), None, None],
            ),
        ] {
            for ((label, figure), bound) in [("p50", p50), ("p99", p99), ("p99.9", p999)].into_iter().zip(bounds) {
                if let Some(bound) = bound {
                    let promise = format!("{transport} {what}, {label} over the kernel's");
                    judge(promise, ratio(row(ours), row(kernels), figure), Bound::AtMost(bound));
                }
            }
        }
    }
    let stream = rows.rate("stream Tickwire");
    let over = stream.zip(rows.rate("stream kernel, 1500-byte frames")).map(|(ours, kernels)| ours / kernels);
    judge("one TCP stream over the kernel's with frames of 1500 bytes".into(), over, Bound::AtLeast(0.9));
    let mib = (lane_bytes > 0).then(|| lane_bytes as f64 / f64::from(1 << 20));
    judge("memory of a lane, MiB".into(), mib, Bound::AtMost(16.0));
    verdicts
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
    fn a_promise_is_judged_by_the_ratio_of_its_rows_and_left_out_without_them() {
        let verdicts = check(&[row("UDP Tickwire, adaptive", 6000), row("UDP kernel, blocking", 60_000)], 0);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts[0].kept && (verdicts[0].measured - 0.1).abs() < 1e-9);
        let verdicts = check(&[row("raw lane, native", 4000), row("UDP kernel, spinning", 5000)], 40 << 20);
        assert!(!verdicts[0].kept && !verdicts[1].kept && verdicts.len() == 2);
    }
}
