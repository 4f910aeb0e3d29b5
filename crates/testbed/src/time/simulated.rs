//! Rows in virtual time: a day with the real clock algorithm, a simulated oscillator and a
//! simulated server, in seconds.

use super::figures::{ClockRow, Origin, Tally};
use anyhow::{Context, Result};
use tickwire_sim::scenario::{Change, Promise};
use tickwire_sim::{Delay, OscillatorWander, Scenario};

const DAY: f64 = 86_400.0;
/// As in 2015: this many seconds with a server, and then four hours without.
const SERVED: f64 = 300.0;
const UNSERVED: f64 = 4.0 * 3600.0;
/// Start of that comparison, in seconds from the daemon's start.
const SETTLED: f64 = 60.0;
/// The seed of the simulation.
const SEED: u64 = 1;

/// Description of these rows.
pub(super) const WORDS: &str = "Rows marked virtual: the clock's algorithm in a simulation, with an oscillator in a tightly kept room (a cycle of 1e-8 in 200 s and one of 5e-9 in a day, a random walk of \
     0.015 ppm in a day) and a switch between it and its server. Half a day of lock, then a day of comparisons; for no sync, as in 2015, five minutes with a server and four hours without.";

/// A day with this poll interval in seconds.
pub(super) fn synchronised(interval: f64, reads: u32) -> Result<ClockRow> {
    row(&Scenario { measured: (DAY / 2.0, DAY * 1.5), ..scenario(interval, reads) }, None)
}

/// A server that falls silent after five minutes.
pub(super) fn silenced(interval: f64, reads: u32) -> Result<ClockRow> {
    const SILENCE: &[(f64, Change)] = &[(SERVED, Change::Silent(true))];
    let measured = (SETTLED, SERVED + UNSERVED);
    row(&Scenario { measured, changes: SILENCE, ..scenario(interval, reads) }, Some(SERVED - SETTLED))
}

const fn scenario(interval: f64, reads: u32) -> Scenario {
    Scenario {
        name: "",
        wander: OscillatorWander::SERVER_ROOM,
        path: Delay::LAN,
        poll: interval,
        measured: (0.0, 0.0),
        reads,
        changes: &[],
        again: None,
        promise: Promise::Bound,
    }
}

fn row(scenario: &Scenario, silent_after_s: Option<f64>) -> Result<ClockRow> {
    let differences =
        Tally::simulated(&scenario.figures(SEED)).finish().context("the simulated clock never knew the time")?;
    let (begin, end) = scenario.measured;
    Ok(ClockRow {
        origin: Origin::Virtual,
        interval_s: Some(scenario.poll),
        silent_after_s,
        measured_s: end - begin,
        exchanges: None,
        differences,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_rare_exchanges_keeps_truth_inside_and_a_silent_server_costs_time() {
        let day = synchronised(960.0, 20_000).unwrap();
        let silent = silenced(30.0, 20_000).unwrap();
        for row in [&day, &silent] {
            let found = &row.differences;
            assert_eq!((found.outside, found.missed), (0, 0), "{}", row.name());
            assert!((19_000..21_000).contains(&found.iterations), "{}", found.iterations);
        }
        assert_eq!((day.name().as_str(), day.measured_s), ("960 s, virtual", DAY));
        assert_eq!(silent.name(), "no sync after 240 s, virtual");
        // The scenario of the same name in the benchmark: from -2.79 to 3.83 us, with the opposite
        // sign.
        assert!(
            (-6_000..0).contains(&day.differences.min_ns) && (0..6_000).contains(&day.differences.max_ns),
            "{day:?}"
        );
    }
}
