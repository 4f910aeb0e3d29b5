//! What the figures must show: ratios between rows of one run.

use super::figures::Outcome;
use tickwire_bench::latency::Latency;

/// One promise, and whether the figures keep it.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The promise.
    pub(crate) promise: String,
    /// What was measured.
    pub(crate) measured: f64,
    /// The bound it is held against.
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
    for (transport, over_floor, over_kernel) in [("UDP", 1.25, 8.0), ("TCP", 1.4, 7.0)] {
        let row = |what: &str| rows.latency(&format!("{transport} {what}"));
        let ours = row("Tickwire, spinning");
        let name = |what: &str| format!("{transport} {what}");
        judge(
            name("p50 over the raw floor through a lane"),
            ratio(ours, rows.latency("raw AF_XDP, lane"), p50),
            Bound::AtMost(over_floor),
        );
        judge(
            name("p50, times better than kernel blocking"),
            ratio(row("kernel, blocking"), ours, p50),
            Bound::AtLeast(over_kernel),
        );
        judge(
            name("p99.9 over the kernel's spinning p99.9"),
            ratio(ours, row("kernel, spinning"), p999),
            Bound::AtMost(1.0),
        );
        for (label, figure) in [("p50", p50), ("p99", p99), ("p99.9", p999)] {
            let one_end = ratio(row("Tickwire to kernel"), row("kernel, blocking"), figure);
            judge(name(&format!("one end accelerated, {label} over kernel to kernel")), one_end, Bound::AtMost(1.0));
        }
        let beside = ratio(row("kernel beside service"), row("kernel, blocking"), p50);
        for (label, figure) in [("p50", p50), ("p99", p99)] {
            let busy = ratio(row("Tickwire, processors busy"), row("kernel, processors busy"), figure);
            judge(
                name(&format!("processors kept busy by others, {label} over the kernel's")),
                busy,
                Bound::AtMost(1.0),
            );
        }
        judge(name("ordinary program beside the service (default attach), p50"), beside, Bound::AtMost(1.1));
    }
    let stream = rows.rate("stream Tickwire");
    judge("one TCP stream, Gbit/s".into(), stream, Bound::AtLeast(4.0));
    let over = stream.zip(rows.rate("stream raw AF_XDP, lane")).map(|(ours, raw)| ours / raw);
    judge("one TCP stream over raw AF_XDP through a lane".into(), over, Bound::AtLeast(0.75));
    let mib = (lane_bytes > 0).then(|| lane_bytes as f64 / f64::from(1 << 20));
    judge("memory of a lane, MiB".into(), mib, Bound::AtMost(32.0));
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
        let verdicts = check(&[row("UDP Tickwire, spinning", 6000), row("UDP kernel, blocking", 60_000)], 0);
        assert_eq!(verdicts.len(), 1);
        assert!(verdicts[0].kept && (verdicts[0].measured - 10.0).abs() < 1e-9);
        let verdicts = check(&[row("UDP Tickwire, spinning", 6000), row("raw AF_XDP, lane", 4000)], 40 << 20);
        assert!(!verdicts[0].kept && !verdicts[1].kept && verdicts.len() == 2);
    }
}
