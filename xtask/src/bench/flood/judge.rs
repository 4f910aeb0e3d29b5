//! The promise: under a flood, the latency of a connection on Tickwire stays within twice that
//! without it.

use super::super::figures::Outcome;
use super::super::targets::Verdict;
use tickwire_bench::latency::Latency;

/// The allowed ratio of latencies with and without a flood.
const BOUND: f64 = 2.0;

/// A figure of the round trips, in nanoseconds.
type Figure = fn(&Latency) -> u64;
const FIGURES: [(&str, Figure); 2] = [("p50", |l| l.p50_ns), ("p99", |l| l.p99_ns)];

/// The baseline that a flood is compared with.
#[derive(Clone, Copy)]
enum Against {
    None,
    Nobody,
}

impl Against {
    fn row(self, who: &str) -> String {
        match self {
            Self::None => who.to_owned(),
            Self::Nobody => format!("{who}, {CONTROL}"),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::None => "without",
            Self::Nobody => "beside as many packets for nobody",
        }
    }
}

/// The row whose packets go to a host that does not exist.
const CONTROL: &str = "to nobody";

/// Four verdicts for each flood that was measured on Tickwire: p50 and p99, each relative to no
/// flood and relative to as many packets to an absent host. Each verdict's text also has the
/// kernel's ratio.
pub(super) fn check(outcomes: &[Outcome]) -> Vec<Verdict> {
    let latency = |name: &str| outcomes.iter().find(|outcome| outcome.name == name).and_then(Outcome::latency);
    let ratio = |who: &str, flood: &str, against: Against, figure: Figure| {
        let (with, without) = (latency(&format!("{who}, {flood}"))?, latency(&against.row(who))?);
        Some(figure(&with) as f64 / figure(&without).max(1) as f64)
    };
    let mut verdicts = Vec::new();
    let floods = outcomes.iter().filter_map(|outcome| outcome.name.strip_prefix("Tickwire, "));
    for flood in floods.filter(|flood| *flood != CONTROL) {
        for against in [Against::None, Against::Nobody] {
            for (name, figure) in FIGURES {
                let Some(measured) = ratio("Tickwire", flood, against, figure) else { continue };
                let kernel = ratio("kernel", flood, against, figure)
                    .map_or(String::new(), |ratio| format!(" (kernel: {ratio:.2})"));
                let promise = format!("{flood}: {name} under the flood over {name} {}{kernel}", against.words());
                verdicts.push(Verdict { promise, measured, bound: BOUND, kept: measured <= BOUND });
            }
        }
    }
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
    fn a_flood_is_held_against_none_and_against_packets_to_an_absent_host_and_not_against_the_kernel() {
        let verdicts = check(&[
            row("Tickwire", 10),
            row("kernel", 60),
            row("Tickwire, to nobody", 12),
            row("Tickwire, SYN", 15),
            row("kernel, SYN", 180),
            row("Tickwire, RST", 21),
        ]);
        let told: Vec<_> = verdicts.iter().map(|v| (v.measured, v.kept)).collect();
        let syn = [(1.5, true), (1.5, true), (1.25, true), (1.25, true)];
        assert_eq!(told, [syn, [(2.1, false), (2.1, false), (1.75, true), (1.75, true)]].concat());
        assert!(verdicts[1].promise.ends_with("p99 without (kernel: 3.00)"), "{}", verdicts[1].promise);
        assert_eq!(check(&[row("Tickwire, SYN", 15)]).len(), 0, "nothing to hold it against");
    }
}
