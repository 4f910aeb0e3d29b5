//! The promise: under a flood, the latency of a connection on Tickwire stays within twice that
//! without it.

use super::rows::{Flood, Row};
use crate::bench::data_plane::figures::Measured;
use crate::bench::harness::{Bound, Outcome, Verdict};
use tickwire_bench::latency::Latency;

/// The allowed ratio of latencies with and without a flood.
const BOUND: Bound = Bound::AtMost(2.0);

/// A figure of the round trips, in nanoseconds.
type Figure = fn(&Latency) -> u64;
const FIGURES: [(&str, Figure); 2] = [("p50", |l| l.p50_ns), ("p99", |l| l.p99_ns)];

/// The packets that a flood is compared with, in words.
const BASELINES: [(Option<Flood>, &str); 2] =
    [(None, "without"), (Some(Flood::AbsentHost), "beside as many packets to an absent host")];

/// Four verdicts for each flood that was measured on Tickwire: p50 and p99, each relative to no
/// flood and relative to as many packets to an absent host. Each verdict's text also has the
/// kernel's ratio.
pub(super) fn check(outcomes: &[Outcome<&'static Row, Measured>]) -> Vec<Verdict> {
    let latency = |ours: bool, flood: Option<Flood>| {
        outcomes.iter().find(|outcome| (outcome.cell.ours, outcome.cell.flood) == (ours, flood))?.latency()
    };
    let ratio = |ours: bool, flood: Flood, baseline: Option<Flood>, figure: Figure| {
        let (with, without) = (latency(ours, Some(flood))?, latency(ours, baseline)?);
        Some(figure(&with) as f64 / figure(&without).max(1) as f64)
    };
    let mut verdicts = Vec::new();
    for row in outcomes.iter().map(|outcome| outcome.cell).filter(|row| row.ours) {
        let Some(flood) = row.flood.filter(|flood| *flood != Flood::AbsentHost) else { continue };
        let flood_name = row.name.strip_prefix("Tickwire, ").unwrap_or(row.name);
        for (baseline, words) in BASELINES {
            for (name, figure) in FIGURES {
                let Some(measured) = ratio(true, flood, baseline, figure) else { continue };
                let kernel = ratio(false, flood, baseline, figure);
                let kernel = kernel.map_or(String::new(), |ratio| format!(" (kernel: {ratio:.2})"));
                let promise = format!("{flood_name}: {name} under the flood over {name} {words}{kernel}");
                verdicts.push(Verdict::new(promise, measured, BOUND));
            }
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;
    use crate::bench::data_plane::figures::tests::outcome;

    fn row(name: &str, p50_ns: u64) -> Outcome<&'static Row, Measured> {
        outcome(ROWS.iter().find(|row| row.name == name).unwrap(), p50_ns)
    }

    #[test]
    fn a_flood_is_held_against_none_and_against_packets_to_an_absent_host_and_not_against_the_kernel() {
        let verdicts = check(&[
            row("Tickwire", 10),
            row("kernel", 60),
            row("Tickwire, to an absent host", 12),
            row("Tickwire, SYN", 15),
            row("kernel, SYN", 180),
            row("Tickwire, RST", 21),
        ]);
        let told: Vec<_> = verdicts.iter().map(|v| (v.measured, v.kept() == Some(true))).collect();
        let syn = [(1.5, true), (1.5, true), (1.25, true), (1.25, true)];
        assert_eq!(told, [syn, [(2.1, false), (2.1, false), (1.75, true), (1.75, true)]].concat());
        assert_eq!(verdicts[1].promise, "SYN: p99 under the flood over p99 without (kernel: 3.00)");
        assert!(verdicts[2].promise.ends_with(" beside as many packets to an absent host"), "{}", verdicts[2].promise);
        assert_eq!(check(&[row("Tickwire, SYN", 15)]).len(), 0, "nothing to hold it against");
    }
}
