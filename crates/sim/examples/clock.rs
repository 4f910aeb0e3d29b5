//! Runs the clock's scenarios in virtual time; arguments: a part of their names, and a seed.

use std::time::Instant;
use tickwire_sim::scenario::SCENARIOS;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let seed = arguments.next().map_or(1, |seed| seed.parse().expect("a seed"));
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&part)) {
        let begin = Instant::now();
        let summary = scenario.run(seed);
        let kept = if scenario.promise.kept(&summary) { "kept" } else { "MISSED" };
        println!("{} ({:.1?}): {:?} {kept}\n    {summary:?}", scenario.name, begin.elapsed(), scenario.promise);
    }
}
