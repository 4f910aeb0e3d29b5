//! The promises: no program is slower with an end on Tickwire, and the geometric mean is faster.

use super::figure::{Part, geometric_mean};
use super::outcome::Outcome;
use super::ways::Way;
use crate::bench::harness::Bound;

/// One promise, and whether the figures keep it.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) promise: String,
    /// The ratio to the kernel; none if something was not measured.
    pub(super) measured: Option<f64>,
    pub(super) bound: f64,
    /// The programs that miss it.
    pub(super) missed_by: Vec<String>,
}

impl Verdict {
    pub(super) fn kept(&self) -> bool {
        self.missed_by.is_empty() && self.measured.is_some_and(|measured| Bound::AtLeast(self.bound).holds(measured))
    }
}

/// The bound of each program's ratio.
const EACH: f64 = 1.0;
/// The bound of the mean ratio.
const MEAN: f64 = 1.5;

/// All promises.
pub(super) fn check(outcomes: &[Outcome]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Way::OURS.iter().map(|way| each(outcomes, *way)).collect();
    verdicts.extend(Way::OURS.iter().map(|way| mean(&way.to_string(), outcomes, &[*way])));
    verdicts.push(mean("all ways", outcomes, &Way::OURS));
    verdicts
}

/// The slowest program of a way.
fn each(outcomes: &[Outcome], way: Way) -> Verdict {
    let ratios = || outcomes.iter().map(|outcome| (outcome, outcome.times(way, Part::Value)));
    let missed = |(outcome, times): (&Outcome, Option<f64>)| match times {
        Some(times) if times >= EACH => None,
        Some(times) => Some(format!("{} {times:.2}", outcome.name)),
        None => Some(format!("{} not measured", outcome.name)),
    };
    Verdict {
        promise: format!("{way}: every program"),
        measured: ratios().filter_map(|(_, times)| times).reduce(f64::min),
        bound: EACH,
        missed_by: ratios().filter_map(missed).collect(),
    }
}

fn mean(name: &str, outcomes: &[Outcome], ways: &[Way]) -> Verdict {
    let ratios: Vec<f64> =
        ways.iter().flat_map(|way| outcomes.iter().filter_map(|outcome| outcome.times(*way, Part::Value))).collect();
    Verdict {
        promise: format!("{name}: geometric mean of {} ratios", ratios.len()),
        measured: geometric_mean(&ratios),
        bound: MEAN,
        missed_by: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::outcome;
    use super::*;

    #[test]
    fn a_slow_program_and_one_that_was_not_measured_miss_the_promise() {
        let outcomes = [
            outcome("good", [Some(40.0), Some(10.0), Some(20.0), Some(10.0)]),
            outcome("slow", [Some(40.0), Some(50.0), Some(40.0), Some(20.0)]),
            outcome("hangs", [Some(40.0), Some(40.0), None, Some(40.0)]),
        ];
        let verdicts = check(&outcomes);
        let [client, server, both, ..] = &verdicts[..] else { panic!("{verdicts:?}") };
        assert_eq!((client.kept(), client.measured), (false, Some(0.8)));
        assert_eq!(client.missed_by, ["slow 0.80"]);
        assert_eq!((server.kept(), server.measured), (false, Some(1.0)));
        assert_eq!(server.missed_by, ["hangs not measured"]);
        assert!(both.kept());
        let means: Vec<f64> = verdicts[3..].iter().map(|verdict| verdict.measured.unwrap()).collect();
        assert!((means[2] - 2.0).abs() < 1e-9 && verdicts[5].kept() && !verdicts[4].kept(), "{means:?}");
        assert_eq!(verdicts.len(), 7);
        assert!(verdicts[6].promise.contains("of 8 ratios"));
    }

    #[test]
    fn nothing_measured_keeps_nothing() {
        assert!(check(&[outcome("hangs", [None; 4])]).iter().all(|verdict| !verdict.kept()));
    }
}
