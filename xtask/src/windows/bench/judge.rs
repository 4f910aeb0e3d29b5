//! The promises for the figures.

use super::rows::{self, Row, Stack, Wait};
use crate::bench::harness::{Bound, Outcome, Verdict};
use tickwire_bench::latency::Latency;

/// By so much a polling program's round trip on the lane is better than on the kernel's sockets.
const POLLING: f64 = 3.0;

/// A figure of the round trips, its name, and whether something is promised of it.
type Figure = (&'static str, fn(&Latency) -> u64, bool);

const FIGURES: [Figure; 3] =
    [("p50", |l| l.p50_ns, true), ("p99.9", |l| l.p999_ns, false), ("max", |l| l.max_ns, false)];

/// All comparisons whose rows were measured.
pub(super) fn check(outcomes: &[Outcome<&'static Row, Latency>]) -> Vec<Verdict> {
    let of = |name: &str, stack: Stack, wait: Wait| -> Option<Latency> {
        let is_it = |row: &Row| row.name == name && row.stack == stack && row.wait == wait;
        outcomes.iter().find(|outcome| is_it(outcome.cell))?.median()
    };
    let mut verdicts = Vec::new();
    for (name, kernels, lanes) in [
        (rows::UDP_ASLEEP, Wait::Asleep, &[Wait::Asleep][..]),
        (rows::UDP_POLLING, Wait::ProgramPolls, &[Wait::ProgramPolls, Wait::LibraryPolls]),
        (rows::TCP_ASLEEP, Wait::Asleep, &[Wait::Asleep]),
        (rows::TCP_POLLING, Wait::ProgramPolls, &[Wait::ProgramPolls, Wait::LibraryPolls]),
    ] {
        for &wait in lanes {
            let pair = of(name, Stack::Kernel, kernels).zip(of(name, Stack::Lane, wait));
            for (figure, of, is_promised) in FIGURES {
                let bound = (is_promised && wait != Wait::Asleep).then_some(Bound::AtLeast(POLLING));
                let promise = format!("{name}, the program {wait}: the kernel's {figure} over the lane's");
                let measured = pair.map(|(kernel, lane)| of(&kernel) as f64 / of(&lane).max(1) as f64);
                verdicts.extend(measured.map(|measured| Verdict { promise, measured, kernel: None, bound }));
            }
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::outcome;
    use super::*;

    #[test]
    fn only_the_medians_of_polling_programs_are_promised() {
        let outcomes = [
            outcome(0, 60_000, 1),
            outcome(1, 50_000, 1),
            outcome(2, 30_000, 90_000),
            outcome(3, 10_000, 10_000),
            outcome(4, 15_000, 1),
        ];
        let told: Vec<_> = check(&outcomes).iter().map(|verdict| (verdict.measured, verdict.kept())).collect();
        assert_eq!(told[..3], [(1.2, None), (1.0, None), (1.0, None)]);
        assert_eq!(told[3..6], [(3.0, Some(true)), (9.0, None), (1.0, None)]);
        assert_eq!(told[6], (2.0, Some(false)));
        assert!(check(&outcomes[..1]).is_empty());
    }
}
