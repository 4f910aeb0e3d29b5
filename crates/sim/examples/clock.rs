//! Runs the clock's scenarios in virtual time. Arguments: a substring of their names, the number of
//! seeds, the number of clock reads of each.

use tickwire_sim::Scenario;
use tickwire_sim::scenario::SCENARIOS;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let mut number = |usual: u32| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (seeds, reads) = (number(1), number(100_000));
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&part)) {
        let all: Vec<_> = (1..=seeds).map(|seed| Scenario { reads, ..*scenario }.run(seed.into())).collect();
        let kept = all.iter().filter(|summary| scenario.promise.kept(summary)).count();
        let outside: u64 = all.iter().map(|summary| summary.outside).sum();
        println!("{}: {:?} kept {kept} of {seeds}, outside {outside}", scenario.name, scenario.promise);
        for summary in all {
            print!("   [{} {}] p99 {}", summary.range.0, summary.range.1, summary.p99);
        }
        println!();
    }
}
