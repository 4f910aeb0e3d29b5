//! The promises: ratios between rows of one run.

use super::figures::Measured;
use super::rows::Row;
use crate::bench::harness::medians::ratio;
use crate::bench::harness::{Bound, Outcome, Verdict};
use tickwire_bench::latency::Latency;

/// A figure of the round trips, in nanoseconds.
type Figure = fn(&Latency) -> u64;
const P50: Figure = |l| l.p50_ns;
const P99: Figure = |l| l.p99_ns;
const P999: Figure = |l| l.p999_ns;

struct Rows<'a>(&'a [Outcome<&'static Row, Measured>]);

impl Rows<'_> {
    fn find(&self, name: &str) -> Option<&Outcome<&'static Row, Measured>> {
        self.0.iter().find(|outcome| outcome.cell.name == name)
    }

    fn latency(&self, name: &str) -> Option<Latency> {
        self.find(name)?.latency()
    }

    fn rate(&self, name: &str) -> Option<f64> {
        self.find(name)?.rate()
    }
}

/// Half of the difference between the round trips of two sleeping and of two spinning programs, in
/// microseconds.
pub(crate) fn wakeup_us(outcomes: &[Outcome<&'static Row, Measured>]) -> Option<f64> {
    let p50 = |name| Some(Rows(outcomes).latency(name)?.p50_ns as f64);
    Some((p50("UDP kernel, blocking")? - p50("UDP kernel, spinning")?) / 2000.0)
}

/// All promises whose rows were measured. `lane_bytes`: memory of a lane, 0 if none was seen.
pub(crate) fn check(outcomes: &[Outcome<&'static Row, Measured>], lane_bytes: u64) -> Vec<Verdict> {
    let rows = Rows(outcomes);
    let mut verdicts = floors(&rows);
    for transport in ["UDP", "TCP"] {
        verdicts.extend(COMPARED.iter().flat_map(|compared| compared.check(&rows, transport)));
    }
    let stream = rows.rate("stream Tickwire");
    let over = stream.zip(rows.rate("stream kernel, 1500-byte frames")).map(|(ours, kernels)| ours / kernels);
    let promise = "one TCP stream over the kernel's with frames of 1500 bytes";
    verdicts.extend(over.map(|over| Verdict::new(promise.into(), over, Bound::AtLeast(0.9))));
    let mib = (lane_bytes > 0).then(|| lane_bytes as f64 / f64::from(1 << 20));
    verdicts.extend(mib.map(|mib| Verdict::new("memory of a lane, MiB".into(), mib, Bound::AtMost(16.0))));
    verdicts
}

/// The raw lane, without a stack.
fn floors(rows: &Rows<'_>) -> Vec<Verdict> {
    let floor = |(mode, bound): (&str, f64)| {
        let kernel = rows.latency("UDP kernel, spinning");
        let measured = ratio(rows.latency(&format!("raw lane, {mode}")), kernel, P50)?;
        let promise = format!("raw floor of the lane, {mode}, p50 over the kernel's spinning UDP");
        Some(Verdict::new(promise, measured, Bound::AtMost(bound)))
    };
    [("native", 0.55), ("tc", 0.65)].into_iter().filter_map(floor).collect()
}

/// One of our rows, and the kernel's row that it is compared with. There is one of each for UDP and
/// for TCP.
struct Compared {
    what: &'static str,
    ours: &'static str,
    kernels: &'static str,
    /// Of p50, p99 and p99.9.
    bounds: [Option<f64>; 3],
}

const fn compared(what: &'static str, ours: &'static str, kernels: &'static str, bounds: [Option<f64>; 3]) -> Compared {
    Compared { what, ours, kernels, bounds }
}

const COMPARED: [Compared; 8] = [
    compared("spinning", "Tickwire, spinning", "kernel, spinning", [Some(0.7), Some(0.7), Some(1.0)]),
    compared("sleeping", "Tickwire, sleeping", "kernel, blocking", [Some(1.0), Some(1.0), None]),
    compared("adaptive against blocking", "Tickwire, adaptive", "kernel, blocking", [Some(0.5), Some(0.8), None]),
    compared("one end, sleeping", "Tickwire to kernel, sleeping", "kernel, blocking", [Some(0.95), Some(0.95), None]),
    compared("one end, adaptive against blocking", "Tickwire to kernel", "kernel, blocking", [Some(1.0); 3]),
    compared("processors busy", "Tickwire, processors busy", "kernel, processors busy", [Some(1.0), Some(1.0), None]),
    compared(
        "processors busy, real-time priority granted",
        "Tickwire, processors busy, real-time priority granted",
        "kernel, processors busy",
        [Some(1.0), Some(1.0), None],
    ),
    compared(
        "ordinary program beside the service",
        "kernel beside service",
        "kernel, blocking",
        [Some(1.05), None, None],
    ),
];

impl Compared {
    fn check(&self, rows: &Rows<'_>, transport: &str) -> Vec<Verdict> {
        let row = |name: &str| rows.latency(&format!("{transport} {name}"));
        let (ours, kernels) = (row(self.ours), row(self.kernels));
        let figures = [("p50", P50), ("p99", P99), ("p99.9", P999)].into_iter().zip(self.bounds);
        let judge = |((label, figure), bound): ((&str, Figure), Option<f64>)| {
            let measured = ratio(ours, kernels, figure)?;
            let promise = format!("{transport} {}, {label} over the kernel's", self.what);
            Some(Verdict::new(promise, measured, Bound::AtMost(bound?)))
        };
        figures.filter_map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::outcome;
    use super::super::rows::ROWS;
    use super::*;

    fn row(name: &str, p50_ns: u64) -> Outcome<&'static Row, Measured> {
        outcome(ROWS.iter().find(|row| row.name == name).unwrap(), p50_ns)
    }

    #[test]
    fn a_promise_is_judged_by_the_ratio_of_its_rows_and_left_out_without_them() {
        let verdicts = check(&[row("UDP Tickwire, adaptive", 6000), row("UDP kernel, blocking", 60_000)], 0);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts[0].kept() == Some(true) && (verdicts[0].measured - 0.1).abs() < 1e-9);
        let verdicts = check(&[row("raw lane, native", 4000), row("UDP kernel, spinning", 5000)], 40 << 20);
        assert_eq!(verdicts.iter().map(Verdict::kept).collect::<Vec<_>>(), [Some(false); 2]);
    }

    #[test]
    fn every_row_that_is_compared_is_measured() {
        for Compared { ours, kernels, .. } in COMPARED {
            for name in [ours, kernels] {
                for transport in ["UDP", "TCP"] {
                    let name = format!("{transport} {name}");
                    assert!(ROWS.iter().any(|row| row.name == name), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_wakeup_costs_half_of_the_difference() {
        let rows = [row("UDP kernel, blocking", 22_000), row("UDP kernel, spinning", 11_000)];
        assert_eq!((wakeup_us(&rows), wakeup_us(&rows[..1])), (Some(5.5), None));
    }
}
