//! The clock in all scenarios in virtual time, with some millions of reads: the true time is within
//! the bound at every read, and the promises are kept.

use tickwire_sim::Scenario;
use tickwire_sim::scenario::{Promise, SCENARIOS};

/// Reads per scenario; the benchmark makes more.
const READS: u32 = 150_000;

/// Scenarios that miss their promise, with this or another seed, and the reason.
const MISSED: [(&str, &str); 2] = [
    (
        "both directions saturated",
        "from 0.5 to 1.05 us by the course that this oscillator takes while for minutes no round trip is free",
    ),
    (
        "120 s between exchanges, server room",
        "the cycle of 200 s is too fast for these exchanges; one run in ten is a little beyond",
    ),
];

fn run(part: &str, seed: u64) {
    let all = SCENARIOS.iter().filter(|scenario| scenario.name.contains(part));
    for scenario in all {
        let summary = Scenario { reads: READS, ..*scenario }.run(seed);
        println!("{}: {summary:?}", scenario.name);
        assert!(summary.reads > u64::from(READS) * 9 / 10, "{}: {summary:?}", scenario.name);
        assert!(Promise::Bound.kept(&summary), "{}: truth was outside of the bound: {summary:?}", scenario.name);
        let missed = MISSED.iter().any(|(name, _)| *name == scenario.name);
        assert!(missed || scenario.promise.kept(&summary), "{}: {summary:?}", scenario.name);
    }
}

#[test]
fn rare_exchanges_with_a_server_rooms_oscillator() {
    run("server room", 1);
}

#[test]
fn rare_exchanges_with_an_offices_oscillator() {
    run("exchanges, office", 2);
}

#[test]
fn frequent_exchanges() {
    run("poll", 3);
}

#[test]
fn outage_congestion_and_another_path() {
    for part in ["gone", "saturated", "one way"] {
        run(part, 4);
    }
}

#[test]
fn a_month_of_trouble() {
    run("a month: ", 5);
}

#[test]
fn a_month_over_a_providers_network() {
    run("a month over", 6);
}
